"""Where quixstreams is at present: its message, its thread, its next flush. It tells a sink none of them."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from quixstreams.models import Topic

from app.bad_records.refusals import TooBigError, message_size
from app.model import Message
from app.timings import Timings


class CurrentMessage:
    """The message of the input topic whose record is processed, and its ``size``: bytes of value, key and headers.

    None is kept if a message ``holds_several`` records. ``most_bytes`` bounds a message that becomes a row.
    """

    def __init__(self, most_bytes: int, *, holds_several: bool = False) -> None:
        self._most_bytes = most_bytes
        self._holds_several = holds_several
        self._message: Message | None = None
        self.size = 0

    def watch(self, topics: Iterable[Topic], own: str) -> None:
        """See each message before quixstreams deserializes it; ``own`` names the input topic.

        Kafka's client leaves a null pointer for a header name that is not UTF-8. Its use would end the process; see
        ``headers_of``, by which each message is measured.
        """
        for topic in topics:
            see = self.begin if topic.name == own else self._measure
            vars(topic)["row_deserialize"] = _after(see, topic.row_deserialize)  # quixstreams has no other place for it

    def begin(self, message: Message) -> None:
        """Note that the processing of a message begins; raises ``TooBigError``."""
        self._measure(message)
        if self.size > self._most_bytes:
            raise TooBigError(self.size, self._most_bytes)
        self._message = None if self._holds_several else message

    def _measure(self, message: Message) -> None:
        self.size = message_size(message)

    def of(self, topic: str, partition: int, offset: int) -> Message | None:
        """The message with this offset, if it is the one that is processed."""
        message = self._message
        if message is None or (message.offset(), message.partition(), message.topic()) != (offset, partition, topic):
            return None
        return message


def _after(see: Callable[[Any], object], deserialize: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def row_deserialize(message: Any) -> Any:
        see(message)
        return deserialize(message)

    return row_deserialize


class Due:
    """When quixstreams flushes, and when the sink has to. Only the consumer's thread may use it, except ``seconds``.

    ``commit_interval`` is that of quixstreams, in seconds. It flushes at ``flush_at`` at the latest; ``None`` if there
    is nothing to commit. It does not know bad records: the sink flushes those at ``keep_until``; 0 if there are none.
    """

    def __init__(self, commit_interval: float, timings: Timings) -> None:
        self._commit_interval = commit_interval
        self.timings = timings
        self.flush_at: float | None = None
        self.keep_until = 0.0
        self._quiet_since = timings.clock()

    def came(self) -> None:
        self._quiet_since = self.timings.clock()

    @property
    def is_quiet(self) -> bool:
        """Whether no message has come for a while."""
        return self.timings.clock() - self._quiet_since >= self.timings.gather_seconds

    @property
    def seconds(self) -> float | None:
        """Until the next flush, negative where it is late; ``None`` if nothing waits for it."""
        return None if self.flush_at is None else self.flush_at - self.timings.clock()

    def expect_flush(self) -> None:
        """Quixstreams has something to commit from now on."""
        if self.flush_at is None:
            self.flush_at = self.timings.clock() + self._commit_interval

    def expect_bad_records(self) -> None:
        """A bad record came that quixstreams does not commit."""
        self.keep_until = self.keep_until or self.timings.clock() + self._commit_interval

    def flushed(self, *, keeps_bad_records: bool = False) -> None:
        """Nothing is due now; bad records that could not be flushed are tried again."""
        self.flush_at = None
        self.keep_until = self.timings.clock() + self._commit_interval if keeps_bad_records else 0.0

    @property
    def has_bad_records(self) -> bool:
        """Whether bad records wait for too long."""
        return bool(self.keep_until) and self.timings.clock() >= self.keep_until


class ConsumerThread:
    """Where quixstreams is: it flushes a revocation on another thread, and calls back while it polls.

    ``is_amid_message``: some rows of a message may be missing. ``is_revoking``: a revocation's flush is under way. Both
    may be true, after quixstreams has left that flush behind.
    """

    def __init__(self) -> None:
        self._ident = threading.get_ident()
        self.is_amid_message = self.is_revoking = False

    def note(self) -> None:
        self._ident = threading.get_ident()

    @property
    def is_this(self) -> bool:
        return threading.get_ident() == self._ident

    @property
    def is_polling(self) -> bool:
        """Whether quixstreams polls now, in this thread: all rows of the messages that came are there."""
        return self.is_this and not self.is_amid_message
