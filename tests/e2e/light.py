"""The connector as a process without Java: a writer of pyarrow in Spark's place.

    python tests/e2e/light.py TREE

The tree is the folder of the ``main.py`` and the ``app/`` to run. ``LIGHT_DIE`` is ``place:number``: the process is
killed when it comes to this place for the so-manieth time.
"""

import os
import runpy
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

TREE = Path(sys.argv.pop(1))
sys.path[0] = str(Path(__file__).resolve().parents[2])
sys.path.insert(0, str(TREE))

# isort: off
import main  # noqa: E402, F401 - before any other: it sees to signals and to the warnings of libraries
import app.spark.writer  # noqa: E402 - the path comes first
from tests.fakes.ready_writer import ReadyWriter  # noqa: E402

vars(app.spark.writer)["SparkWriter"] = ReadyWriter  # before those are loaded that use it

import app.service.run  # noqa: E402
from app.consumer.framework.sink import RowSink  # noqa: E402
from app.journal.own_log import OwnLog  # noqa: E402
from app.delivery.deliver import Upload  # noqa: E402
from app.timings import Timings  # noqa: E402
# isort: on

# A method, and whether the process dies after it.
PLACES: dict[str, tuple[Any, str, bool]] = {
    "before upload": (Upload, "run", False),
    "before the log's last write": (OwnLog, "done", False),
    "between log and commit": (RowSink, "_flush", True),
    "after the log's last write": (OwnLog, "done", True),
}


def _die(place: str, number: int) -> None:
    """Kill the process at the so-manieth call of the place's method."""
    owner, method, after = PLACES[place]
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


if death := os.environ.get("LIGHT_DIE"):
    _die(death.partition(":")[0], int(death.partition(":")[2]))
if seconds := os.environ.get("LIGHT_LINEAGE_SECONDS"):
    import app.parts.lineage.lineage

    vars(app.parts.lineage.lineage)["_EVERY_SECONDS"] = float(seconds)
timings = Timings(session_seconds=float(os.environ.get("LIGHT_SESSION_SECONDS", "30")))
vars(app.service.run)["run"] = partial(app.service.run.run, timings=timings)
runpy.run_path(str(TREE / "main.py"), run_name="__main__")
