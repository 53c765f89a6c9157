"""Claims partitions for an assignment: fences and settles their former owners, then points their claims to its log.

1. Read the claims, and the logs that they name. Close each log that is not closed: this fences the **whole** former
   assignment. Only then look at its batch and settle it (``app.journal.recovery``).
2. Ask Kafka, and choose the first offset of each partition (``app.journal.start_offset``).
3. Write how far each partition is written into our own log, together with the list of rolled-back objects.
4. Point the claims to it. A claim that another member has changed meanwhile begins again with step 1; so it does in
   step 2 where Kafka's offset contradicts the log.
5. Put placeholders in place of these objects (``OwnLog.remove_rolled_back``). Then the partitions may be read.

Each step may be repeated from the first, by this member or by another one at the same time.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from app.errors import ConfigError, FatalError, RetryableError
from app.journal.journal import FencedError, Journal, PartitionClaim
from app.journal.log import AssignmentLog
from app.journal.own_log import OwnLog
from app.journal.recovery import Settlement
from app.journal.start_offset import Begin, Beginnings, Start
from app.kafka.questions import PartitionOffsets
from app.model import TopicPartition
from app.storage.base import ChangedError
from app.storage.document import Document

_TRIED = 5
_K = TypeVar("_K")
_V = TypeVar("_V")
_Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class Takeover:
    """Claims partitions; safe from several threads."""

    journal: Journal
    settlement: Settlement
    beginnings: Beginnings
    each: _Each = map  # applied to every partition or log, possibly side by side

    def would_begin(self, tp: TopicPartition) -> tuple[Start, PartitionOffsets]:
        """Where the partition would begin, and its offsets in Kafka; claims nothing."""
        kafka = self.beginnings.offsets.of(tp)  # before the log: a member that goes on commits only what its log has
        claim = self.journal.claim(tp).read()
        log = self.journal.log(claim.owner).read() if claim else None
        former = log.of(tp) if log else None
        if former is not None:
            self.beginnings.check(tp, former, kafka.cluster_id)
        return self.beginnings.start(tp, former, kafka), kafka

    def claim(
        self, tps: Collection[TopicPartition], own: OwnLog, *, is_again: bool = False
    ) -> dict[TopicPartition, Begin]:
        """Steps 1 to 4 for the assignment with this log; returns how those partitions begin that are claimed now.

        The others met an error that may pass, as without a leader, or another member: call again for these. After an
        error, which is one of all of them, the call may be repeated. ``is_again`` as for ``Beginnings.of``.
        """
        cluster_id = self.beginnings.offsets.cluster_id()
        for _ in range(_TRIED):
            one_round = _Round(self, own, cluster_id, is_again=is_again)
            if begun := one_round.claim(tps):
                return begun
            if one_round.errors:
                raise one_round.errors[0]
        raise FencedError(f"others claim {', '.join(map(str, sorted(tps)))} at the same time")


@dataclass(slots=True)
class _Round:
    """Steps 1 to 4, once. Leaves out partitions whose claims others have changed, and those that met an error."""

    takeover: Takeover
    own: OwnLog
    cluster_id: str
    is_again: bool
    errors: list[RetryableError] = field(default_factory=list)

    def claim(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Begin]:
        claims = self._possible(self._read_claim, tps)
        former = self._settled(claims)

        def begin(tp: TopicPartition) -> Begin | None:
            log = former[tp]
            progress = log.of(tp) if log else None
            try:
                return self.takeover.beginnings.of(tp, progress, is_again=self.is_again)
            except ConfigError:
                if claims[tp].is_unchanged():
                    raise
                return None  # another member has claimed, written and committed since

        begins = {tp: its for tp, its in self._possible(begin, former).items() if its is not None}
        if not begins:
            return {}
        self.own.check_open()  # it may have taken long: the next owner may be writing the first claim
        revoked = [item for log in former.values() if log for item in log.revoked]
        self.own.take_over([each.progress for each in begins.values()], revoked)
        pointed = self._possible(lambda tp: self._point(claims[tp], begins[tp]), begins)
        return {tp: begins[tp] for tp, is_ours in pointed.items() if is_ours}

    def _possible(self, work: Callable[[_K], _V], items: Iterable[_K]) -> dict[_K, _V]:
        """Do the work for each item; the results of those for which it worked. The other errors are kept."""

        def attempt(item: _K) -> tuple[_K, _V | RetryableError]:
            try:
                return item, work(item)
            except RetryableError as error:
                return item, error

        done: dict[_K, _V] = {}
        for item, result in self.takeover.each(attempt, items):
            if isinstance(result, RetryableError):
                self.errors.append(result)
            else:
                done[item] = result
        return done

    # --- 1 ----------------------------------------------------------------------------------------------------------

    def _read_claim(self, tp: TopicPartition) -> Document[PartitionClaim]:
        claim = self.takeover.journal.claim(tp)
        claim.read()
        return claim

    def _settled(
        self, claims: Mapping[TopicPartition, Document[PartitionClaim]]
    ) -> dict[TopicPartition, AssignmentLog | None]:
        """The settled log of the former owner of each partition; ``None`` where it has had none."""
        tps_of: dict[str, list[TopicPartition]] = {}
        for tp, claim in claims.items():
            if claim.current is not None:
                tps_of.setdefault(claim.current.owner, []).append(tp)
        logs = self._possible(lambda owner: self._settled_log(owner, tps_of[owner], claims), tps_of)
        found: dict[TopicPartition, AssignmentLog | None] = {
            tp: None for tp, claim in claims.items() if claim.current is None
        }
        return found | {tp: log for owner, log in logs.items() if log for tp in tps_of[owner]}

    def _settled_log(
        self, owner: str, tps: Sequence[TopicPartition], claims: Mapping[TopicPartition, Document[PartitionClaim]]
    ) -> AssignmentLog | None:
        """Close a former log, unless it is our own, and settle it; ``None`` if the claims name another one by now."""
        document = self.takeover.journal.log(owner)
        doing = f"reading the journal {document.where}"
        log = document.read()
        if log is None:
            if all(claims[tp].is_unchanged() for tp in tps):
                raise FatalError(
                    doing,
                    "it is gone, and the claim of " + ", ".join(map(str, tps)) + " names it",
                    "Restore the object. If the claims beside it are deleted too, the connector goes on from the "
                    "offset committed in Kafka, and rows may then come twice",
                )
            return None
        for tp in tps:
            progress = log.of(tp)
            if progress is None:
                cause = f"the claim of {tp} names it, and it does not have that partition"
                hint = "Restore the claim and the log from the same moment, or report this as a bug"
                raise FatalError(doing, cause, hint)
            self.takeover.beginnings.check(tp, progress, self.cluster_id)
        return log if owner == self.own.token else self._closed(document)

    def _closed(self, document: Document[AssignmentLog]) -> AssignmentLog:
        for _ in range(_TRIED):
            self.own.check_open()
            assert document.current is not None  # noqa: S101 - the caller has read it
            try:
                if not document.current.closed:
                    document.write(document.current.changed(closed=True, writer=self.own.token))
                self.takeover.settlement.settle(document)
            except ChangedError:
                if document.read() is None:
                    break
            else:
                return document.current
        raise FencedError(f"others write {document.where} at the same time")

    # --- 4 ----------------------------------------------------------------------------------------------------------

    def _point(self, claim: Document[PartitionClaim], begin: Begin) -> bool:
        """Let the claim name our log; ``False`` if another member has changed it."""
        current = claim.current
        if current is not None and current.owner == self.own.token:
            return True
        seq = current.seq + 1 if current else 1
        new = PartitionClaim(seq=seq, owner=self.own.token, cluster_id=begin.progress.cluster_id)
        self.own.check_open()
        try:
            claim.write(new)
        except ChangedError:
            return False
        return True
