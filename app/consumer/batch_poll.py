"""Consumes many messages at once, where nothing has to look at each: no ``transform()``, and values in JSON.

A turn of the framework's own loop takes 10 µs for a message of 200 bytes before the sink has done anything with it.
"""

import logging
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import lt, methodcaller
from typing import Any

from quixstreams.kafka.exceptions import KafkaConsumerException

from app.bad_records.refusals import TooBigError, message_size, not_deserialized
from app.consumer.checkpoints import Checkpoints
from app.consumer.errors import cannot_be_decompressed
from app.consumer.sink import LakeSink
from app.model import Message, TopicPartition

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
        consumer: of quixstreams.
        sink: gets the messages.
        checkpoints: told their offsets.
        waits: whether a partition is not to be read yet.
        max_record_bytes: the largest value that goes on to the sink; of others only the beginning is kept.
        put_right: called with a partition, the offset that came and the one that was expected, where it went back.
        failed: told of an error of the consumer; whether the loop may go on.
        pass_over: told of a message that the consumer could not decompress.
    """

    def __init__(
        self,
        *,
        consumer: Any,
        sink: LakeSink,
        checkpoints: Checkpoints,
        max_record_bytes: int,
        waits: Callable[[TopicPartition], bool],
        put_right: Callable[[TopicPartition, int, int], None],
        failed: Callable[[Exception], bool],
        pass_over: Callable[[Message], None],
    ) -> None:
        self._consumer = consumer
        self._sink = sink
        self._checkpoints = checkpoints
        self._max_record_bytes = max_record_bytes
        self._waits = waits
        self._put_right = put_right
        self._failed = failed
        self._pass_over = pass_over
        self._most = _FIRST_MESSAGES
        self._size = 0  # of a message on average, in bytes

    def turn(self) -> bool:
        """Consume what is there; whether there was anything.

        Raises:
            KafkaConsumerException: Kafka's client reports what cannot be passed over.
            ConnectorError: the offsets are not those that are to come.
        """
        most = max(1, min(self._most, self._sink.room_for(self._size)))
        consumed: list[Any] = self._consumer.consume(num_messages=most, timeout=_POLL_SECONDS)
        if not consumed:
            return False
        messages = [message for message in consumed if message.error() is None]
        largest = self._measure(messages)
        for tp, of_tp in _by_partition(messages):
            self._take(tp, of_tp, has_too_big=largest > self._max_record_bytes)
        if len(messages) < len(consumed):  # the good ones first: an error may end the process
            self._report([message for message in consumed if message.error() is not None])
        return True

    def _take(self, tp: TopicPartition, messages: Sequence[Message], *, has_too_big: bool) -> None:
        if not self._sink.is_assigned_to(tp) or self._waits(tp):
            return  # it was given away, or given, while these were on their way
        messages = self._in_turn(tp, messages)
        if messages:
            if has_too_big:
                self._add_in_turn(tp, messages)
            else:
                self._sink.add_messages(tp, messages)
            self._checkpoints.store_offsets(*tp, messages[0].offset(), messages[-1].offset())

    def _add_in_turn(self, tp: TopicPartition, messages: Sequence[Message]) -> None:
        """Those that are too big leave their beginning, and the memory at once."""
        for is_too_big, some in groupby(messages, lambda message: len(message) > self._max_record_bytes):
            if is_too_big:
                for message in some:
                    refusal = not_deserialized(TooBigError(message_size(message), self._max_record_bytes), message)
                    self._sink.reject(refusal.rejected, refusal.hint)
            else:
                self._sink.add_messages(tp, list(some))

    def _in_turn(self, tp: TopicPartition, messages: Sequence[Message]) -> Sequence[Message]:
        expected = self._checkpoints.expected(*tp)
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
            self._put_right(tp, went_back_to, expected)
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
        passed_over: set[TopicPartition] = set()  # the client repeats itself
        for message in failed:
            failure = KafkaConsumerException(error=message.error())
            if cannot_be_decompressed(failure):
                tp = TopicPartition(message.topic(), message.partition())
                if tp not in passed_over:
                    self._pass_over(message)
                    passed_over.add(tp)
            elif not self._failed(failure):
                raise failure


def _by_partition(messages: Sequence[Message]) -> list[tuple[TopicPartition, list[Message]]]:
    found: dict[int, list[Message]] = {}
    for partition, message in zip(map(_partition, messages), messages, strict=True):
        try:
            found[partition].append(message)
        except KeyError:
            found[partition] = [message]
    return [(TopicPartition(of_tp[0].topic(), partition), of_tp) for partition, of_tp in found.items()]
