"""Guards the other sinks that ``transform()`` attaches: an error names the sink, and no record is lost.

quixstreams flushes all sinks before it commits offsets, the lake's sink last.
"""

import threading
from collections.abc import Callable

from quixstreams.sinks import BaseSink, SinkBackpressureError, SinkManager

from app.consumer.user_code import at, line_of
from app.errors import ConnectorError, FatalError, RetryableError


class OtherSink:
    """Wraps a sink, for the framework to start and flush.

    Args:
        sink: what the user has given to ``sdf.sink()``.
    """

    def __init__(self, sink: BaseSink) -> None:
        self._sink = sink
        self._flushes = threading.Semaphore()

    def __repr__(self) -> str:
        return repr(self._sink)

    def start(self) -> None:
        """Connect it.

        Raises:
            FatalError: it fails.
        """
        self._guarded("connecting", self._sink.start)

    def flush(self) -> None:
        """Let it write its records.

        Raises:
            SinkBackpressureError: it cannot now; quixstreams pauses and reads again.
            FatalError: it fails.
        """
        with self._flushes:
            self._guarded("flushing", self._sink.flush)

    def on_paused(self) -> None:
        """See ``BaseSink.on_paused``."""
        self._guarded("pausing", self._sink.on_paused)

    def refuse_late_flush(self) -> None:
        """Raise if a flush that a revocation abandoned still runs.

        At the end of that flush the sink may drop its newer records, as ``BatchingSink`` does. Their offsets would be
        committed nevertheless.
        """
        if not self._flushes.acquire(blocking=False):
            raise RetryableError(
                f"flushing the sink {self} of transform() before partitions were given away",
                "it has not ended yet, and may drop what it gets from now on",
                "The next start reads again what is not committed",
            )
        self._flushes.release()

    def _guarded(self, doing: str, work: Callable[[], None]) -> None:
        try:
            work()
        except (ConnectorError, SinkBackpressureError):
            raise
        except Exception as error:
            raise FatalError(
                f"{doing} the sink {self} of transform()",
                f"{error!r}{at(line_of(error))}",
                "Records since the last commit are read again at the next start, and may come to that sink twice",
            ) from error


class OtherSinks:
    """All sinks of an application except the lake's.

    Args:
        manager: of the framework, before the lake's sink is attached.
    """

    def __init__(self, manager: SinkManager) -> None:
        self._sinks = [OtherSink(sink) for sink in manager.sinks]
        manager._sinks = dict(zip(manager._sinks, self._sinks, strict=True))

    def start(self) -> None:
        """Connect them, in turn; see ``OtherSink.start``."""
        for sink in self._sinks:
            sink.start()

    def refuse_late_flush(self) -> None:
        """See ``OtherSink.refuse_late_flush``."""
        for sink in self._sinks:
            sink.refuse_late_flush()
