"""The lane for an edited ``transform()`` as a process of its own, but for Spark; it dies where it is told to.

Variables: those of the connector, ``LANE_TRANSFORM`` names one of the functions below, and ``LANE_DIE`` is
``place:number``: the process is killed when it comes to this place for the so-manieth time.
"""

import logging
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any

from quixstreams.dataframe import StreamingDataFrame
from quixstreams.dataframe.windows import Count

import app.service.run
from app.config.settings import load_settings
from app.consumer.framework.sink import RowSink
from app.errors import ConnectorError
from app.journal.generation import Generation
from app.monitoring.metrics import Metrics
from app.pipeline.upload import Upload
from app.service.customised import Customised
from app.service.process import Process, StopRequested
from app.service.starting import Base
from app.spark.scratch import scratch_folder
from app.timings import DEFAULT
from tests.fakes.arrow_writer import ArrowWriter


def filtered(sdf: StreamingDataFrame) -> StreamingDataFrame:
    return sdf[sdf["n"] % 3 != 0]


def expanded(sdf: StreamingDataFrame) -> StreamingDataFrame:
    return sdf.apply(lambda value: [{**value, "part": part} for part in range(3)], expand=True)


def grouped(sdf: StreamingDataFrame) -> StreamingDataFrame:
    return sdf.group_by("room", name="by-room")


def windowed(sdf: StreamingDataFrame) -> StreamingDataFrame:
    windows = sdf.tumbling_window(timedelta(seconds=1)).agg(count=Count())
    return windows.final().apply(lambda window: {"ts_ms": window["start"], **window})


def failing(sdf: StreamingDataFrame) -> StreamingDataFrame:
    def check(value: dict[str, Any]) -> dict[str, Any]:
        if value["n"] % 10 == 3:
            raise ValueError("no such number")
        return value

    return sdf.apply(check)


class _NoSpark:
    alive = is_up = True

    def __init__(self) -> None:
        self.write = ArrowWriter().write
        self.lost: Future[Any] = Future()

    def start(self) -> "Future[None]":
        up: Future[None] = Future()
        up.set_result(None)
        return up

    def jvm_pid(self) -> None:
        """There is no Java."""


def _dying(owner: Any, method: str, *, after: bool, number: int) -> None:
    """Kill the process before, or after, the so-manieth call of this method."""
    original: Callable[..., Any] = getattr(owner, method)
    calls = 0

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        is_it = calls == number
        if is_it and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*arguments, **named)
        if is_it:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, method, call)


_PLACES: dict[str, tuple[Any, str, bool]] = {
    "before upload": (Upload, "run", False),
    "before the log's last write": (Generation, "done", False),
    "between log and commit": (RowSink, "_flush", True),
}


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stdout)
    place, _, number = os.environ.get("LANE_DIE", "").partition(":")
    if place:
        owner, method, after = _PLACES[place]
        _dying(owner, method, after=after, number=int(number))
    settings = load_settings()
    timings = replace(DEFAULT, session_seconds=6.0, flush_seconds=float(os.environ.get("LANE_FLUSH", "20")))
    with ExitStack() as ends:
        process = Process(lambda: None)
        process.handle_signals()
        base = Base(settings, timings, Metrics(), ends.enter_context(scratch_folder()))
        spark: Any = _NoSpark()
        transform = Customised(globals()[os.environ["LANE_TRANSFORM"]])
        setattr(app.service.run, "load_customised", lambda: transform)  # noqa: B010 - it is not exported
        try:
            app.service.run.consume(base, spark, process, ends)
        except StopRequested:  # while it started
            return 0
        except ConnectorError as error:
            logging.exception("ended")
            return error.exit_code
    return 0


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    os._exit(code)
