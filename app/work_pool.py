"""Runs work on threads that end when no work is waiting. ``side_by_side`` processes many items on a few threads."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

_Given = ParamSpec("_Given")
_T = TypeVar("_T")
_Item = TypeVar("_Item")


class WorkPool(Executor):
    """Works like ``ThreadPoolExecutor``, but idle threads end, and the process can end while threads are busy."""

    def __init__(self, name: str, workers: int = 1) -> None:
        self._name = name
        self._workers = workers
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._threads = 0
        self._changed = threading.Condition()
        self._is_shut_down = False

    @property
    def waiting(self) -> int:
        """Number of pieces of work that no thread has begun."""
        return len(self._waiting)

    def submit(self, work: Callable[_Given, _T], /, *args: _Given.args, **named: _Given.kwargs) -> Future[_T]:
        future: Future[_T] = Future()
        with self._changed:
            if self._is_shut_down:
                raise RuntimeError("the pool was shut down")
            if self._threads < self._workers:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
                self._threads += 1
            self._waiting.append((future, partial(work, *args, **named)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._changed:
            self._is_shut_down = True
            for future, _ in self._waiting if cancel_futures else ():
                future.cancel()
        if wait:
            self.join(None)

    def join(self, seconds: float | None) -> None:
        """Wait until all work is done, but not longer than ``seconds``."""
        with self._changed:
            self._changed.wait_for(lambda: self._threads == 0, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._threads -= 1
                    self._changed.notify_all()
                    return
                future, work = self._waiting.popleft()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:  # noqa: BLE001 - the caller receives it with the result
                    future.set_exception(error)
            del future, work  # these variables keep records in memory


def side_by_side(workers: int, work: Callable[[_Item], _T], items: Iterable[_Item]) -> Iterator[tuple[_Item, _T]]:
    """Yield each item with its result, in the order of the items. ``workers`` items are processed at the same time."""
    waiting: deque[tuple[_Item, Future[_T]]] = deque()
    with ThreadPoolExecutor(workers, "side-by-side") as pool:
        for item in items:
            waiting.append((item, pool.submit(work, item)))
            if len(waiting) > 2 * workers:
                first, future = waiting.popleft()
                yield first, future.result()
        for item, future in waiting:
            yield item, future.result()
