"""Consumes thousands of messages in one call; for topics without ``transform()`` and with values in JSON.

A turn of the framework's own loop takes 10 µs for a message of 200 bytes, before the sink processes it.
"""

import logging
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import lt, methodcaller
from typing import Any

from quixstreams.kafka.exceptions import KafkaConsumerException

from app.bad_records.refusals import TooBigError, message_size, not_deserialized
from app.consumer.assignment import Assignments
from app.consumer.checkpoints import Checkpoints
from app.consumer.errors import cannot_be_decompressed
from app.consumer.paused_partitions import PausedPartitions
from app.consumer.rejections import RejectedMessages
from app.consumer.sink import LakeSink
from app.model import Message, TopicPartition, known_timestamp

logger = logging.getLogger(__name__)

# The client waits this long for that many messages: the delay of the first one where few come.
_POLL_SECONDS = 0.1
_FIRST_MESSAGES = 100
_POLL_MESSAGES = 10_000
_POLL_BYTES = 8 * 2**20

_partition = methodcaller("partition")
_offset = methodcaller("offset")


class BatchPoll:
    """The consumer's loop in large steps.

    Args:
        consume: polls up to so many messages, for so many seconds.
        assignments: the current ones, with the next offset of each.
        sink: gets the messages; of those that are too big it keeps the beginning.
        checkpoints: store the offsets.
        paused: the partitions that are not claimed yet; seeks forward again where the client went back.
        rejected: takes messages that Kafka's client cannot decompress, and decides which of its errors are retriable.
    """

    def __init__(
        self,
        *,
        consume: Callable[[int, float], list[Any]],
        assignments: Assignments,
        sink: LakeSink,
        checkpoints: Checkpoints,
        paused: PausedPartitions,
        rejected: RejectedMessages,
    ) -> None:
        self._consume = consume
        self._assignments = assignments
        self._sink = sink
        self._max_record_bytes = sink.limits.max_record_bytes
        self._checkpoints = checkpoints
        self._paused = paused
        self._rejected = rejected
        self._most = _FIRST_MESSAGES
        self._size = 0  # of a message on average, in bytes

    def turn(self, executors: dict[str, Callable[..., None]]) -> None:  # noqa: ARG002 - there is nothing to execute
        """See ``app.consumer.loop.Poll``.

        Raises:
            KafkaConsumerException: an error of Kafka's client that is not retriable.
            ConnectorError: the client went back because the topic was recreated, or a seek failed.
        """
        most = max(1, min(self._most, self._sink.room_for(self._size)))
        consumed = self._consume(most, _POLL_SECONDS)
        messages = [message for message in consumed if message.error() is None]
        largest = self._measure(messages)
        for tp, of_tp in _by_partition(messages):
            self._take(tp, of_tp, has_too_big=largest > self._max_record_bytes)
        if len(messages) < len(consumed):  # the good ones first: an error may end the process
            self._report([message for message in consumed if message.error() is not None])

    def _take(self, tp: TopicPartition, messages: Sequence[Message], *, has_too_big: bool) -> None:
        if tp not in self._assignments or self._paused.waits(tp):
            return  # it was revoked, or assigned again, while these messages were fetched
        messages = self._in_turn(tp, messages)
        if messages:
            if has_too_big:
                self._add_in_turn(tp, messages)
            else:
                self._sink.add_messages(tp, messages)
            first = messages[0]
            self._assignments.consumed(tp, first.offset(), known_timestamp(first.timestamp()[1]))
            self._checkpoints.store_offsets(*tp, first.offset(), messages[-1].offset(), count=len(messages))

    def _add_in_turn(self, tp: TopicPartition, messages: Sequence[Message]) -> None:
        """Reject messages that are too big, which frees their memory; the dead letter keeps their beginning."""
        for is_too_big, some in groupby(messages, lambda message: len(message) > self._max_record_bytes):
            if is_too_big:
                for message in some:
                    refusal = not_deserialized(TooBigError(message_size(message), self._max_record_bytes), message)
                    self._sink.reject(refusal.rejected, refusal.hint)
            else:
                self._sink.add_messages(tp, list(some))

    def _in_turn(self, tp: TopicPartition, messages: Sequence[Message]) -> Sequence[Message]:
        expected = self._assignments.expected(tp)
        offsets = list(map(_offset, messages))
        if offsets[0] >= expected and all(map(lt, offsets, offsets[1:])):
            return messages
        kept: list[Message] = []
        went_back_to = None
        for message, offset in zip(messages, offsets, strict=True):
            if offset >= expected:
                kept.append(message)
                expected = offset + 1
            elif went_back_to is None:
                went_back_to = offset
        if went_back_to is not None:
            self._paused.seek_to_expected(tp, went_back_to, expected)
        return kept

    def _measure(self, messages: Sequence[Message]) -> int:
        """Ask for less at once where messages are large; returns the size of the largest."""
        if not messages:
            return 0
        sizes = list(map(len, messages))
        self._size = max(1, sum(sizes) // len(sizes))
        self._most = min(_POLL_MESSAGES, _POLL_BYTES // self._size)
        return max(sizes)

    def _report(self, failed: Sequence[Any]) -> None:
        passed_over: set[TopicPartition] = set()  # the client repeats an error
        for message in failed:
            failure = KafkaConsumerException(error=message.error())
            if cannot_be_decompressed(failure):
                tp = TopicPartition(message.topic(), message.partition())
                if tp not in passed_over:
                    self._rejected.pass_over(message)
                    passed_over.add(tp)
            elif not self._rejected.consuming_failed(failure, None):
                raise failure


def _by_partition(messages: Sequence[Message]) -> list[tuple[TopicPartition, list[Message]]]:
    found: dict[int, list[Message]] = {}
    for partition, message in zip(map(_partition, messages), messages, strict=True):
        try:
            found[partition].append(message)
        except KeyError:
            found[partition] = [message]
    return [(TopicPartition(of_tp[0].topic(), partition), of_tp) for partition, of_tp in found.items()]
