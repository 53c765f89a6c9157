"""Ends the process within a time limit after a signal, or after Spark is lost."""

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import NoReturn

from app.errors import ConnectorError, RetryableError, SparkLostError

logger = logging.getLogger(__name__)

_LONGEST_LEAVE_SECONDS = 5.0  # seconds; without Spark, the connector writes no rows, and the consumer leaves the group
LONGEST_STOP_SECONDS = 27.0  # the last flush may need 25 s; Kubernetes waits for 30 s by default


class StopRequested(BaseException):
    """The process received a signal during the start. This is not an ``Exception``, so that no handler catches it."""


class Process:
    """Handles signals. During the start, a signal raises ``StopRequested``. Later, a signal stops the consumer's loop.

    ``ends`` stops the parts. If a stop takes too long, ``clean_up`` is called before the process ends.
    """

    def __init__(self, clean_up: Callable[[], None], ends: ExitStack) -> None:
        self._clean_up = clean_up
        self.ends = ends
        self._begun = time.monotonic()
        self._request_stop: Callable[[], None] | None = None
        self.stop = threading.Event()  # set by the first signal
        self.connected = threading.Event()  # set when broker, store, catalog and Spark work

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    @property
    def stopped_at_start(self) -> bool:
        """Whether a signal arrived before the loop started. Kafka's client may swallow the handler's exception."""
        return self.stop.is_set() and self._request_stop is None

    def handle_signals(self) -> None:
        """Handle signals. End the process in time even if no signal handler can run.

        Python runs signal handlers only between bytecodes, but a commit to an unreachable Kafka may block for minutes.
        """
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        signals, wake_up = socket.socketpair()
        wake_up.setblocking(False)
        signal.set_wakeup_fd(wake_up.fileno())
        # The thread keeps both sockets open as long as the process lives.
        threading.Thread(target=self._end_late_stop, args=(signals, wake_up), name="stop-limit", daemon=True).start()

    def started(self, request_stop: Callable[[], None]) -> None:
        """Call ``request_stop`` at the next signal. Raise ``StopRequested`` if a signal has already arrived."""
        stopped_at_start = self.stopped_at_start
        self._request_stop = request_stop
        if stopped_at_start:
            raise StopRequested

    def end_without_spark(self, error: SparkLostError, fail: Callable[[ConnectorError], None]) -> None:
        """End the process. No record is lost, because offsets of rows outside of the lake are not committed.

        The consumer's loop ends with the pipeline, and leaves the group. Kafka then reassigns the partitions
        immediately. If the loop is stuck, a timer ends the process.
        """
        fail(error)
        limit = threading.Timer(_LONGEST_LEAVE_SECONDS, _exit_now_with, (error,))
        limit.daemon = True
        limit.start()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self.stop.is_set():
            return  # platforms repeat signals
        logger.info("received %s, stopping", signal.Signals(number).name)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a second Ctrl-C interrupts the process
        self.stop.set()
        if self._request_stop is None:
            raise StopRequested
        self._request_stop()

    def _end_late_stop(self, signals: socket.socket, _: socket.socket) -> None:
        signals.recv(1)
        time.sleep(LONGEST_STOP_SECONDS)
        error = RetryableError(
            "stopping",
            f"it took longer than {LONGEST_STOP_SECONDS:.0f} s, for example because Kafka does not answer",
            "The next start reads the uncommitted records again",
        )
        self._clean_up()
        _exit_now_with(error)


def _exit_now_with(error: ConnectorError) -> NoReturn:
    logger.error("%s", error)
    logging.shutdown()
    os._exit(error.exit_code)
