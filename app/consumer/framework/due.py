"""When quixstreams flushes, and when the sink has to flush by itself."""

import threading

from app.timings import Timings


class Due:
    """For the consumer's thread, but for ``seconds``. ``commit_interval`` is that of quixstreams, in seconds.

    quixstreams flushes by ``flush_at``; ``None`` if it has nothing to commit. Bad records alone, of which it does not
    know, are flushed at ``keep_until``; 0 without any.
    """

    def __init__(self, commit_interval: float, timings: Timings) -> None:
        self._commit_interval = commit_interval
        self.timings = timings
        self.flush_at: float | None = None
        self.keep_until = 0.0
        self._quiet_since = timings.clock()

    def came(self) -> None:
        """A message came."""
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

    ``is_amid_message``: some rows of a message may be missing. ``is_revoking``: a revocation's flush is under way.
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
