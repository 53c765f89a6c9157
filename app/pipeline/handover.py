"""Handing work from one thread to the next."""

import queue
import threading
from typing import Generic, TypeVar

from app.retry import Stopped

_T = TypeVar("_T")


class Handover(Generic[_T]):
    """A queue of one that can be given up from outside."""

    def __init__(self, stop: threading.Event) -> None:
        self._queue: queue.Queue[_T] = queue.Queue(maxsize=1)
        self._stop = stop

    @property
    def is_empty(self) -> bool:
        return self._queue.empty()

    def put(self, item: _T) -> None:
        while True:
            if self._stop.is_set():
                raise Stopped
            try:
                return self._queue.put(item, timeout=0.2)
            except queue.Full:
                continue

    def get(self) -> _T:
        while True:
            if self._stop.is_set():
                raise Stopped
            try:
                return self._queue.get(timeout=0.2)
            except queue.Empty:
                continue
