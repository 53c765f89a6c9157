"""Asks Kafka from time to time what no message tells: whether topic and group are still as they were found.

It has a thread of its own, for an answer may take long, and the consumer's loop must not wait for it.
"""

import logging
import threading
from collections.abc import Callable, Sequence

from app.errors import ConnectorError

logger = logging.getLogger(__name__)


class KafkaWatch:
    """Asks once ``start()`` was called; what it finds ends the process.

    Args:
        questions: each returns the error to end with, or ``None`` where all is well. May raise ``ConnectorError``
            where there is no answer; it is asked again then.
        seconds: between two rounds.
    """

    def __init__(self, questions: Sequence[Callable[[], ConnectorError | None]], seconds: float) -> None:
        self._questions = questions
        self._seconds = seconds
        self._found: ConnectorError | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to ask, if it has not begun yet; for one thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kafka-watch", daemon=True)
            self._thread.start()

    def raise_found(self) -> None:
        """Raise what was found, if anything was."""
        if self._found is not None:
            raise self._found

    def stop(self) -> None:
        """Ask no more."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(self._seconds) and self._found is None:
            for question in self._questions:
                self._found = self._found or _answer(question)


def _answer(question: Callable[[], ConnectorError | None]) -> ConnectorError | None:
    try:
        return question()
    except ConnectorError as error:
        logger.debug("%s. It is asked again", error)
    except Exception as error:
        logger.warning("watching topic and group: %r. Please report this as a bug", error, exc_info=True)
    return None
