"""Runs what a stateless ``transform()`` has built over many messages, with the results of quixstreams' own loop.

The stream composes to the function that this loop calls for each message.
"""

from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, cast

from quixstreams.context import set_message_context
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.models import MessageContext, Topic
from quixstreams.models import Row as FrameworkRow

from app.bad_records.refusals import (
    Refusal,
    TooBigError,
    headers_size,
    no_object,
    not_deserialized,
    too_deep,
    too_many_rows,
)
from app.consumer.exact_json import reader_of
from app.consumer.own_copy import own_copy
from app.consumer.plain.row_message import RowMessage, text_of
from app.consumer.plain.stateless import NeedsFrameworkError
from app.consumer.rejections import not_processed
from app.consumer.row_size import RowSizer
from app.consumer.run_errors import NOT_OF_THE_RECORD, ended, translated
from app.delivery.limits import BatchLimits
from app.model import Headers, Message, Row, deep_size, headers_of

Loads = Callable[[bytes], Any]

_MESSAGE_OVERHEAD = 300  # of a message that is kept beside its row, in bytes
_MEASURED_EVERY = 1_000  # rows of one message
_TEXTS_AGAIN = 100  # runs


@dataclass(slots=True)
class Transformed:
    """What came of ``messages``, with all rows in one of two forms; ``heard`` are those that gave a row or are refused.

    ``size`` is about what the rows and their messages take in memory, in bytes.
    """

    messages: int = 0
    texts: list[RowMessage] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    heard: list[Message] = field(default_factory=list)
    size: int = 0


class Transformer:
    """For one thread.

    Args:
        built: the stream of ``transform()`` on a ``stateless_dataframe()``.
        limits: the largest message that becomes a row; the rows of one message may take the whole buffer.
        values_are_json, keys_are_text: whether the topic's deserializers read those; most are then read without them.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        topic: Topic,
        built: StreamingDataFrame,
        limits: BatchLimits,
        *,
        values_are_json: bool,
        keys_are_text: bool,
        clock: Callable[[], float],
    ) -> None:
        self._topic = topic
        self._limits = limits
        self._is_read_fast = values_are_json and keys_are_text
        self._keys_are_text = keys_are_text
        self._clock = clock
        self._sizer = RowSizer()
        self._message: Any = None
        self._rows: list[RowMessage | Row] = []  # of the present message
        self._measured_at = _MEASURED_EVERY  # rows of it
        self._are_texts = keys_are_text  # the rows of the present run, so far
        self._runs_of_objects = 0  # one after another
        rows = built.apply(self._take_row, metadata=True)  # a branch that ends there, as of a sink
        self._execute = rows.stream.compose_single()

    def run(self, messages: Sequence[Message], *, room: int, until: float) -> Transformed:
        """Run over messages until their rows take ``room`` bytes, or the clock shows ``until``.

        Raises:
            ConnectorError: a function ended the process, or a deserializer needs a system that does not answer.
        """
        done, clock = Transformed(), self._clock
        rows: list[RowMessage | Row] = []
        loads = reader_of([each.value() or b"" for each in messages]) if self._is_read_fast else None
        self._begin_run()
        for message in messages:
            if done.size >= room or clock() >= until:
                break
            done.messages += 1
            refusal = self._run_one(message, loads)
            if refusal is not None:
                done.refusals.append(refusal)
            elif self._rows:
                done.size += self._size(message)
                rows += self._rows
            else:
                continue
            done.heard.append(message)
        if self._are_texts:
            done.texts = cast("list[RowMessage]", rows)
        else:  # all of a run have one form, for they keep their order
            done.rows = [each if isinstance(each, Row) else each.row() for each in rows]
        return done

    def _begin_run(self) -> None:
        """Decide whether rows become texts: not where they just had values that JSON has not."""
        self._runs_of_objects = 0 if self._are_texts else self._runs_of_objects + 1
        self._are_texts = self._keys_are_text and self._runs_of_objects % _TEXTS_AGAIN == 0

    def _run_one(self, message: Message, loads: Loads | None) -> Refusal | None:
        """Leave the rows of a message in ``_rows``; returns the refusal of one that cannot become rows."""
        headers, most = headers_of(message), self._limits.max_record_bytes
        size = len(message) + len(message.key() or b"") + headers_size(headers)
        if size > most:
            return not_deserialized(TooBigError(size, most), message)
        try:
            value, key = self._read(message, loads)
        except NOT_OF_THE_RECORD:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a deserializer raises
            return not_deserialized(error, message)
        timestamp = message.timestamp()[1]
        self._message, self._rows = message, []
        self._measured_at = _MEASURED_EVERY
        try:
            copy_context().run(self._step, message, value, key, timestamp, headers)
        except NOT_OF_THE_RECORD as error:
            raise translated(error) from error
        except (SystemExit, NeedsFrameworkError) as error:
            raise ended(error) from None
        except Exception as error:  # noqa: BLE001 - whatever a function raises
            context = _Context(message)
            return not_processed(error, FrameworkRow(value, key, timestamp, context, headers), message)
        return None

    def _read(self, message: Message, loads: Loads | None) -> tuple[Any, Any]:
        """The value and the key of a message; raises what a deserializer of the topic raises."""
        if loads:
            try:
                value, key = message.value(), message.key()
                return value if value is None else loads(value), key if key is None else key.decode()
            except ValueError:
                pass  # the deserializers say what is wrong
        row: Any = self._topic.row_deserialize(message)  # type: ignore[arg-type] # it asks for no more than this
        return row.value, row.key

    def _step(self, message: Message, value: Any, key: Any, timestamp: int, headers: Headers | None) -> None:
        set_message_context(_Context(message))
        self._execute(value, key, timestamp, headers)

    def _take_row(self, value: Any, key: Any, timestamp: int, headers: Headers | None) -> None:
        if not isinstance(value, dict):
            raise no_object(value)
        rows = self._rows
        rows.append(self._own_row(value, key, timestamp, headers))
        if len(rows) >= self._measured_at:
            self._measured_at += _MEASURED_EVERY
            if self._limits.is_full(len(rows) * deep_size(value)):
                raise too_many_rows(len(rows))

    def _own_row(self, value: dict[Any, Any], key: Any, timestamp: int, headers: Headers | None) -> RowMessage | Row:
        """A copy of a row: its function may keep it, and go on changing it."""
        try:
            if headers is not None:
                headers = own_copy(headers)
            if self._are_texts and (text := text_of(value, timestamp)) is not None:
                return RowMessage(text, timestamp, headers, self._message)
            self._are_texts = False
            return Row(own_copy(value), own_copy(key), timestamp, self._message.offset(), headers, self._message)
        except RecursionError:
            raise too_deep() from None

    def _size(self, message: Message) -> int:
        """About what the rows of a message and it take in memory; only a single row keeps it for the dead letter."""
        rows, size = self._rows, len(message)
        if len(rows) > 1:
            self._rows = rows = [_without_message(each) for each in rows]
        last = rows[-1]
        if isinstance(last, Row):
            of_row = self._sizer.size((last.value, last.key, last.headers), size)
        else:
            of_row = _MESSAGE_OVERHEAD + 2 * len(last)  # as text, and as columns
        return _MESSAGE_OVERHEAD + size + len(message.key() or b"") + len(rows) * of_row


def _without_message(row: RowMessage | Row) -> RowMessage | Row:
    if isinstance(row, Row):
        return row._replace(message=None)
    row.is_only = False
    return row


class _Context(MessageContext):
    """What ``message_context()`` returns; asks the message only if a function asks for it."""

    __slots__ = ("_of",)

    def __init__(self, message: Any) -> None:
        self._of = message

    topic = property(lambda self: self._of.topic())
    partition = property(lambda self: self._of.partition())
    offset = property(lambda self: self._of.offset())
    size = property(lambda self: len(self._of))
    leader_epoch = property(lambda self: self._of.leader_epoch())
