"""``compact`` and ``erase`` as a user runs them, with Spark, on a real S3 server."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dev.minio import LocalMinio
from dev.spark_cluster import SparkCluster, spark_cluster
from tests.e2e.scenario import s3_store
from tests.services.main_process import MAIN, run_main
from tests.services.spark import kept_variables
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("parsed_classes")

ROOT = "data/readings"
ORDER = "__partition,__offset,__timestamp"
# What was cut off just now is continued at once.
NO_LEASE = (
    "-c",
    f"import sys; sys.path.insert(0, {str(MAIN.parent)!r}); from datetime import timedelta; import main; "
    "import app.parts.maintenance.job as job; job._LEASE = timedelta(0); sys.exit(main.main(sys.argv[1:]))",
)


class Bucket:
    def __init__(self, server: LocalMinio, name: str, scratch: Path) -> None:
        self.server = server
        self.name = name
        self.printed = scratch / "printed"
        self.complaints = scratch / "complaints"
        self.client = server.client()

    def put(self, key: str, table: pa.Table | Mapping[str, Any], **options: Any) -> str:
        body = io.BytesIO()
        pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), body, **options)
        self.client.put_object(Bucket=self.name, Key=f"{ROOT}/{key}", Body=body.getvalue())
        return f"{ROOT}/{key}"

    def files(self, folder: str = "") -> list[str]:
        found = self.client.list_objects_v2(Bucket=self.name, Prefix=f"{ROOT}/{folder}").get("Contents", [])
        return [item["Key"] for item in found if item["Key"].endswith(".parquet") and "_journal" not in item["Key"]]

    def files_with_rows(self) -> list[str]:
        """Without those that take the name of a merged file."""
        return [key for key in self.files() if self.open(key).metadata.num_rows]

    def open(self, key: str) -> pq.ParquetFile:
        return pq.ParquetFile(io.BytesIO(self.client.get_object(Bucket=self.name, Key=key)["Body"].read()))

    def only_file(self, folder: str) -> pq.ParquetFile:
        [key] = self.files(folder)
        return self.open(key)

    def settings(self) -> dict[str, str]:
        return {
            **s3_store(self.server, self.name),
            "input": "readings",
            "HIVE_COLUMNS": "place",
            "SPARK_DRIVER_MEMORY": "512m",
            "SPARK_MASTER": "local[2]",
        }

    def staged(self) -> list[str]:
        """What executors have left in the journal."""
        found = self.client.list_objects_v2(Bucket=self.name, Prefix=f"{ROOT}/_journal/").get("Contents", [])
        return [item["Key"] for item in found if ".d/" in item["Key"]]

    def environment(self, on: SparkCluster | None = None, **variables: str) -> dict[str, str]:
        on_cluster = {"SPARK_MASTER": on.master, **on.driver} if on else {}
        return {**kept_variables(), **self.settings(), **on_cluster, **variables}

    @contextmanager
    def compacting(self, on: SparkCluster | None = None) -> "Iterator[subprocess.Popen[bytes]]":
        """Compact; the block begins once a folder is done, or the command has ended."""
        with (
            self.printed.open("wb") as printed,
            self.complaints.open("wb") as complaints,
            subprocess.Popen(
                [sys.executable, str(MAIN), "compact", "--when-cold", "0m"],
                env=self.environment(on),
                stdout=printed,
                stderr=complaints,
            ) as process,
        ):
            try:
                wait_until(
                    lambda: self.printed.read_text() or process.poll() is not None,
                    "a folder is done",
                    details=self.complaints.read_text,
                )
                yield process
            finally:
                process.kill()

    def run(
        self,
        *arguments: str,
        code: int = 0,
        main: Sequence[str] = (str(MAIN),),
        on: SparkCluster | None = None,
        **variables: str,
    ) -> tuple[list[str], str]:
        """Run a command to its end; the lines that it prints, and its errors."""
        done = run_main(*arguments, environment=self.environment(on, **variables), main=main)
        assert done.returncode == code, done.stderr
        return done.stdout.splitlines(), done.stderr


@pytest.fixture
def lake(s3_server: LocalMinio, bucket: str, tmp_path: Path) -> Bucket:
    return Bucket(s3_server, bucket, tmp_path)


def test_old_types_become_those_of_the_table_and_values_that_do_not_fit_are_kept(lake: Bucket) -> None:
    at = datetime(2024, 5, 1, 12, 30, 0, 123456, UTC)
    old = pa.table(
        {
            "ts_ms": pa.array([3, 1, 2], pa.int64()),
            "v": pa.array([1, 2**53 + 1, None], pa.int64()),
            "s": pa.array([{"a": 1}, {"a": 2**53 + 1}, None]),
            "l": pa.array([[1, 2], None, []]),
            "m": pa.array([{"k": 1}, None, None]),  # a struct
            "pairs": pa.array([[("k", 1), ("n", None)], None, []], pa.map_(pa.string(), pa.int64())),
            "mixed": pa.array([7, 8, 9], pa.int64()),
            "small": pa.array([1, 2, 3], pa.int16()),
            "at": pa.array([at] * 3, pa.timestamp("ns", "UTC")),
            "a.b": pa.array([True, False, None]),
            "nothing": pa.nulls(3),
            "_rescued_data": pa.array(['{"x":[1]}', '{"s":{"b":"y"},"_s":1,"\\u0076":"w"}', None]),
        }
    )
    lake.put("place=a/old.parquet", old)
    new = {"ts_ms": [0], "v": [0.5], "s": [{"a": 0.5, "b": "x"}], "l": [[0.5]], "mixed": ["text"], "new": [b"\x00"]}
    maps = pa.array([{"k": 0.5}], pa.map_(pa.string(), pa.float64()))
    lake.put("place=a/new.parquet", new | {"m": maps, "pairs": maps})

    said, _ = lake.run("compact", "--when-cold", "0m", COLUMN_TYPES="mixed:string")

    assert said[-1] == "1 folder: 2 files became 1"
    file = lake.only_file("place=a")
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    rows = file.read().to_pylist()
    assert [row["ts_ms"] for row in rows] == [0, 1, 2, 3], "in the order of their time"
    assert [row["v"] for row in rows] == [0.5, None, None, 1.0]
    assert [row["s"] for row in rows] == [{"a": 0.5, "b": "x"}, {"a": None, "b": None}, None, {"a": 1.0, "b": None}]
    assert [row["l"] for row in rows] == [[0.5], None, [], [1.0, 2.0]]
    assert [row["m"] for row in rows] == [[("k", 0.5)], None, None, None]
    assert [row["pairs"] for row in rows] == [[("k", 0.5)], None, [], [("k", 1.0), ("n", None)]]
    assert [row["mixed"] for row in rows] == ["text", "8", "9", "7"]
    assert [row["a.b"] for row in rows] == [None, False, None, True]
    assert rows[1]["at"] == at
    assert rows[0]["new"] == b"\x00"
    rescued = [row["_rescued_data"] and json.loads(row["_rescued_data"], object_pairs_hook=list) for row in rows]
    before = [("s", [("b", "y")]), ("_s", 1), ("v", "w")]
    now = [("__v", 2**53 + 1), ("__s", [("a", 2**53 + 1)])]  # each name once
    assert rescued == [None, before + now, None, [("x", [1]), ("m", [("k", 1)])]]


@pytest.mark.night
def test_values_at_the_edges_of_their_types_stay_what_they_are(lake: Bucket) -> None:
    at = datetime(2024, 5, 1, 12, 30, 0, 123456, UTC)
    ns = [1714566600000000000 + n * 1000 for n in range(2000)]
    ordered = {"ts_ms": pa.array(range(2000), pa.int64())}
    old = {
        "longest": pa.array([2**63 - 1, -(2**63)] * 1000),
        "ns": pa.array(ns, pa.timestamp("ns")),
        "number": pa.array([n + 1 for n in ns], pa.timestamp("ns")),
        "inner": pa.array([[each] for each in ns], pa.list_(pa.timestamp("ns"))),
        "s": pa.array([{"A": 1}] * 2000),
        "at": pa.array([at] * 2000),
        "text": pa.array([b"\xff", b"text"] * 1000),
        "_rescued_data": pa.nulls(2000),
    }
    lake.put("place=a/0.parquet", {**ordered, **old})
    lake.put("place=a/1.parquet", {"ts_ms": [2000], "i96": pa.array(ns[:1], pa.timestamp("ns"))})
    text = {"ts_ms": [2001, 2002], "longest": [0.5, 2.0**53 + 2], "_rescued_data": ["null", "{}"], "s": [{"a": 1}] * 2}
    lake.put("place=a/2.parquet", text)
    lake.put("place=b/1.parquet", {"i96": pa.array(ns[:1], pa.timestamp("ns"))}, use_deprecated_int96_timestamps=True)
    types = {
        "ts_ms": "bigint",
        "longest": "double",
        "at": "bigint",
        "number": "bigint",
        "text": "string",
        "s": "struct<a:bigint>",
    }
    schema = {"version": 1, "columns": [{"name": name, "type": kind} for name, kind in types.items()]}
    lake.client.put_object(Bucket=lake.name, Key=f"{ROOT}/_journal/schema.json", Body=json.dumps(schema).encode())

    lake.run("compact", "--when-cold", "0m")

    rows = lake.only_file("place=a").read().to_pylist()
    assert [row["ns"] for row in rows[:2000]] == [
        datetime(2024, 5, 1, 12, 30) + timedelta(microseconds=n) for n in range(2000)
    ]
    assert [row["inner"] for row in rows[:2000]] == [[row["ns"]] for row in rows[:2000]]
    assert [(row["longest"], row["text"], row["at"] or row["number"]) for row in rows[:2]] == [
        (None, None, None),
        (-(2.0**63), "text", None),
    ]
    rescued = [row["_rescued_data"] and json.loads(row["_rescued_data"]) for row in rows]
    assert rescued[:2] == [
        {"longest": 2**63 - 1, "text": "/w==", "at": "2024-05-01T12:30:00.123456Z", "s": {"A": 1}, "number": ns[0] + 1},
        {"at": "2024-05-01T12:30:00.123456Z", "s": {"A": 1}, "number": ns[1] + 1},
    ]
    assert [row["_rescued_data"] for row in rows[2000:]] == [None, "null", "{}"]
    assert lake.only_file("place=b").read()["i96"].to_pylist() == [datetime(2024, 5, 1, 12, 30)]


def test_erased_rows_are_in_no_file_and_rows_with_a_null_stay(lake: Bucket) -> None:
    for place in ("a", "b"):
        lake.put(f"place={place}/1.parquet", {"device": ["x", "y", None], "n": [1, 2, 3]})
        lake.put(f"place={place}/2.parquet", {"device": ["y", "y"], "n": [4, 5]})
    before = lake.files("place=b")

    said, _ = lake.run("erase", "--where", "device = 'x' OR n = 5", "--where", "place = 'a'")

    assert said[:2] == ["place=a: 2 rows", "2 rows erased from 2 files in 1 folder"]
    assert sorted(lake.only_file("place=a").read()["n"].to_pylist()) == [2, 3, 4]
    assert lake.files("place=b") == before


def test_a_folder_keeps_the_newest_row_of_each_key_and_no_deleted_one(lake: Bucket) -> None:
    def put(first: int, *changes: tuple[str | None, str]) -> None:
        offsets = range(first, first + len(changes))
        order = {
            "__partition": pa.array([0] * len(changes), pa.int32()),
            "__offset": pa.array(offsets, pa.int64()),
            "__timestamp": pa.array(offsets, pa.timestamp("us", "UTC")),
        }
        row = {
            "__key": [key for key, _ in changes],
            "op": [op for _, op in changes],
            "n": pa.array(offsets, pa.int64()),
        }
        lake.put(f"place=a/{first}.parquet", {**row, **order})

    newest = ("compact", "--when-cold", "0m", "--newest-by", "__key", "--drop-where", "op = 'd'")
    put(0, ("1", "c"), ("2", "c"), ("1", "u"), (None, "u"), (None, "d"))
    said, _ = lake.run(*newest, METADATA_COLUMNS=ORDER)
    assert said[-1] == "1 folder: 1 file became 1"
    assert numbers(lake) == [1, 2, 3, 4]
    said, _ = lake.run(*newest, METADATA_COLUMNS=ORDER)
    assert said == ["0 folders: 0 files became 0"]
    put(5, ("2", "d"), ("3", "c"))
    said, _ = lake.run(*newest, METADATA_COLUMNS=ORDER)
    assert "2 rows removed" in said[0]
    assert numbers(lake) == [2, 3, 4, 6]
    _, complaint = lake.run(*newest[:-1], "op = 'd' AND rand() < 1", code=2, METADATA_COLUMNS=ORDER)
    assert "understanding --drop-where op = 'd' AND rand() < 1: its result changes" in complaint


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def fill(lake: Bucket, folders: int, files: int) -> None:
    for place in range(folders):
        for number in range(files):
            rows = {
                "ts_ms": [number * 10 + n for n in range(10)],
                "n": [place * 1_000 + number * 10 + n for n in range(10)],
            }
            lake.put(f"place={place}/{number:03}.parquet", rows)


def numbers(lake: Bucket) -> list[int]:
    return sorted(n for key in lake.files() for n in lake.open(key).read()["n"].to_pylist())


@pytest.mark.night
def test_a_java_that_dies_ends_the_run_with_advice_and_the_next_one_completes_it(lake: Bucket) -> None:
    fill(lake, folders=8, files=10)
    wanted = numbers(lake)
    with lake.compacting() as process:
        children = [tasks.read_text().split() for tasks in Path(f"/proc/{process.pid}/task").glob("*/children")]
        [java] = (int(pid) for pids in children for pid in pids)
        os.kill(java, signal.SIGKILL)
        wait_until(lambda: process.poll() is not None, "the end of the command", details=lake.complaints.read_text)
    complaints = lake.complaints.read_text()
    assert process.returncode == 70, complaints
    assert "raise SPARK_DRIVER_MEMORY" in complaints.splitlines()[-1]
    assert "Traceback" not in complaints

    lake.run("compact", "--when-cold", "0m", main=NO_LEASE)
    assert numbers(lake) == wanted
    assert len(lake.files_with_rows()) == 8


def test_on_a_cluster_executors_merge_the_files(lake: Bucket, cluster: SparkCluster) -> None:
    fill(lake, folders=3, files=10)
    said, _ = lake.run("compact", "--when-cold", "0m", on=cluster)
    assert said[-1] == "3 folders: 30 files became 3"
    assert numbers(lake) == [place * 1_000 + n for place in range(3) for n in range(100)]
    assert len(lake.files()) == 3
    assert not lake.staged()

    said, _ = lake.run("erase", "--where", "n < 50", on=cluster)
    assert "50 rows erased from 1 file in 1 folder" in said
    assert min(numbers(lake)) == 50


def test_on_a_cluster_a_worker_and_a_driver_may_die(lake: Bucket, cluster: SparkCluster) -> None:
    """The last of these tests: one worker is left then."""
    fill(lake, folders=6, files=20)
    wanted = numbers(lake)
    with lake.compacting(on=cluster):
        os.kill(cluster.workers[0].pid, signal.SIGKILL)
        wait_until(
            lambda: lake.printed.read_text().count("\n") > 1, "another folder", details=lake.complaints.read_text
        )
    assert sorted(set(numbers(lake))) == wanted, "rows may be there twice for now, but none is lost"

    said, _ = lake.run("compact", "--when-cold", "0m", main=NO_LEASE, on=cluster)
    assert numbers(lake) == wanted
    assert len(lake.files_with_rows()) == 6, said
