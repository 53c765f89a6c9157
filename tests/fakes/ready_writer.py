"""Stands in for ``app.spark.writer.SparkWriter``, and is ready at once."""

from concurrent.futures import Future
from typing import Any

from app.errors import SparkLostError
from tests.fakes.arrow_writer import ArrowWriter


class ReadyWriter(ArrowWriter):
    """Takes no notice of the arguments of the real one."""

    alive = True
    is_up = True

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()
        self.lost: Future[SparkLostError] = Future()

    def start(self) -> Future[None]:
        return self.up

    def jvm_pid(self) -> None:
        """There is no Java whose memory could be told."""

    def close(self) -> None:
        """Nothing was started."""
