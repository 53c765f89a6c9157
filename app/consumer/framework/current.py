"""The present state of quixstreams: its message, its thread, its next flush. It reports none of them to a sink."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from quixstreams.models import Topic

from app.bad_records.refusals import TooBigError, message_size
from app.model import Message
from app.timings import Timings


class CurrentMessage:
    """The message of the input topic that is processed now, and its ``size``: bytes of value, key and headers.

    If a message ``holds_several`` records, it is not kept. ``most_bytes`` is the largest message that becomes a row.
    """

    def __init__(self, most_bytes: int, *, holds_several: bool = False) -> None:
        self._most_bytes = most_bytes
        self._holds_several = holds_several
        self._message: Message | None = None
        self.size = 0

    def watch(self, topics: Iterable[Topic], own: str) -> None:
        """Call a function with each message before quixstreams deserializes it. ``own`` is the name of the input topic.

        Each message is measured by ``headers_of``, which also replaces header names that are not UTF-8. Otherwise
        quixstreams would use a null pointer of Kafka's client as the name, and the process would end.
        """
        for topic in topics:
            see = self.begin if topic.name == own else self._measure
            vars(topic)["row_deserialize"] = _before(see, topic.row_deserialize)  # quixstreams has no callback for this

    def begin(self, message: Message) -> None:
        """Note that the processing of a message begins; raises ``TooBigError``."""
        self._measure(message)
        if self.size > self._most_bytes:
            raise TooBigError(self.size, self._most_bytes)
        self._message = None if self._holds_several else message

    def _measure(self, message: Message) -> None:
        self.size = message_size(message)

    def of(self, topic: str, partition: int, offset: int) -> Message | None:
        """Returns the message with this offset, if it is processed now."""
        message = self._message
        if message is None or (message.offset(), message.partition(), message.topic()) != (offset, partition, topic):
            return None
        return message


def _before(see: Callable[[Any], object], deserialize: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def row_deserialize(message: Any) -> Any:
        see(message)
        return deserialize(message)

    return row_deserialize


class Due:
    """When quixstreams and the sink must flush. Only the consumer's thread may use it, except ``seconds``.

    ``commit_interval`` is that of quixstreams, in seconds. It flushes at ``flush_at`` at the latest; ``None`` if there
    is nothing to commit. It ignores bad records. The sink flushes these at ``keep_until``; 0 if there are none.
    """

    def __init__(self, commit_interval: float, timings: Timings) -> None:
        self._commit_interval = commit_interval
        self.timings = timings
        self.flush_at: float | None = None
        self.keep_until = 0.0
        self._quiet_since = timings.clock()

    def message_received(self) -> None:
        self._quiet_since = self.timings.clock()

    @property
    def is_quiet(self) -> bool:
        """Whether no message has been received for ``gather_seconds``."""
        return self.timings.clock() - self._quiet_since >= self.timings.gather_seconds

    @property
    def seconds(self) -> float | None:
        """Seconds until the next flush, negative if it is late; ``None`` if nothing waits for it."""
        return None if self.flush_at is None else self.flush_at - self.timings.clock()

    def expect_flush(self) -> None:
        """Note that quixstreams has something to commit."""
        if self.flush_at is None:
            self.flush_at = self.timings.clock() + self._commit_interval

    def expect_bad_records(self) -> None:
        """Note that a bad record waits, which quixstreams does not commit."""
        self.keep_until = self.keep_until or self.timings.clock() + self._commit_interval

    def flushed(self, *, keeps_bad_records: bool = False) -> None:
        """Nothing is due now. Bad records that could not be flushed are retried later."""
        self.flush_at = None
        self.keep_until = self.timings.clock() + self._commit_interval if keeps_bad_records else 0.0

    @property
    def has_bad_records(self) -> bool:
        """Whether bad records have waited for the commit interval."""
        return bool(self.keep_until) and self.timings.clock() >= self.keep_until


class ConsumerThread:
    """The thread and the step of quixstreams, which flushes a revocation on another thread, and calls back in polls.

    ``is_in_message``: some rows of a message may be missing. ``is_revoking``: a revocation's flush is in progress. Both
    may be true after quixstreams has abandoned that flush.
    """

    def __init__(self) -> None:
        self._ident = threading.get_ident()
        self.is_in_message = self.is_revoking = False

    def note(self) -> None:
        self._ident = threading.get_ident()

    @property
    def is_this(self) -> bool:
        return threading.get_ident() == self._ident

    @property
    def is_polling(self) -> bool:
        """Whether quixstreams polls now, in this thread. Then all rows of the received messages are complete."""
        return self.is_this and not self.is_in_message
