"""Claims newly assigned partitions on threads of its own, and finds the first offset of each.

The callback of an assignment must not fail, and must not wait for a store that is away: the broker would remove the
consumer from the group. So the callback pauses the partitions, and the consumer's loop resumes them after the claim.
"""

import logging
import queue
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar
from uuid import uuid4

from app.errors import ConnectorError, FatalError, RetryableError
from app.journal.generation import Generation
from app.journal.journal import FencedError, LogClosedError
from app.journal.log import Progress
from app.journal.ownership import JournalOwnership
from app.journal.start_offset import Start, check_cluster, lacks_offset, start_of
from app.journal.takeover import Begin, Takeover
from app.kafka.questions import GroupOffsets, PartitionOffsets
from app.kafka.watch import KafkaWatch, TopicIds
from app.model import TopicPartition
from app.monitoring.metrics import Metrics
from app.monitoring.waits import Request, Stopped
from app.timings import DEFAULT, Timings

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_BeginOf = Callable[[TopicPartition, Progress | None], Begin]
_MOST_CLAIMS = 4  # at the same time: of the present assignment, and of former ones that do not know yet that they ended
_OF_STORE, _OF_KAFKA = Request("store", operation="claim"), Request("Kafka", operation="claim")
_QUESTIONS = 10  # to Kafka, before partitions are claimed again


@dataclass(frozen=True, slots=True)
class Claim:
    """A partition that is ours, with the first offset to consume."""

    tp: TopicPartition
    token: str
    start: Start


class Claims:
    """Claims the partitions of an assignment together, and retries until it succeeds or the assignment ends.

    Args:
        takeover: fences and settles the former owners.
        new_generation: makes the generation with this token.
        ownership: keeps the generations.
        offsets: asks Kafka.
        is_current: whether the generation with this token is current.
        first_offset: the first offset of a partition for which the group has neither an offset nor a journal.
        topic_ids: keeps the id of the topic at the claim.
        follow_offsets: the text of the setting. A partition whose log has another one begins at the group's offset.
        keeps_state: whether ``transform()`` keeps state, or repartitions.
        check_group: returns the error to end with if nothing may be claimed in this consumer group.
        is_member: whether Kafka still has this member in the group; may raise ``RetryableError``.
        on_fenced: called with the token and the reason when another member has closed the log of a generation that
            still claims its partitions.
        watch: asks Kafka regularly, from the first assignment on.
        metrics: counts failed tries.
        timings: the pauses between tries.
    """

    def __init__(
        self,
        *,
        takeover: Takeover,
        new_generation: Callable[[str], Generation],
        ownership: JournalOwnership,
        offsets: GroupOffsets,
        is_current: Callable[[str], bool],
        first_offset: Callable[[TopicPartition, PartitionOffsets], int],
        topic_ids: TopicIds,
        follow_offsets: str,
        keeps_state: bool,
        check_group: Callable[[], ConnectorError | None] = lambda: None,
        is_member: Callable[[], bool],
        on_fenced: Callable[[str, FencedError], None],
        watch: KafkaWatch | None = None,
        metrics: Metrics | None = None,
        timings: Timings = DEFAULT,
    ) -> None:
        self._takeover = takeover
        self._new_generation = new_generation
        self._ownership = ownership
        self._offsets = offsets
        self._is_current = is_current
        self._first_offset = first_offset
        self._topic_ids = topic_ids
        self._follow_offsets = follow_offsets
        self._keeps_state = keeps_state
        self._check_group = check_group
        self._is_member = is_member
        self._on_fenced = on_fenced
        self._watch = watch
        self._metrics = metrics or Metrics(timings=timings)
        self._pool = ThreadPoolExecutor(max_workers=_MOST_CLAIMS, thread_name_prefix="claim")
        self._stop = threading.Event()
        self._timings = timings
        self._through: queue.SimpleQueue[Claim | ConnectorError] = queue.SimpleQueue()

    def begin(self, tps: Collection[TopicPartition], token: str, closed: str | None = None) -> None:
        """Begin to claim these partitions for the generation with this token.

        Args:
            tps: the partitions.
            token: the generation's.
            closed: why this member claims them again: another one has closed the log of its generation before. Nothing
                is claimed then before Kafka confirms that the partitions are still assigned to this member. ``None``
                for partitions that were just assigned.
        """
        if self._watch:
            self._watch.start()
        if tps:
            self._pool.submit(self._claim, tuple(tps), token, closed)

    def finished(self) -> list[Claim]:
        """The claims that have succeeded since the last call, of current assignments.

        Raises:
            ConnectorError: a claim failed with an error that no retry corrects.
        """
        claims: list[Claim] = []
        while True:
            try:
                item = self._through.get_nowait()
            except queue.Empty:
                return claims
            if isinstance(item, ConnectorError):
                raise item
            if self._is_current(item.token):
                claims.append(item)

    def is_same_topic(self, tp: TopicPartition) -> bool | None:
        """Whether the topic is the one that was claimed; ``None`` if Kafka does not say."""
        try:
            return self._topic_ids.is_same(tp)
        except ConnectorError as error:
            logger.debug("%s", error)
            return None

    def look(self, tp: TopicPartition) -> tuple[Start, PartitionOffsets]:
        """Where the partition would begin, and its offsets in Kafka; claims nothing.

        Raises:
            ConnectorError: it cannot be claimed, or store or Kafka fail.
        """
        kafka = self._offsets.of(tp)  # before the log: a member that goes on commits only what its log has already
        former = self._takeover.look(tp)
        if former is not None:
            check_cluster(former, kafka.cluster_id, tp, follows=self._follows(former))
        return self._start(tp, former, kafka), kafka

    def check(self) -> None:
        """Raise the error that the watch has found; called at each turn of the consumer's loop.

        Raises:
            ConnectorError: the topic was recreated, or another member of the group writes another table.
        """
        if self._watch:
            self._watch.raise_found()

    def stop(self) -> None:
        """End the claims in progress; called when the pipeline has ended."""
        self._stop.set()
        if self._watch:
            self._watch.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)

    # --- on threads of the pool -------------------------------------------------------------------------------------

    def _claim(self, tps: Collection[TopicPartition], token: str, closed: str | None) -> None:
        doing = "claiming " + ", ".join(map(str, tps))
        try:
            refusal = self._refusal(tps, token, closed)
            if refusal is None:
                self._claim_all(tps, token, self._begin if closed is None else self._begin_again)
            else:
                self._through.put(refusal)
        except Stopped:
            pass
        except FencedError as error:
            self._fenced(doing, token, error)
        except ConnectorError as error:
            self._through.put(error)
        except Exception as error:
            logger.debug("claiming failed", exc_info=True)
            self._through.put(FatalError(doing, repr(error), "Please report this as a bug"))

    def _claim_all(self, tps: Collection[TopicPartition], token: str, begin: _BeginOf) -> None:
        generation = self._new_generation(token)
        waiting = set(tps)
        while waiting:
            starts = self._until_it_works(
                _OF_STORE, token, partial(self._take_over, sorted(waiting), generation, begin)
            )
            self._ownership.take(generation)
            for tp, (start, topic_id) in starts.items():
                self._topic_ids.claimed(tp, topic_id)  # not before: a claim that is repeated is still the first
                self._through.put(Claim(tp, token, start))
            waiting -= starts.keys()

    def _fenced(self, doing: str, token: str, error: FencedError) -> None:
        if not self._is_current(token):
            return
        if isinstance(error, LogClosedError):
            self._on_fenced(token, error)
        else:
            self._through.put(RetryableError(doing, str(error), _RESTART))

    def _until_it_works(self, request: Request, token: str, work: Callable[[], _T]) -> _T:
        return self._metrics.waits.retry(request, work, stop=self._stop, is_wanted=lambda: self._is_current(token))

    def _refusal(self, tps: Collection[TopicPartition], token: str, closed: str | None) -> ConnectorError | None:
        """The error to end with if nothing may be claimed."""
        if closed is None:
            return self._until_it_works(_OF_KAFKA, token, self._check_group)
        return self._are_still_ours(tps, token, closed)

    def _are_still_ours(self, tps: Collection[TopicPartition], token: str, closed: str) -> ConnectorError | None:
        """Ask Kafka whether the partitions of a closed generation are still assigned to this member.

        A frozen member is fenced too, and must not close the log of the next owner. If the group has expelled it, it
        soon loses the partitions in Kafka too, and the assignment ends.

        Returns:
            The error to end with if a topic was recreated, or if Kafka does not say that they are.

        Raises:
            Stopped: the assignment has ended.
        """
        listed = ", ".join(map(str, tps))
        for _ in range(_QUESTIONS):
            try:
                recreated = self._topic_ids.recreated(tps)
                if recreated is not None:
                    return recreated
                if self._is_member():
                    logger.warning(
                        "%s, and Kafka still assigns %s to this one: claiming again. %s", closed, listed, _SAFE
                    )
                    return None
                answer = "Kafka does not count this member in the consumer group"
            except RetryableError as error:
                answer = str(error)
            if self._stop.wait(self._timings.fenced_seconds / _QUESTIONS) or not self._is_current(token):
                raise Stopped
        return RetryableError(f"claiming {listed} again", f"{closed}, and {answer}", _RESTART)

    def _take_over(
        self, tps: Collection[TopicPartition], generation: Generation, begin: _BeginOf
    ) -> Mapping[TopicPartition, tuple[Start, str]]:
        """Take over those that can be; returns where each begins, and the id of its topic."""
        cluster_id = self._offsets.cluster_id()
        return self._takeover.run(
            tps,
            generation,
            is_wanted=lambda: self._is_current(generation.token),
            check=lambda tp, former: check_cluster(former, cluster_id, tp, follows=self._follows(former)),
            begin=begin,
        )

    def _begin_again(self, tp: TopicPartition, former: Progress | None) -> Begin:
        """As ``_begin``, after this member's own generation was closed.

        Raises:
            FencedError: the table was deleted meanwhile; the remaining records must not begin a new one.
        """
        if former is None and self._topic_ids.was_claimed(tp):
            raise FencedError(f"the journal of {tp} is gone, as after the table was deleted")
        begin = self._begin(tp, former)
        start, topic_id = begin.value
        return replace(begin, value=(replace(start, skipped=0), topic_id))  # it is known why they are in the table

    def _begin(self, tp: TopicPartition, former: Progress | None) -> Begin:
        kafka = self._offsets.of(tp)
        start = self._start(tp, former, kafka)
        return Begin((start, kafka.topic_id), self._progress(tp, former, start, kafka))

    def _start(self, tp: TopicPartition, former: Progress | None, kafka: PartitionOffsets) -> Start:
        start = start_of(
            tp,
            former,
            kafka,
            first=self._first_offset(tp, kafka) if lacks_offset(former, kafka) else kafka.low,
            follows=self._follows(former),
            keeps_state=self._keeps_state,
        )
        return replace(start, is_set=kafka.is_set)

    def _follows(self, former: Progress | None) -> bool:
        """Whether the group's offset is to be followed: once for each text that the user sets."""
        return bool(self._follow_offsets) and (former is None or former.followed != self._follow_offsets)

    def _progress(self, tp: TopicPartition, former: Progress | None, start: Start, kafka: PartitionOffsets) -> Progress:
        """How far the partition is written as it begins; an id that Kafka does not give is the former one."""
        goes_on = former is not None and former.end == start.in_table
        return Progress(
            topic=tp.topic,
            partition=tp.partition,
            end=start.in_table,
            topic_id=kafka.topic_id or (former.topic_id if former and goes_on else ""),
            cluster_id=kafka.cluster_id or (former.cluster_id if former else ""),
            followed=self._follow_offsets or (former.followed if former else ""),
            series=(former.series if former and goes_on else "") or uuid4().hex[:8],
        )


_RESTART = "It is tried again after a restart"
_SAFE = "Records that are not in the table yet are read again: nothing is lost"
