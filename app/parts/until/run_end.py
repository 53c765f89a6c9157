"""Ends the run when all records before ``UNTIL`` are in the lake. Also reads the newest records and ends of a topic.

Each member ends when all records of its partitions are in the lake. Kafka then assigns these partitions to other
members, which have nothing to do. A member without partitions waits until Kafka assigns partitions to this member.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Event, Thread
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient
from quixstreams import Application
from quixstreams.kafka.exceptions import KafkaConsumerException
from quixstreams.models.serializers import IgnoreMessage

from app.config.settings import Settings
from app.consumer.plain.client import new_client
from app.delivery.members import Members
from app.delivery.runtime import Runtime
from app.errors import ConnectorError, RetryableError
from app.kafka.errors import cannot_be_decompressed
from app.kafka.questions import GroupOffsets, failed, unanswered
from app.model import Message, TopicPartition
from app.retries import Request

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_TRANSACTION_SECONDS = 900.0  # the brokers' default time limit of a transaction
_ANSWER_SECONDS = 30.0
_AT_ONCE = 1_000
_POLL_SECONDS = 0.1  # the client waits this long for _AT_ONCE messages
_WINDOWS = (timedelta(hours=1), timedelta(days=1), timedelta(days=7))


def new_run_end(
    settings: Settings, runtime: Runtime, application: Application, admin: AdminClient, topics: Collection[str]
) -> "RunEnd":
    """Query Kafka for the end offsets of the topics, now or at the time in ``UNTIL``."""
    until = settings.until
    moment = datetime.now(UTC) - until if isinstance(until, timedelta) else until
    before = moment if isinstance(moment, datetime) else None
    ends: dict[TopicPartition, int] = {}
    waits = runtime.metrics.waits
    with closing(new_client(application.config, {"enable.partition.eof": True})) as consumer:
        offsets = GroupOffsets(consumer, admin, runtime.timings.kafka_answer_seconds)
        last = {topic: waits.at_start("Kafka", partial(offsets.uncommitted_ends, topic)) for topic in topics}
        for topic, last_of_topic in last.items():
            question = partial(readable_ends, offsets, topic, last_of_topic, before)
            ends |= waits.retry(Request("Kafka"), question, give_up_seconds=_TRANSACTION_SECONDS)
    listed = ", ".join(f"{tp}: {end}" for tp, end in sorted(ends.items()))
    logger.info("UNTIL=%s: this run ends before these offsets: %s", until, listed)
    return RunEnd(ends)


class RunEnd:
    """The end of a run. ``ends`` contains, for each partition, the offset after the run's last record, or 0.

    If a partition is missing in ``ends``, the partition was added later, and its records belong to a later run.
    """

    def __init__(self, ends: Mapping[TopicPartition, int]) -> None:
        self._ends = dict(ends)
        self._next: dict[TopicPartition, int] = {}  # the offset after the last record read so far
        self._is_reached = False
        self._stop = Event()

    def before(self, tp: TopicPartition, messages: Sequence[Message], taken: int | None = None) -> Sequence[Message]:
        end = self._ends.get(tp, 0)
        kept = messages if messages[-1].offset() < end else [each for each in messages if each.offset() < end]
        if kept:
            self._next[tp] = kept[-1].offset() + 1
        if len(kept) < len(messages) and tp in self._ends:  # compaction may have removed this run's last record
            self._ends[tp] = self._next.get(tp, 0) if taken is None or kept else taken
        return kept

    def only(self, deserialize: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def row_deserialize(message: Any) -> Any:
            if not self.before(TopicPartition(message.topic(), message.partition()), [message]):
                raise IgnoreMessage
            return deserialize(message)

        return row_deserialize

    def watch(
        self, members: Members, assigned: Callable[[], Collection[TopicPartition]], stop: Callable[[], None]
    ) -> None:
        self._members = members
        self._assigned = assigned
        self._stop_lane = stop

    def __enter__(self) -> None:
        Thread(target=self._run, name="until", daemon=True).start()

    def __exit__(self, kind: object, *_: object) -> None:
        self._stop.set()
        if kind is None and not self._is_reached:
            hint = "The next start continues where this run has ended"
            raise RetryableError("running until UNTIL", "the run was stopped earlier", hint)

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_SECONDS):
            try:
                if self._has_all():
                    self._is_reached = True
                    suspended = ", ".join(sorted(self._suspended))
                    missing = suspended and f", except for records of topics that are not written: {suspended}"
                    logger.info("UNTIL is reached: all records before it are in the lake%s", missing)
                    self._stop_lane()
                    return
            except ConnectorError as error:
                logger.debug("%s", error)  # the next check retries

    @property
    def _suspended(self) -> Collection[str]:
        """The topics of suspended tables, and the topics that are not written."""
        return {*self._members.suspended, *self._members.left_out, *self._members.deleted}

    def _has_all(self) -> bool:
        assigned, suspended, group = self._assigned(), self._suspended, self._members.group
        if not assigned:
            return self.is_empty(suspended)
        assigned = [tp for tp in assigned if tp.topic not in suspended]
        if self._is_incomplete(assigned):
            return False
        for topic in group.settings.internal:  # these topics grow while the input topics are read
            self._ends |= group.offsets.ends(topic)
        return not self._is_incomplete(assigned)

    def _is_incomplete(self, assigned: Collection[TopicPartition]) -> bool:
        """Return whether records of these partitions are not in the lake yet, from the offsets of claimed partitions.

        With state, partitions without messages are not claimed. For these, the group's committed offsets are used.
        """
        group = self._members.group
        in_lake = {tp: each.committed for tp, each in self._members.runtime.metrics.counts().positions.items()}
        rest = self.incomplete(assigned, in_lake)
        return bool(
            self.incomplete(rest, group.offsets.committed_offsets(rest)) if group.settings.keeps_state else rest
        )

    def incomplete(
        self, assigned: Collection[TopicPartition], in_lake: Mapping[TopicPartition, int]
    ) -> set[TopicPartition]:
        """Return the partitions with records that are not in the lake. ``in_lake`` are the end offsets in the lake."""
        return {tp for tp in assigned if in_lake.get(tp, 0) < self._ends.get(tp, 0)}

    def is_empty(self, skipped: Collection[str]) -> bool:
        """Return whether this run has no records. Records of skipped topics are ignored."""
        return not any(end for tp, end in self._ends.items() if tp.topic not in skipped)


def newest(offsets: GroupOffsets, topic: str, count: int) -> tuple[list[Message], float]:
    """Return the newest records by timestamp, and the records per second in the shortest window with records.

    The rate is 0 if no window contains records. The consumer in ``offsets`` must report the ends of partitions.

    Raises:
        ConnectorError: Kafka does not answer, or refuses the request.
    """
    ends, lows = offsets.ends(topic), offsets.beginnings(topic)
    messages: list[Message] = []
    for reach in (count, 8 * count, 64 * count):  # offsets may have no record
        begins = {tp: max(lows[tp], end - reach) for tp, end in ends.items()}
        not_empty = {tp: begin for tp, begin in begins.items() if begin < ends[tp]}
        try:
            messages = _read(offsets.consumer, topic, not_empty, ends, count)
        except RetryableError:
            if reach == count:
                raise
            break  # reading so many records is too slow
        if len(messages) >= count or all(begin == lows[tp] for tp, begin in begins.items()):
            break
    messages.sort(key=lambda message: message.timestamp()[1])
    return messages[-count:], _rate(offsets, ends)


def readable_ends(
    offsets: GroupOffsets, topic: str, ends: Mapping[TopicPartition, int], until: datetime | None
) -> dict[TopicPartition, int]:
    """Return, for each partition, the offset after the last record before ``ends`` and ``until``; 0 without a record.

    Because of compaction and aborted transactions, some offsets have no record. For ``offsets``, see ``newest``.

    Raises:
        RetryableError: A transaction before the end is open, so its records and later records cannot be read.
        ConnectorError: Kafka does not answer, or refuses the request.
    """
    readable = offsets.ends(topic)
    if until is not None:
        ends = offsets.since(until, ends)
    for tp, end in sorted(ends.items()):
        if (first := readable[tp]) < end:
            cause = f"the transaction at offset {first} of {tp} is open: its records and later ones cannot be read yet"
            hint = "Its producer or transaction.timeout.ms ends it; kafka-transactions.sh lists hanging transactions"
            raise RetryableError(f"finding the end of this run in {topic}", cause, hint)
    lows, result = offsets.beginnings(topic), dict.fromkeys(ends, 0)
    reach, open_tps = 1, {tp for tp, end in ends.items() if lows[tp] < end}
    while open_tps:
        begins = {tp: max(lows[tp], ends[tp] - reach) for tp in open_tps}
        broken: set[TopicPartition] = set()
        for message in _read(offsets.consumer, topic, begins, ends, 1, broken):
            result[TopicPartition(topic, message.partition())] = message.offset() + 1
        result |= {tp: ends[tp] for tp in broken}
        open_tps = {tp for tp in open_tps if not result[tp] and begins[tp] > lows[tp]}
        reach = max(1_000, 8 * reach)
    return result


def _read(
    consumer: Any,
    topic: str,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    count: int,
    broken: set[TopicPartition] | None = None,
) -> list[Message]:
    """Return the last ``count`` records before the end of each partition.

    If the client cannot decompress a record, add the partition to ``broken``. Without ``broken``, raise an error.
    """
    consumer.assign([KafkaTopicPartition(*tp, begin) for tp, begin in begins.items()])
    messages = {tp: deque[Message](maxlen=count) for tp in begins}
    open_tps, deadline = {*begins}, time.monotonic() + _ANSWER_SECONDS
    while open_tps:
        if time.monotonic() > deadline:
            raise unanswered(f"the newest records of {topic}", f"no end within {_ANSWER_SECONDS:.0f} s")
        for message in consumer.consume(_AT_ONCE, _POLL_SECONDS):
            error = message.error()
            tp = TopicPartition(message.topic(), message.partition())
            if error is not None and broken is not None and cannot_be_decompressed(KafkaConsumerException(error=error)):
                broken.add(tp)
            elif error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise failed(f"the newest records of {topic}", error)
            if error is None and message.offset() < ends[tp]:
                messages[tp].append(message)
            if error is not None or message.offset() >= ends[tp] - 1:
                open_tps.discard(tp)
    return [message for each in messages.values() for message in each]


def _rate(offsets: GroupOffsets, ends: Mapping[TopicPartition, int]) -> float:
    for window in _WINDOWS:
        since = offsets.since(datetime.now(UTC) - window, ends)
        if records := sum(end - since[tp] for tp, end in ends.items()):
            return records / window.total_seconds()
    return 0.0
