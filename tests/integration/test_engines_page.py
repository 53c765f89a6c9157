"""The statements for engines, printed or on the page, read a table that the connector wrote."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from app.bad_records.dead_letter import SCHEMA as DEAD_LETTER
from app.journal.late_uploads import Placeholders
from app.parts.schema.command import ENGINES, Table
from app.spark.writer import SparkWriter
from app.storage.local.store import LocalStore
from app.table.layout import HIVE_NULL, PartitionSpec
from tests.integration.lake_writer import TABLE, LakeWriter
from tests.support.batches import NOON

pytestmark = pytest.mark.usefixtures("parsed_classes")

PAGE = (Path(__file__).parents[2] / "docs/engines.md").read_text()
FOLDERS = ("location", "year", "month", "day")
# With an index beside each file: the last level has no folder.
PARTITIONS = PartitionSpec(FOLDERS, "ts_ms", HIVE_NULL, (*FOLDERS, "__key"))
OCTOBER = 1_728_561_600_000

Row = dict[str, Any]
# The batches: records, and what readers find where this is not just that.
BATCHES: tuple[tuple[tuple[Row, Row], ...], ...] = (
    (({"location": "Berlin", "temperature": 20, "device": {"id": 1}}, {}),),
    (({"location": "a/b c=ü%", "temperature": 20.5, "device": {"id": 2, "firmware": "v6"}}, {}),),
    (
        (
            {"location": None, "ts_ms": OCTOBER, "temperature": "warm"},
            {"month": "10", "day": "10", "temperature": None, "_rescued_data": '{"temperature":"warm"}'},
        ),
    ),
)
NOTHING = {"device": None, "_rescued_data": None, "__key": "k", "year": "2024", "month": "01", "day": "15"}


def rows() -> list[Row]:
    given = [{**NOTHING, "ts_ms": NOON + n, **row, **found} for n, [(row, found)] in enumerate(BATCHES)]
    return [{**row, "device": row["device"] and {"firmware": None, **row["device"]}} for row in given]


def blocks(engine: str, language: str, table: Path) -> list[str]:
    """The fenced blocks of an engine's section that name the table, with its real path."""
    [section] = [part for part in PAGE.split("\n## ") if part.startswith(f"{engine}\n")]
    found = re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return [re.sub(r"s3a?://my-lake/data/sensor-data", str(table), block) for block in found if "s3" in block]


def printed(engine: str, table: Path) -> str:
    """What ``python main.py schema`` prints for this table."""
    columns = {
        "ts_ms": pa.int64(),
        "temperature": pa.float64(),
        "device": pa.struct({"id": pa.int64(), "firmware": pa.string()}),
        "__key": pa.string(),
        "_rescued_data": pa.string(),
    }
    return ENGINES[engine](Table("sensor-data", str(table), "", columns, dict.fromkeys(FOLDERS, ())))


def _duckdb(table: Path) -> pa.Table:
    with duckdb.connect() as connection:
        connection.execute(printed("duckdb", table))
        return connection.sql("FROM sensor_data").to_arrow_table()


def _python(engine: str, table: Path, **given: Any) -> Any:
    [code] = blocks(engine, "python", table)
    exec(code, given)  # noqa: S102 - a page of this project
    return given["sensor_data"]


def _polars(table: Path) -> pa.Table:
    return _python("Polars", table).collect().to_arrow()


def _pyarrow(table: Path) -> pa.Table:
    return _python("pyarrow", table).to_table()


def _spark(table: Path) -> pa.Table:
    return _python("Spark", table, spark=SparkSession.builder.getOrCreate().newSession()).toArrow()


def _spark_sql(table: Path) -> pa.Table:
    session = SparkSession.builder.getOrCreate().newSession()
    session.sql("DROP TABLE IF EXISTS sensor_data")
    for each in filter(str.strip, printed("spark", table).split(";")):
        session.sql(each)
    return session.table("sensor_data").toArrow()


Reader = Callable[[Path], pa.Table]
READERS = (_duckdb, _polars, _pyarrow, _spark, _spark_sql)


def written(folder: Path, writer: SparkWriter, types: dict[str, pa.DataType]) -> Path:
    store = LocalStore(folder / "lake")
    store.connect("")
    lake = LakeWriter(store, writer, folder, types, PARTITIONS)
    for n, batch in enumerate(BATCHES):
        keys = lake.write(*({"ts_ms": NOON + n, **row} for row, _ in batch))
    table = folder / "lake" / TABLE
    assert len(list(table.rglob(".vidx/*.parquet"))) == len(BATCHES)
    # As of a batch that was rolled back.
    Placeholders(store, TABLE, DEAD_LETTER).put([key.replace("data_", "data_rolled-back-") for key in keys])
    return table


@pytest.fixture(scope="module")
def of_one_type(writer: SparkWriter, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("one"), writer, {"temperature": pa.float64()})


@pytest.fixture(scope="module")
def of_two_types(writer: SparkWriter, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("two"), writer, {})


def found_by(read: Reader, table: Path) -> list[Row]:
    return sorted(read(table).to_pylist(), key=lambda row: row["ts_ms"])


@pytest.mark.parametrize("read", READERS)
def test_a_statement_of_the_page_reads_all_rows(of_one_type: Path, read: Reader) -> None:
    assert found_by(read, of_one_type) == rows()


def test_what_the_page_says_of_an_engine_without_its_options(of_one_type: Path, of_two_types: Path) -> None:
    pattern = "/".join(f"{name}=*" for name in FOLDERS) + "/*.parquet"

    first, second = (next(of_two_types.glob(f"location={name}*/*/*/*/*.parquet")) for name in ("Berlin", "a"))
    one_file = duckdb.read_parquet([str(first), str(second)])
    assert one_file.project("temperature").fetchall() == [(20,), (20,)]
    october = duckdb.read_parquet(f"{of_one_type}/*/*/month=10/*/*.parquet", hive_partitioning=True)
    assert october.project("typeof(month)").fetchall() == [("BIGINT",)]
    twice = duckdb.read_parquet(f"{of_one_type}/**/*.parquet", union_by_name=True)
    assert twice.count("*").fetchall() == [(2 * len(BATCHES),)]

    with pytest.raises(pl.exceptions.SchemaError):
        pl.scan_parquet(of_one_type / pattern).collect()
    with pytest.raises(pl.exceptions.InvalidOperationError, match="extensions"):
        pl.scan_parquet(of_one_type).collect()
    schema = pl.scan_parquet(of_one_type / pattern, hive_partitioning=True).collect_schema()
    assert schema["month"] == pl.Int64

    assert "_rescued_data" not in ds.dataset(of_one_type, partitioning="hive").schema.names

    spark = SparkSession.builder.getOrCreate().newSession()
    assert dict(spark.read.parquet(str(of_one_type)).dtypes)["month"] == "int"
    with pytest.raises(Py4JJavaError, match="CANNOT_MERGE_SCHEMAS"):
        spark.read.option("mergeSchema", "true").parquet(str(of_two_types)).toArrow()


@pytest.mark.parametrize("engine", ["DuckDB", "Spark"])
def test_the_view_of_the_newest_rows_of_a_database(of_one_type: Path, tmp_path: Path, engine: str) -> None:
    [view] = re.findall(r"```sql\n(.*?)```", (Path(__file__).parents[2] / "docs/debezium.md").read_text(), re.DOTALL)
    orders = [("1", 0, "c", "pump"), ("2", 1, "c", "hose"), ("1", 2, "u", "valve"), ("2", 3, "d", "hose")]
    pq.write_table(
        pa.Table.from_pylist([dict(zip(("__key", "__offset", "op", "item"), row, strict=True)) for row in orders]),
        tmp_path / "1.parquet",
    )
    if engine == "DuckDB":
        with duckdb.connect() as connection:
            connection.execute(f"CREATE VIEW orders AS FROM '{tmp_path}/1.parquet'; {view}")
            found = connection.sql("SELECT __key, item FROM orders_now").fetchall()
    else:
        session = SparkSession.builder.getOrCreate().newSession()
        for each in (f"CREATE TABLE orders USING parquet LOCATION '{tmp_path}'", view):
            session.sql(each)
        found = [tuple(row) for row in session.sql("SELECT __key, item FROM orders_now").collect()]
    assert found == [("1", "valve")]
