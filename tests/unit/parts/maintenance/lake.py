"""A table of small files in a folder, and the commands on it, without Spark."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.config.settings import Settings
from app.model import BatchPart, Maintenance, OffsetRange, TopicPartition
from app.parts.maintenance.record import last_maintenance
from app.storage.base import StoredObject
from app.storage.local.store import LocalStore
from app.table.layout import file_name
from tests.fakes.arrow_merge import ArrowMerge
from tests.support.commands import run_command
from tests.support.environment import local_settings

ROOT = "data/readings"
OWNER = "0a1b2c3d4e5f607100000003"
ROWS = 10  # of each file
PARTITION = TopicPartition("readings", 0)


class Killed(BaseException):
    """The process ends here."""


class SteppedStore(LocalStore):
    """A folder whose every change is a step: ``before`` and ``after`` are called with its number and what it is."""

    def __init__(self, folder: Path, before: Callable[[int, str], None], after: Callable[[int, str], None]) -> None:
        super().__init__(folder)
        self._before, self._after = before, after
        self.steps: list[str] = []

    @contextmanager
    def _step(self, what: str) -> Iterator[None]:
        number = len(self.steps)
        self.steps.append(what)
        self._before(number, what)
        yield
        self._after(number, what)

    def upload(self, path: Path, key: str) -> StoredObject:
        with self._step("upload"):
            return super().upload(path, key)

    def write(self, key: str, body: bytes, *, replaces: str | None) -> str:
        with self._step("record" if "compact-" in key else "schema"):
            return super().write(key, body, replaces=replaces)

    def overwrite(self, key: str, body: bytes) -> None:
        with self._step("empty"):
            super().overwrite(key, body)

    def delete(self, key: str) -> None:
        with self._step("delete"):
            super().delete(key)


class OtherClock(LocalStore):
    """A folder on a machine whose clock is so many hours ahead of ours."""

    def __init__(self, folder: Path, hours: float) -> None:
        super().__init__(folder)
        self._ahead = timedelta(hours=hours)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        return (replace(each, last_modified=each.last_modified + self._ahead) for each in super().list(prefix))


class Lake:
    """The table ``readings`` with folders ``year=…/place=…``; each batch has a file in each folder."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.patch = patch
        self.table = folder / ROOT
        patch.setattr("app.parts.maintenance.merger.Merge", ArrowMerge)
        patch.setattr("app.parts.maintenance.merger.merge_session", lambda *_: nullcontext())
        patch.setattr("app.parts.maintenance.job.may_match", lambda _, folders, *__: [True] * len(folders))
        patch.setattr("app.parts.maintenance.table.try_out", lambda *_: None)

    def settings(self, **variables: str) -> Settings:
        return local_settings(
            self.folder,
            **{
                "HIVE_COLUMNS": "year,place",
                "MAX_WRITE_WORKERS": "1",
                "METADATA_COLUMNS": "__partition,__offset,__timestamp",
                **variables,
            },
        )

    def run(self, *arguments: str, **variables: str) -> int:
        return run_command(self.settings(**variables), *arguments)

    def write(self, batch: int, place: str = "a", year: str = "2024", kind: pa.DataType | None = None) -> Path:
        """One file of a batch of ten rows, two days old."""
        offsets = OffsetRange(PARTITION, batch * ROWS, batch * ROWS + ROWS - 1)
        numbers = range(offsets.first, offsets.last + 1)
        columns: dict[str, Any] = {
            "n": pa.array(numbers, kind or pa.int64()),
            "ts_ms": pa.array(numbers, pa.int64()),
            "device": [f"d{number % 5}" for number in numbers],
            "__offset": pa.array(numbers, pa.int64()),
            "__partition": pa.array([0] * ROWS, pa.int32()),
            "__timestamp": pa.array(numbers, pa.timestamp("us", "UTC")),
        }
        return self.put(f"year={year}/place={place}/{file_name([BatchPart(offsets, OWNER, batch)])}", columns)

    def put(self, key: str, columns: dict[str, Any]) -> Path:
        path = self.table / key
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), path)
        self.age(path, days=2)
        return path

    def age(self, *paths: Path, days: float) -> None:
        for path in paths:
            at = time.time() - days * 86_400
            os.utime(path, (at, at))

    def age_all(self, days: float) -> None:
        self.age(*self.files(), days=days)

    def files(self, folder: str = "**") -> list[Path]:
        found = self.table.glob(f"{folder}/*.parquet")
        return sorted(path for path in found if ".vidx" not in path.parts and "_journal" not in path.parts)

    def open_records(self) -> list[Path]:
        return [path for path in (self.table / "_journal").glob("compact-*.json") if path.stat().st_size > 16]

    def numbers(self, folder: str = "*/*") -> list[int]:
        """The column ``n`` of all rows, as a reader finds them who takes all files of the folders."""
        sql = f"SELECT n FROM read_parquet('{self.table}/{folder}/*.parquet', union_by_name=true) ORDER BY n"  # noqa: S608
        with duckdb.connect() as connection:
            return [n for (n,) in connection.execute(sql).fetchall()]

    @property
    def last(self) -> Maintenance | None:
        """What is stored of the last runs."""
        return last_maintenance(LocalStore(self.folder), ROOT).read()

    @property
    def done(self) -> Maintenance:
        last = self.last
        assert last
        return last

    def dies(self, *arguments: str, at: str) -> None:
        """Run this command until just after its first step of this kind."""

        def kill(_: int, what: str) -> None:
            if what == at:
                raise Killed

        self.step_by_step(after=kill)
        with pytest.raises(Killed):
            self.run(*arguments)
        self.step_by_step()

    def merge_later_ones(self) -> list[Path]:
        """Merge two files, and two days later the result with a third one; returns the name that is merged again."""
        self.write(0), self.write(1)
        assert self.run("compact") == 0
        first = self.files()
        self.age_all(days=2)
        self.write(2)
        assert self.run("compact") == 0
        return first

    def step_by_step(
        self, before: Callable[[int, str], None] = lambda *_: None, after: Callable[[int, str], None] = lambda *_: None
    ) -> SteppedStore:
        """Let the next commands work on a store with steps."""
        store = SteppedStore(self.folder, before, after)
        self.patch.setattr("app.parts.commands.find_tables.new_store", lambda _: store)
        return store
