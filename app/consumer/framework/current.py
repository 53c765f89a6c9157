"""Observes the present message, thread and next flush of quixstreams, which quixstreams does not report to a sink."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from quixstreams.models import Topic

from app.bad_records.refusals import TooBigError, message_size
from app.model import Message
from app.timings import Timings


class CurrentMessage:
    """The message of the input topic that is processed now. ``size`` is the size of value, key and headers in bytes.

    Messages with several records (``holds_several``) are not kept. Messages of more than ``most_bytes`` are refused.
    """

    def __init__(self, most_bytes: int, *, holds_several: bool = False) -> None:
        self._most_bytes = most_bytes
        self._holds_several = holds_several
        self._message: Message | None = None
        self.size = 0

    def watch(self, topics: Iterable[Topic], own: str) -> None:
        """Receive each message before quixstreams deserializes it. ``own`` is the name of the input topic.

        ``headers_of`` measures each message, and replaces header names that are not UTF-8. Otherwise quixstreams would
        use a null pointer of Kafka's client as the name, and the process would end.
        """
        for topic in topics:
            see = self.begin if topic.name == own else self._measure
            vars(topic)["row_deserialize"] = _before(see, topic.row_deserialize)  # quixstreams has no callback for this

    def begin(self, message: Message) -> None:
        """Note that the processing of a message begins. Raises ``TooBigError``."""
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
    """When quixstreams and the sink must flush. Only the consumer's thread calls methods; any thread reads ``seconds``.

    ``commit_interval`` is the commit interval of quixstreams in seconds. quixstreams flushes at ``flush_at`` (``None``
    without records) or earlier. The sink flushes bad records at ``keep_until`` (0 without bad records).
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
        """Seconds until the next flush. The number is negative if the flush is late; ``None`` if no record waits."""
        return None if self.flush_at is None else self.flush_at - self.timings.clock()

    def expect_flush(self) -> None:
        """Note that quixstreams has offsets to commit. A flush must follow."""
        if self.flush_at is None:
            self.flush_at = self.timings.clock() + self._commit_interval

    def expect_bad_records(self) -> None:
        """Note that a bad record waits. quixstreams does not commit the offsets of bad records."""
        self.keep_until = self.keep_until or self.timings.clock() + self._commit_interval

    def flushed(self, *, keeps_bad_records: bool = False) -> None:
        """Note that no flush is due. If ``keeps_bad_records``, bad records are still waiting, and are flushed later."""
        self.flush_at = None
        self.keep_until = self.timings.clock() + self._commit_interval if keeps_bad_records else 0.0

    @property
    def has_bad_records(self) -> bool:
        """Whether bad records have waited as long as the commit interval."""
        return bool(self.keep_until) and self.timings.clock() >= self.keep_until


class ConsumerThread:
    """The thread and the step of quixstreams. During a revocation, quixstreams flushes on a different thread.

    ``is_in_message``: some rows of a message may be missing. ``is_revoking``: a flush for a revocation is in progress.
    Both attributes may be true after quixstreams has abandoned this flush.
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
        """Whether quixstreams polls in this thread now. Then the rows of all received messages are complete."""
        return self.is_this and not self.is_in_message
