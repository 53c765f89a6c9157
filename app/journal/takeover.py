"""Takes partitions over for a new generation: fences and settles their former owners, then points their claims to it.

1. Read the claims, and the logs that they name. Close each log that is not closed: this fences the **whole** former
   generation. Only then look at its batch and settle it (``app.journal.settle``).
2. Ask Kafka, and choose the first offset of each partition.
3. Write how far each partition is written into our own log, together with the list of rolled-back objects.
4. Point the claims to it. A claim that another member has changed meanwhile begins again with step 1.
5. Put placeholders in place of these objects. Then the partitions may be read.

Each step may be repeated from the first, by this member or by another one at the same time.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from app.errors import FatalError, RetryableError
from app.journal.claim import PartitionClaim
from app.journal.entry import RolledBack
from app.journal.generation import Generation
from app.journal.journal import FencedError, Journal
from app.journal.log import GenerationLog, Progress
from app.journal.settle import Settlement
from app.kafka.ids import ids_differ
from app.kafka.questions import GroupOffsets
from app.model import DataFile, Mark, TopicPartition
from app.storage.base import ChangedError
from app.storage.document import Document

_TRIED = 5
_K = TypeVar("_K")
_V = TypeVar("_V")
_Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class Found:
    """The state of a partition once its former owner is settled; ``progress`` is ``None`` without a log."""

    progress: Progress | None
    revoked: tuple[RolledBack, ...] = ()


@dataclass(frozen=True, slots=True)
class Begin:
    """How a partition begins: ``value`` is for the caller, ``progress`` for the log."""

    value: Any
    progress: Progress


class Takeover:
    """Takes partitions over; safe from several threads.

    Args:
        journal: of the table and the consumer group.
        offsets: asks Kafka.
        register: registers the files of a former owner's batch in the catalog; safe to repeat.
        is_registered: see ``Settlement``.
        each: applies a function to every partition or log, like ``map`` and possibly side by side.
        each_object: the same for a batch's objects, of which there are up to thousands; it is called inside of ``each``
            and must not wait for the same threads.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        offsets: GroupOffsets,
        register: Callable[[Sequence[DataFile], Sequence[Mark]], None],
        is_registered: Callable[[Sequence[Mark]], bool] = lambda _: False,
        each: _Each = map,
        each_object: _Each = map,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._journal = journal
        self._offsets = offsets
        self._each = each
        self._settlement = Settlement(journal.store, register, is_registered, self._left_in_kafka, each_object, now)

    def look(self, tp: TopicPartition) -> Progress | None:
        """How far the partition is written at least, without a claim; ``None`` without a log.

        Raises:
            ConnectorError: of the store, or a document cannot be understood.
        """
        claim = self._journal.claim(tp).read()
        log = self._journal.log(claim.owner).read() if claim else None
        return log.of(tp) if log else None

    def run(
        self,
        tps: Collection[TopicPartition],
        generation: Generation,
        *,
        is_wanted: Callable[[], bool],
        check: Callable[[TopicPartition, Progress], None],
        begin: Callable[[TopicPartition, Progress | None], Begin],
    ) -> dict[TopicPartition, Any]:
        """Take these partitions over.

        Args:
            tps: the partitions of the new generation.
            generation: the new one.
            is_wanted: whether the assignment still is current; a claim after its end would fence the next one.
            check: raises if the partition must not be claimed; its owner then is not fenced.
            begin: chooses how a partition begins, once its former owner is settled.

        Returns:
            The values that ``begin`` gave, of those partitions that are taken over. The others met an error that may
            pass, as without a leader, or another member: call again for these.

        Raises:
            FencedError: the assignment ended, or other members claim the same partitions at the same time.
            FatalError: a document cannot be understood.
            ConnectorError: of the store, of the catalog, or Kafka's, for all of them. The call may then be repeated.
        """
        waiting = list(tps)
        for _ in range(_TRIED):
            values, errors = self._round(waiting, generation, is_wanted, check, begin)
            if values:
                generation.remove_rolled_back()
                return values
            if errors:
                raise errors[0]
        raise FencedError(f"others claim {', '.join(map(str, waiting))} at the same time")

    def _round(
        self,
        tps: Sequence[TopicPartition],
        generation: Generation,
        is_wanted: Callable[[], bool],
        check: Callable[[TopicPartition, Progress], None],
        begin: Callable[[TopicPartition, Progress | None], Begin],
    ) -> tuple[dict[TopicPartition, Any], list[RetryableError]]:
        """Steps 1 to 4. Leaves out partitions whose claims others have changed, and those that met an error.

        Returns:
            The values of the others, and the errors.
        """
        token = generation.token
        claims, errors = self._possible(self._claim, tps)
        found = self._settled(claims, token, is_wanted, check, errors)
        begins, more_errors = self._possible(lambda tp: begin(tp, found[tp].progress), found)
        errors += more_errors
        if not begins:
            return {}, errors
        _require(is_wanted)  # it may have taken long: the next owner may be writing the first claim
        revoked = [item for each in found.values() for item in each.revoked]
        generation.take_over([each.progress for each in begins.values()], revoked)
        taken, more_errors = self._possible(lambda tp: self._point(claims[tp], token, begins[tp], is_wanted), begins)
        errors += more_errors
        return {tp: begins[tp].value for tp, is_ours in taken.items() if is_ours}, errors

    def _possible(self, work: Callable[[_K], _V], items: Iterable[_K]) -> tuple[dict[_K, _V], list[RetryableError]]:
        """Do the work for each item.

        Returns:
            The results of those for which it worked, and the errors of the others.
        """

        def attempt(item: _K) -> tuple[_K, _V | RetryableError]:
            try:
                return item, work(item)
            except RetryableError as error:
                return item, error

        done = list(self._each(attempt, items))
        errors = [result for _, result in done if isinstance(result, RetryableError)]
        return {item: result for item, result in done if not isinstance(result, RetryableError)}, errors

    # --- 1 ----------------------------------------------------------------------------------------------------------

    def _claim(self, tp: TopicPartition) -> Document[PartitionClaim]:
        claim = self._journal.claim(tp)
        claim.read()
        return claim

    def _settled(
        self,
        claims: Mapping[TopicPartition, Document[PartitionClaim]],
        token: str,
        is_wanted: Callable[[], bool],
        check: Callable[[TopicPartition, Progress], None],
        errors: list[RetryableError],
    ) -> dict[TopicPartition, Found]:
        """The state of each partition.

        Leaves out partitions whose claims others have changed meanwhile, and those that met an error, which is appended
        to ``errors``.
        """
        logs: dict[str, list[TopicPartition]] = {}
        found: dict[TopicPartition, Found] = {}
        for tp, claim in claims.items():
            if claim.current is not None:
                logs.setdefault(claim.current.owner, []).append(tp)
            else:
                found[tp] = Found(None)

        def of_log(owner: str) -> dict[TopicPartition, Found]:
            return self._settled_log(owner, logs[owner], claims, token, is_wanted, check)

        of_logs, more_errors = self._possible(of_log, logs)
        errors += more_errors
        for settled in of_logs.values():
            found |= settled
        return found

    def _settled_log(
        self,
        owner: str,
        tps: Sequence[TopicPartition],
        claims: Mapping[TopicPartition, Document[PartitionClaim]],
        token: str,
        is_wanted: Callable[[], bool],
        check: Callable[[TopicPartition, Progress], None],
    ) -> dict[TopicPartition, Found]:
        """Close a former generation's log and settle its batch; our own, from an earlier try, stays open."""
        document = self._journal.log(owner)
        log = document.read()
        if log is None:
            return self._without_log(document.where, tps, claims)
        for tp in tps:
            check(tp, self._progress(document, log, tp))
        if owner != token:
            log = self._closed(document, token, is_wanted)
        return {tp: Found(self._progress(document, log, tp), log.revoked) for tp in tps}

    def _closed(self, document: Document[GenerationLog], token: str, is_wanted: Callable[[], bool]) -> GenerationLog:
        for _ in range(_TRIED):
            _require(is_wanted)
            assert document.current is not None  # noqa: S101 - the caller has read it
            try:
                if not document.current.closed:
                    document.write(document.current.changed(closed=True, writer=token))
                self._settlement.settle(document)
            except ChangedError:
                if document.read() is None:
                    break
            else:
                return document.current
        raise FencedError(f"others write {document.where} at the same time")

    def _without_log(
        self, where: str, tps: Sequence[TopicPartition], claims: Mapping[TopicPartition, Document[PartitionClaim]]
    ) -> dict[TopicPartition, Found]:
        """Nothing, where the claims name another log by now.

        Raises:
            FatalError: they still name this one.
        """
        if not all(claims[tp].is_unchanged() for tp in tps):
            return {}
        raise FatalError(
            f"reading the journal {where}",
            "it is gone, and the claim of " + ", ".join(map(str, tps)) + " names it",
            "Restore the object. If the claims beside it are deleted too, the connector goes on from the offset "
            "committed in Kafka, and rows may then come twice",
        )

    def _progress(self, document: Document[GenerationLog], log: GenerationLog, tp: TopicPartition) -> Progress:
        progress = log.of(tp)
        if progress is None:
            raise FatalError(
                f"reading the journal {document.where}",
                f"the claim of {tp} names it, and it does not have that partition",
                "Restore the claim and the log from the same moment, or report this as a bug",
            )
        return progress

    def _left_in_kafka(self, progress: Progress) -> range:
        """The batch's offsets that Kafka still has: none if the topic was recreated or the cluster is another one.

        The ids come first. Kafka never gives the offsets of a partition that the recreated topic does not have.
        """
        if _is_of_another(progress, self._offsets.topic_id(progress.topic), self._offsets.cluster_id()):
            return range(0)
        kafka = self._offsets.of(progress.tp)
        if _is_of_another(progress, kafka.topic_id, kafka.cluster_id):  # since the first question
            return range(0)
        return range(max(progress.batch_offsets.start, kafka.low), min(progress.batch_offsets.stop, kafka.high))

    # --- 4 ----------------------------------------------------------------------------------------------------------

    def _point(self, claim: Document[PartitionClaim], token: str, begin: Begin, is_wanted: Callable[[], bool]) -> bool:
        """Let the claim name the new generation; ``False`` if another member has changed it."""
        current = claim.current
        if current is not None and current.owner == token:
            return True
        new = PartitionClaim(seq=current.seq + 1 if current else 1, owner=token, cluster_id=begin.progress.cluster_id)
        _require(is_wanted)
        try:
            claim.write(new)
        except ChangedError:
            return False
        return True


def _is_of_another(progress: Progress, topic_id: str, cluster_id: str) -> bool:
    return ids_differ(progress.topic_id, topic_id) or ids_differ(progress.cluster_id, cluster_id)


def _require(is_wanted: Callable[[], bool]) -> None:
    if not is_wanted():
        raise FencedError("the assignment ended before its partitions were claimed")
