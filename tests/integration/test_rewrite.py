"""The command as a user runs it, on a real S3 server: what it changes, what it leaves, and where it may be stopped."""

import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from app.table.schema import TableSchema
from dev.minio import LocalMinio
from dev.reading_spark import reading_spark
from tests.fakes.catalog_server import CatalogServer, Trouble
from tests.services.spark import kept_variables

pytestmark = pytest.mark.usefixtures("parsed_classes")

MAIN = Path(__file__).parents[2] / "main.py"
ROOT = "data/readings"
TABLE = TableSchema({"n": pa.int64(), "v": pa.float64(), "s": pa.struct([("a", pa.float64()), ("b", pa.string())])})


class Bucket:
    """A table of the topic ``readings`` in a bucket, partitioned by year and month."""

    def __init__(self, server: LocalMinio, name: str) -> None:
        self.server = server
        self.name = name
        self.client = server.client()

    def put(self, key: str, columns: dict[str, Any], row_group_size: int = 1_000) -> str:
        body = io.BytesIO()
        pq.write_table(pa.table(columns), body, row_group_size=row_group_size)
        self.client.put_object(Bucket=self.name, Key=f"{ROOT}/{key}", Body=body.getvalue())
        return f"{ROOT}/{key}"

    def put_schema(self, schema: TableSchema) -> None:
        body = json.dumps(schema.to_document()).encode()
        self.client.put_object(Bucket=self.name, Key=f"{ROOT}/_journal/schema.json", Body=body)

    def read(self, key: str) -> pa.Table:
        body = self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return pq.ParquetFile(io.BytesIO(body)).read()

    def versions(self) -> dict[str, tuple[str, int]]:
        """ETag and size of all objects, by their keys."""
        found = self.client.list_objects_v2(Bucket=self.name).get("Contents", [])
        return {item["Key"]: (item["ETag"], item["Size"]) for item in found}

    def copy_to(self, folder: Path) -> Path:
        for key in self.versions():
            (folder / key).parent.mkdir(parents=True, exist_ok=True)
            self.client.download_file(self.name, key, str(folder / key))
        return folder / ROOT

    def start(self, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
        """Run the command; it knows nothing but these settings."""
        settings = {
            "S3_BUCKET": self.name,
            "AWS_ENDPOINT_URL": self.server.endpoint_url,
            "AWS_ACCESS_KEY_ID": self.server.access_key,
            "AWS_SECRET_ACCESS_KEY": self.server.secret_key,
            "AWS_REGION": self.server.region,
            "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
            "input": "readings",
            "HIVE_COLUMNS": "year,month",
            "SPARK_DRIVER_MEMORY": "512m",
            "SPARK_MASTER": "local[1]",
        }
        return subprocess.Popen(
            [sys.executable, str(MAIN), "rewrite", *arguments],
            env={**kept_variables(), **settings, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def rewrite(self, *arguments: str, **variables: str) -> list[str]:
        """Run the command to its good end; gives the lines it prints."""
        process = self.start(*arguments, **variables)
        said, complaints = process.communicate(timeout=600)
        assert process.returncode == 0, complaints
        return said.splitlines()


@pytest.fixture
def lake(s3_server: LocalMinio, bucket: str) -> Bucket:
    return Bucket(s3_server, bucket)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with reading_spark(tmp_path_factory.mktemp("reader"), master="local[1]") as session:
        yield session


def old_file(first: int, rows: int = 3) -> dict[str, Any]:
    """Columns as they were when all numbers were whole."""
    numbers = pa.array(range(first, first + rows))
    return {
        "n": numbers,
        "v": pc.negate(numbers),
        "s": pa.array([{"a": n, "b": str(n)} for n in range(first, first + rows)]),
        "text": pa.array([f"row {n}\x00ü" for n in range(first, first + rows)]),
    }


def new_file(first: int) -> dict[str, Any]:
    return {"n": [first], "v": [first + 0.5], "s": [{"a": 0.5, "b": "x"}], "flag": [True]}


def test_old_files_get_the_table_s_types_and_all_else_stays(lake: Bucket, spark: SparkSession, tmp_path: Path) -> None:
    lake.put_schema(TABLE)
    old = [lake.put("year=2024/month=05/data_a.parquet", old_file(0, 5_000), row_group_size=700)]
    old += [lake.put("year=2024/month=06/data_b.parquet", old_file(5_000))]
    lake.put("year=2024/month=06/data_c.parquet", new_file(6_000))
    lake.put("year=2024/month=06/data_d.parquet", {"n": [6_001], "text": ["no numbers here"]})
    lake.put("year=2024/month=06/.vidx/data_b.parquet", {"v": [1]})
    before = lake.versions()

    planned = lake.rewrite("--dry-run")
    assert planned == [
        *(f"{key}: v bigint → double, s.a bigint → double" for key in old),
        f"2 of 4 files in s3://{lake.name}/{ROOT} would be rewritten",
    ]
    assert lake.versions() == before

    with CatalogServer() as catalog:
        said = lake.rewrite(CATALOG_URL=catalog.url, CATALOG_AUTH_TOKEN=catalog.token)
        registered = catalog.files("readings")
    assert said[-1] == "2 files rewritten, 0 skipped, 0 left as they are, 0 to do; 0 values to _rescued_data"

    after = lake.versions()
    assert after.keys() == before.keys()
    schema = f"{ROOT}/_journal/schema.json"
    assert {key for key in after if after[key] != before[key]} == {*old, schema}, "it has more columns now"
    assert [file["file_path"] for file in registered] == [f"s3://{lake.name}/{key}" for key in old]
    assert [file["file_size"] for file in registered] == [after[key][1] for key in old]
    assert [file["row_count"] for file in registered] == [5_000, 3]
    assert registered[1]["column_stats"]["v"]["min"] == -5_002.0
    assert registered[1]["partition_values"] == {"year": "2024", "month": "06"}

    found = lake.read(old[0])
    expected = pa.table(old_file(0, 5_000))
    assert found.drop_columns(["v", "s"]).equals(expected.drop_columns(["v", "s"])), "rows, order and other columns"
    assert found["v"].equals(expected["v"].cast(pa.float64()))
    assert found["s"].to_pylist() == expected["s"].to_pylist()
    assert found["s"].type == TABLE.columns["s"]

    rows = spark.read.option("mergeSchema", "true").parquet(str(lake.copy_to(tmp_path))).orderBy("n").collect()
    assert [row["n"] for row in rows] == [*range(5_003), 6_000, 6_001]
    assert [row["v"] for row in rows] == [*(-float(n) for n in range(5_003)), 6_000.5, None]

    assert lake.rewrite() == [f"nothing to do: the schema of each of 4 files in s3://{lake.name}/{ROOT} is the table's"]
    assert lake.versions() == after


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_stop_leaves_a_table_that_is_readable_and_that_the_next_run_finishes(
    lake: Bucket, number: signal.Signals, code: int, tmp_path: Path
) -> None:
    files, before = 5, 2
    lake.put_schema(TABLE)
    keys = [lake.put(f"year=2024/month=01/data_{i}.parquet", old_file(3 * i)) for i in range(files)]

    with CatalogServer() as catalog:
        catalog.trouble(Trouble(only="add-files"), times=before)
        catalog.trouble(Trouble(only="add-files", delay=3_600))
        process = lake.start(TMPDIR=str(tmp_path), CATALOG_URL=catalog.url, CATALOG_AUTH_TOKEN=catalog.token)
        while sum(request.path.endswith("add-files") for request in catalog.requests) <= before:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
    said, complaints = process.communicate(timeout=600)

    assert process.returncode == code
    if number == signal.SIGTERM:
        assert f"{keys[2]} is rewritten, but the catalog still has its former size" in complaints
        assert complaints.splitlines()[-1] == "ERROR! rewrite was stopped before its end"
        assert said.splitlines()[-1].startswith("3 files rewritten, 0 skipped, 0 left as they are, 2 to do")
        assert list(tmp_path.iterdir()) == []
    found = [lake.read(key) for key in keys]
    assert [table.schema.field("v").type for table in found] == [pa.float64()] * 3 + [pa.int64()] * 2
    assert [n for table in found for n in table["n"].to_pylist()] == list(range(3 * files))
    (note,) = lake.versions().keys() - {*keys, f"{ROOT}/_journal/schema.json"}
    assert note.startswith(f"{ROOT}/_journal/rewrite-")

    with CatalogServer() as catalog:
        said_next = lake.rewrite(TMPDIR=str(tmp_path), CATALOG_URL=catalog.url, CATALOG_AUTH_TOKEN=catalog.token)
        sizes = {file["file_path"]: file["file_size"] for file in catalog.files("readings")}
    assert said_next[0] == "1 file of a run that was cut off: the catalog knows them now"
    assert said_next[-1].startswith("2 files rewritten")
    versions = {item["Key"]: item["Size"] for item in lake.client.list_objects_v2(Bucket=lake.name)["Contents"]}
    assert sizes == {f"s3://{lake.name}/{key}": versions[key] for key in keys[2:]}
    assert note not in versions
    assert all(lake.read(key).schema.field("v").type == pa.float64() for key in keys)
    assert list(tmp_path.iterdir()) == []
