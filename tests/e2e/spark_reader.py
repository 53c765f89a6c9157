"""Reads lakes with Spark as anyone would: a process of its own, with one plain session for all queries.

Run as a module it answers one JSON line for each JSON line ``{"folder": …, "sql": …}`` on standard input; the folder's
table is the view ``lake``.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

REPO = Path(__file__).resolve().parents[2]


class SparkReader:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def query(self, folder: Path, sql: str) -> list[list[Any]]:
        """The rows of the query, values as JSON has them."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"folder": str(folder), "sql": sql}), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, "the reading Spark has ended"
        rows: list[list[Any]] = json.loads(answer)
        return rows


@contextmanager
def spark_reader(log: Path) -> Iterator[SparkReader]:
    with log.open("wb") as noise:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.spark_reader"],
            cwd=REPO,
            env={**os.environ, "PYTHONPATH": str(REPO)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=noise,
            text=True,
        )
    try:
        yield SparkReader(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()  # which ends its loop, and with it Java
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _serve() -> None:
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.driver.memory", "512m")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    for line in sys.stdin:
        asked = json.loads(line)
        session.read.parquet(asked["folder"]).createOrReplaceTempView("lake")
        rows = session.sql(asked["sql"]).collect()
        sys.stdout.write(json.dumps([list(row) for row in rows], default=str) + "\n")
        sys.stdout.flush()
    session.stop()


if __name__ == "__main__":
    _serve()
