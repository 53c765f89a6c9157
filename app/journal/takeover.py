"""Claims partitions for an assignment: fences the former owners, settles their batches, then writes the claims.

1. Read the claims and their owners' logs. Close each open log, which fences the **complete** former assignment. After
   that, read the log's batch and settle it (``app.journal.recovery``).
2. Query Kafka, and choose the first offset of each partition (``app.journal.start_offset``).
3. Write the end of each partition and the list of rolled-back objects into the new assignment's log.
4. Write the new log's token into each claim. If another member has changed a claim, or if Kafka's offset in step 2
   contradicts the log, begin again with step 1.
5. Put placeholders in place of the rolled-back objects (``OwnLog.remove_rolled_back``), before partitions are read.

This member may repeat all steps, beginning with step 1. Another member may do the steps at the same time.
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

_MOST_TRIES = 5
_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class Takeover:
    """Claims partitions. Thread-safe."""

    journal: Journal
    settlement: Settlement
    beginnings: Beginnings
    parallel_map: Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]] = map  # for partitions or logs

    def would_begin(self, tp: TopicPartition) -> tuple[Start, PartitionOffsets]:
        """Return where the partition would begin, and the partition's offsets in Kafka, without a claim."""
        kafka = self.beginnings.offsets.of(tp)  # before the log: running members commit only offsets of their logs
        claim = self.journal.claim(tp).read()
        log = self.journal.log(claim.owner).read() if claim else None
        former = log.of(tp) if log else None
        if former is not None:
            self.beginnings.check(tp, former, kafka.cluster_id)
        return self.beginnings.start(tp, former, kafka), kafka

    def claim(
        self, tps: Collection[TopicPartition], own: OwnLog, *, is_again: bool = False
    ) -> dict[TopicPartition, Begin]:
        """Do steps 1 to 4 for the assignment with this log. Return how each claimed partition begins.

        Another member, or a temporary error such as a missing leader, may prevent claims. Repeat the call for the
        missing partitions. If all claims fail, the first error is raised. ``Beginnings.of`` describes ``is_again``.
        """
        cluster_id = self.beginnings.offsets.cluster_id()
        for _ in range(_MOST_TRIES):
            attempt = _Attempt(self, own, cluster_id, is_again=is_again)
            if begun := attempt.claim(tps):
                return begun
            if attempt.errors:
                raise attempt.errors[0]
        raise FencedError(f"other members claim {', '.join(map(str, sorted(tps)))} at the same time")


@dataclass(slots=True)
class _Attempt:
    """One attempt of steps 1 to 4. Partitions with an error, or with a changed claim, are left out."""

    takeover: Takeover
    own: OwnLog
    cluster_id: str
    is_again: bool
    errors: list[RetryableError] = field(default_factory=list)

    def claim(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Begin]:
        claims = self._try_each(self._read_claim, tps)
        former = self._settle_logs(claims)

        def begin(tp: TopicPartition) -> Begin | None:
            log = former[tp]
            progress = log.of(tp) if log else None
            try:
                return self.takeover.beginnings.of(tp, progress, is_again=self.is_again)
            except ConfigError:
                if claims[tp].is_unchanged():
                    raise
                return None  # another member has claimed the partition, and has written and committed records

        begins = {tp: start for tp, start in self._try_each(begin, former).items() if start is not None}
        if not begins:
            return {}
        self.own.check_open()  # the earlier steps may have been slow, and the next owner may be writing a claim
        revoked = [item for log in former.values() if log for item in log.revoked]
        self.own.take_over([each.progress for each in begins.values()], revoked)
        pointed = self._try_each(lambda tp: self._point(claims[tp], begins[tp]), begins)
        return {tp: begins[tp] for tp, is_ours in pointed.items() if is_ours}

    def _try_each(self, work: Callable[[_K], _V], items: Iterable[_K]) -> dict[_K, _V]:
        """Do the work for each item, and return the results by item. Errors of failed items are kept."""

        def attempt(item: _K) -> tuple[_K, _V | RetryableError]:
            try:
                return item, work(item)
            except RetryableError as error:
                return item, error

        results: dict[_K, _V] = {}
        for item, result in self.takeover.parallel_map(attempt, items):
            if isinstance(result, RetryableError):
                self.errors.append(result)
            else:
                results[item] = result
        return results

    # --- 1 ----------------------------------------------------------------------------------------------------------

    def _read_claim(self, tp: TopicPartition) -> Document[PartitionClaim]:
        claim = self.takeover.journal.claim(tp)
        claim.read()
        return claim

    def _settle_logs(
        self, claims: Mapping[TopicPartition, Document[PartitionClaim]]
    ) -> dict[TopicPartition, AssignmentLog | None]:
        """Return the settled log of each partition's former owner; ``None`` if the partition has no claim."""
        tps_of: dict[str, list[TopicPartition]] = {}
        for tp, claim in claims.items():
            if claim.current is not None:
                tps_of.setdefault(claim.current.owner, []).append(tp)
        logs = self._try_each(lambda owner: self._settle_log(owner, tps_of[owner], claims), tps_of)
        unclaimed = dict.fromkeys(tp for tp, claim in claims.items() if claim.current is None)
        return unclaimed | {tp: log for owner, log in logs.items() if log for tp in tps_of[owner]}

    def _settle_log(
        self, owner: str, tps: Sequence[TopicPartition], claims: Mapping[TopicPartition, Document[PartitionClaim]]
    ) -> AssignmentLog | None:
        """Close and settle a former log. Do not close our own log. Return ``None`` if the claims have changed."""
        document = self.takeover.journal.log(owner)
        doing = f"reading the journal {document.where}"
        log = document.read()
        if log is None:
            if all(claims[tp].is_unchanged() for tp in tps):
                raise FatalError(
                    doing,
                    "the object is missing, and the claim of " + ", ".join(map(str, tps)) + " refers to it",
                    "Restore the object. If you delete the claims next to it too, the connector continues from the "
                    "offset committed in Kafka, and rows may be duplicated",
                )
            return None
        for tp in tps:
            progress = log.of(tp)
            if progress is None:
                cause = f"the claim of {tp} refers to it, and it does not contain that partition"
                hint = "Restore the claim and the log from the same moment, or report this as a bug"
                raise FatalError(doing, cause, hint)
            self.takeover.beginnings.check(tp, progress, self.cluster_id)
        return log if owner == self.own.token else self._close(document)

    def _close(self, document: Document[AssignmentLog]) -> AssignmentLog:
        for _ in range(_MOST_TRIES):
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
        raise FencedError(f"other members write {document.where} at the same time")

    # --- 4 ----------------------------------------------------------------------------------------------------------

    def _point(self, claim: Document[PartitionClaim], begin: Begin) -> bool:
        """Write our log's token into the claim. Return ``False`` if another member has changed the claim."""
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
