"""The connector as a process without Java: a writer of pyarrow in Spark's place, and a short session with Kafka.

    python tests/e2e/light.py TREE

The tree is the folder of the ``main.py`` and the ``app/`` to run.
"""

import os
import runpy
import sys
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

TREE = Path(sys.argv.pop(1))
sys.path[0] = str(Path(__file__).resolve().parents[2])
sys.path.insert(0, str(TREE))

# isort: off
import main  # noqa: E402, F401 - before any other: it sees to signals and to the warnings of libraries
import app.service.run  # noqa: E402 - the path comes first
import app.service.spark  # noqa: E402
from app.errors import SparkLostError  # noqa: E402
from app.timings import Timings  # noqa: E402
from tests.fakes.arrow_writer import ArrowWriter  # noqa: E402
# isort: on


class LightWriter(ArrowWriter):
    """As ``app.spark.writer.SparkWriter``, and ready at once."""

    alive = True
    is_up = True

    def __init__(self, **_: Any) -> None:
        super().__init__()
        self.lost: Future[SparkLostError] = Future()

    def start(self) -> Future[None]:
        started: Future[None] = Future()
        started.set_result(None)
        return started

    def jvm_pid(self) -> None:
        """There is no Java whose memory could be told."""

    def close(self) -> None:
        """Nothing was started."""


vars(app.service.spark)["SparkWriter"] = LightWriter
timings = Timings(
    session_seconds=6.0,  # the shortest that brokers allow
    revoke_seconds=float(os.environ.get("LIGHT_REVOKE_SECONDS", Timings().revoke_seconds)),
)
vars(app.service.run)["run"] = partial(app.service.run.run, timings=timings)
runpy.run_path(str(TREE / "main.py"), run_name="__main__")
