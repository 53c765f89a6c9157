"""Runs what a stateless ``transform()`` has built over many messages, with the results of quixstreams' own loop.

``StreamingDataFrame.compose()`` gives the function that this loop calls for each message.
"""

from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

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
from app.consumer.plain.stateless import NeedsFrameworkError
from app.consumer.rejections import not_processed
from app.consumer.row_size import RowSizer
from app.consumer.run_errors import NOT_OF_THE_RECORD, ended, translated
from app.delivery.limits import BatchLimits
from app.model import Headers, Message, Row, deep_size, headers_of

Loads = Callable[[bytes], Any]

_MESSAGE_OVERHEAD = 300  # of a message that is kept beside its row, in bytes
_MEASURED_EVERY = 1_000  # rows of one message


@dataclass(slots=True)
class Transformed:
    """What came of ``messages``; ``heard`` are those that gave a row or are refused."""

    messages: int = 0
    rows: list[Row] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    heard: list[Message] = field(default_factory=list)
    size: int = 0  # estimated bytes in memory of the rows and their messages


class Transformer:
    """For one thread.

    Args:
        built: the stream of ``transform()`` on a ``stateless_dataframe()``.
        is_text: whether values are JSON and keys are text: most are then read without the topic's deserializers.
        limits: the largest message that becomes a row; the rows of one message may take the whole buffer.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        topic: Topic,
        built: StreamingDataFrame,
        limits: BatchLimits,
        *,
        is_text: bool,
        clock: Callable[[], float],
    ) -> None:
        self._topic = topic
        self._is_text = is_text
        self._limits = limits
        self._clock = clock
        self._sizer = RowSizer()
        self._message: Any = None
        self._offset = 0
        self._rows: list[Row] = []  # of the present message
        self._measured_at = _MEASURED_EVERY  # rows of it
        rows = built.apply(self._take_row, metadata=True)  # a branch that ends there, as of a sink
        self._execute = rows.stream.compose_single()

    def run(self, messages: Sequence[Message], *, room: int, until: float) -> Transformed:
        """Run over messages until their rows take ``room`` bytes, or the clock shows ``until``.

        Raises:
            ConnectorError: a function ended the process, or a deserializer needs a system that does not answer.
        """
        done, clock = Transformed(), self._clock
        loads = reader_of([each.value() or b"" for each in messages]) if self._is_text else None
        for message in messages:
            if done.size >= room or clock() >= until:
                break
            done.messages += 1
            refusal = self._run_one(message, loads)
            if refusal is not None:
                done.refusals.append(refusal)
            elif rows := self._rows:
                self._add(message, rows, done)
            else:
                continue
            done.heard.append(message)
        return done

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
        self._message, self._offset, self._rows = message, message.offset(), []
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
        """Take a copy of a row: its function may keep it, and go on changing it."""
        if not isinstance(value, dict):
            raise no_object(value)
        try:
            row = Row(own_copy(value), own_copy(key), timestamp, self._offset, own_copy(headers), self._message)
        except RecursionError:
            raise too_deep() from None
        rows = self._rows
        rows.append(row)
        if len(rows) >= self._measured_at:
            self._measured_at += _MEASURED_EVERY
            if self._limits.is_full(len(rows) * deep_size(row.value)):
                raise too_many_rows(len(rows))

    def _add(self, message: Message, rows: list[Row], done: Transformed) -> None:
        """Add the rows of one message; a single row keeps it, for the dead letter."""
        size, last = len(message), rows[-1]
        if len(rows) == 1:
            done.size += _MESSAGE_OVERHEAD + size + len(message.key() or b"")
        else:
            rows = [row._replace(message=None) for row in rows]
        done.size += len(rows) * self._sizer.size((last.value, last.key, last.headers), size)
        done.rows += rows


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
