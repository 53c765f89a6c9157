"""The jobs of all tables on one thread, in turn. A job has its time limit from its own start, however long it waited.

Each table waits for its job before it brings the next, so between two of its jobs each other table has one turn.
"""

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from itertools import count
from typing import TypeVar

_T = TypeVar("_T")


class Turns:
    """``cancel`` asks a job to end, by its name. It has a thread of its own, for it may hang as the job does."""

    def __init__(self, seconds: float, cancel: Callable[[str], None], ending_seconds: float = 30.0) -> None:
        self._seconds = seconds
        self._ending_seconds = ending_seconds
        self._cancel = cancel
        self._names = map(str, count(1))
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spark")
        self._canceller = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spark-cancel")

    def run(self, work: Callable[[str], _T]) -> _T:
        """Return the result of this job, which gets its name.

        Raises:
            CancelledError: it took too long, and was cancelled.
            TimeoutError: it took too long, and has not ended since: Java hangs.
        """
        name, begun = next(self._names), threading.Event()

        def in_turn() -> _T:
            begun.set()
            return work(name)

        job = self.thread.submit(in_turn)
        begun.wait()
        if not wait([job], self._seconds).done:
            self._canceller.submit(self._cancel, name)
            if not wait([job], self._ending_seconds).done:
                raise TimeoutError
            if job.exception():
                raise CancelledError
        return job.result()

    def close(self) -> None:
        for thread in (self.thread, self._canceller):
            thread.shutdown(wait=False, cancel_futures=True)
