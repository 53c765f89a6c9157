"""Runs ``transform()`` without the loop of quixstreams, if ``transform()`` uses only functions of single records.

The connector calls ``transform()`` without Kafka, with a dataframe that refuses other functions. The stream becomes a
function, which quixstreams would call for each message. The connector calls this function for many messages at a time.
"""

from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from quixstreams.context import set_message_context
from quixstreams.core.stream import Stream
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.dataframe.registry import DataFrameRegistry
from quixstreams.models import MessageContext, Topic
from quixstreams.models import Row as FrameworkRow

from app.bad_records.refusals import (
    Refusal,
    TooBigError,
    check_row,
    headers_size,
    not_deserialized,
    too_deep,
    too_many_rows,
)
from app.consumer.errors import NOT_OF_THE_RECORD, ended, not_processed, translated
from app.consumer.rows import MESSAGE_OVERHEAD, ROW_OVERHEAD, RowMessage, RowSizer, own_copy, text_of
from app.delivery.batch_limits import BatchLimits
from app.json_texts import reader_of
from app.model import Headers, Message, Row, deep_size, headers_of

Loads = Callable[[bytes], Any]

_OBJECTS_OF_TEXT = 10  # maximum bytes of Python objects for a byte of JSON, roughly
_TEXTS_AGAIN = 100  # runs
# Functions of single records, and the attributes that these functions need. All other names need the loop of
# quixstreams: state, windows, joins, topics, sinks, and later functions. A stateful function uses ``register_store``.
_STATELESS = frozenset({"apply", "update", "filter", "drop", "fill", "contains", "set_timestamp", "set_headers"})
_USED_BY_STATELESS = frozenset({"stream", "stream_id"})


class NeedsFrameworkError(BaseException):
    """``transform()`` needs this function of quixstreams. ``except Exception`` in user code must not catch this."""


class StatelessDataFrame(StreamingDataFrame):
    """Raises ``NeedsFrameworkError`` if ``transform()`` uses more than functions of single records.

    All dataframes that quixstreams derives from this dataframe have the same class.
    """

    def __getattribute__(self, name: str) -> Any:
        needs_loop = not name.startswith("_") and name not in _STATELESS | _USED_BY_STATELESS
        if needs_loop and hasattr(StreamingDataFrame, name):  # otherwise the name is misspelled
            raise NeedsFrameworkError("stateful=True" if name == "register_store" else f"sdf.{name}")
        return super().__getattribute__(name)


StatelessDataFrame.__name__ = StreamingDataFrame.__name__  # errors in transform() show this name


def stateless_dataframe() -> StreamingDataFrame:
    nothing: Any = SimpleNamespace(producer=None)  # replaces an application's topic manager and processing context
    topic = Topic("input")  # no function uses this topic
    return StatelessDataFrame(
        topic, topic_manager=nothing, registry=DataFrameRegistry(), processing_context=nothing, stream_id=topic.name
    )


@dataclass(slots=True)
class Transformed:
    """The results of ``messages``. All rows are ``texts``, or all are ``rows``. ``heard``: messages with any result.

    ``size`` is an estimate of the memory of the rows and their messages, in bytes.
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
        built: The stream that ``transform()`` returns for a ``stateless_dataframe()``.
        limits: The limits, with the size of the largest message that becomes a row.
        values_are_json, keys_are_text: Whether the topic's deserializers read JSON and text.
        root: The stream that receives the messages, if ``built`` joins several topics.
        clock: Function that returns monotonic seconds.
    """

    def __init__(
        self,
        topic: Topic,
        built: StreamingDataFrame,
        limits: BatchLimits,
        root: Stream | None = None,
        /,
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
        self._rows: list[RowMessage | Row] = []  # rows of the present message
        self._size = 0  # estimated bytes of these rows in memory
        self._are_texts = keys_are_text  # whether all rows of the present run are texts so far
        self._runs_of_objects = 0  # number of consecutive runs whose rows are Python objects
        rows = built.apply(self._take_row, metadata=True)  # the branch ends here, like the branch of a sink
        self._execute = rows.stream.compose()[root] if root else rows.stream.compose_single()

    def run(self, messages: Sequence[Message], *, room: int, until: float) -> Transformed:
        """Transform messages until their rows and refusals need ``room`` bytes, or the clock shows ``until``.

        The last message may exceed ``room``. If its rows cannot be texts, all rows become objects, ten times as large.

        Raises:
            ConnectorError: A function ended the process, or a deserializer needs a system that does not answer.
        """
        done, clock = Transformed(), self._clock
        rows: list[RowMessage | Row] = []
        loads = reader_of([message.value() or b"" for message in messages]) if self._is_read_fast else None
        # After a run whose rows were objects, most runs do not try texts.
        self._runs_of_objects = 0 if self._are_texts else self._runs_of_objects + 1
        were_texts = self._are_texts = self._keys_are_text and self._runs_of_objects % _TEXTS_AGAIN == 0
        for message in messages:
            if done.size >= room or clock() >= until:
                break
            done.messages += 1
            refusal = self._run_one(message, loads)
            if refusal is not None:
                done.refusals.append(refusal)
                room -= refusal.rejected.nbytes
            elif self._rows:
                done.size += self._size + MESSAGE_OVERHEAD + len(message) + len(message.key() or b"")
                rows += self._rows if len(self._rows) == 1 else map(_without_message, self._rows)
            else:
                continue
            done.heard.append(message)
            if were_texts and not self._are_texts:  # all rows of a run have one form, so that their order is kept
                were_texts = False
                done.size += sum(_OBJECTS_OF_TEXT * len(row) for row in rows if isinstance(row, RowMessage))
        if self._are_texts:
            done.texts = cast("list[RowMessage]", rows)
        else:
            done.rows = [row if isinstance(row, Row) else row.row() for row in rows]
        return done

    def _run_one(self, message: Message, loads: Loads | None) -> Refusal | None:
        """Collect the rows of a message in ``_rows``. Return the refusal of a message that cannot become rows."""
        headers, most = headers_of(message), self._limits.max_record_bytes
        size = len(message) + len(message.key() or b"") + headers_size(headers)
        if size > most:
            return not_deserialized(TooBigError(size, most), message)
        try:
            value, key = self._read(message, loads)
        except NOT_OF_THE_RECORD:
            raise
        except Exception as error:  # noqa: BLE001 - a deserializer may raise anything
            return not_deserialized(error, message)
        timestamp = message.timestamp()[1]
        self._message, self._rows = message, []
        self._size = 0
        try:
            copy_context().run(self._step, message, value, key, timestamp, headers)
        except NOT_OF_THE_RECORD as error:
            raise translated(error) from error
        except Exception as error:  # noqa: BLE001 - a function may raise anything
            context = _Context(message)
            return not_processed(error, FrameworkRow(value, key, timestamp, context, headers), message)
        except BaseException as error:  # noqa: BLE001 - `sys.exit()`, a task that was cancelled
            raise ended(error) from None
        return None

    def _read(self, message: Message, loads: Loads | None) -> tuple[Any, Any]:
        """Return the value and the key of a message. Raises the errors of the topic's deserializers."""
        if loads:
            try:
                value, key = message.value(), message.key()
                return value if value is None else loads(value), key if key is None else key.decode()
            except ValueError:
                pass  # the deserializers raise an error with the reason
        row: Any = self._topic.row_deserialize(message)  # type: ignore[arg-type] # it uses no more than this
        return row.value, row.key

    def _step(self, message: Message, value: Any, key: Any, timestamp: int, headers: Headers | None) -> None:
        set_message_context(_Context(message))
        self._execute(value, key, timestamp, headers)

    def _take_row(self, value: Any, key: Any, timestamp: int, headers: Headers | None) -> None:
        check_row(value, timestamp, headers)
        rows = self._rows
        rows.append(self._own_row(value, key, timestamp, headers))
        if len(rows) > 1 and self._limits.is_full(self._size):
            raise too_many_rows(len(rows))

    def _own_row(self, value: dict[Any, Any], key: Any, timestamp: int, headers: Headers | None) -> RowMessage | Row:
        """Return a copy of a row, because the user's function may keep the row and change it later."""
        try:
            if headers is not None:
                headers = own_copy(headers)
            if self._are_texts and (text := text_of(value, timestamp)) is not None:
                self._size += MESSAGE_OVERHEAD + 2 * len(text)  # the row exists as text and in columns
                return RowMessage(text, timestamp, headers, self._message)
            self._are_texts = False
            own = own_copy(value)
            # Each of several rows is measured, because the message's length does not show the rows' sizes.
            self._size += self._sizer.size(own, len(self._message)) if not self._rows else ROW_OVERHEAD + deep_size(own)
            return Row(own, own_copy(key), timestamp, self._message.offset(), headers, self._message)
        except RecursionError:
            raise too_deep() from None


def _without_message(row: RowMessage | Row) -> RowMessage | Row:
    if isinstance(row, Row):
        return row._replace(message=None)
    row.is_only = False
    return row


class _Context(MessageContext):
    """The result of ``message_context()``. Attributes of the message are read only when a function uses them."""

    __slots__ = ("_message",)

    def __init__(self, message: Any) -> None:
        self._message = message

    topic = property(lambda self: self._message.topic())
    partition = property(lambda self: self._message.partition())
    offset = property(lambda self: self._message.offset())
    size = property(lambda self: len(self._message))
    leader_epoch = property(lambda self: self._message.leader_epoch())

    def __reduce__(self) -> Any:
        """Make a copy without the message, because a message cannot be copied."""
        return MessageContext, (self.topic, self.partition, self.offset, self.size, self.leader_epoch)
