"""Reads lakes with Spark as anyone would: a process of its own, with one plain session for all queries.

Run as a module it answers one JSON line for each JSON line ``{"folder": …, "sql": …}`` on standard input; the folder's
table is the view ``lake``.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dev.reading_spark import reading_spark

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
    with (
        tempfile.TemporaryDirectory(prefix="reader-") as folder,
        reading_spark(Path(folder), master="local[1]", spark_sql_session_timeZone="UTC") as session,
    ):
        for line in sys.stdin:
            asked = json.loads(line)
            session.read.parquet(asked["folder"]).createOrReplaceTempView("lake")
            rows = session.sql(asked["sql"]).collect()
            sys.stdout.write(json.dumps([list(row) for row in rows], default=str) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    _serve()
