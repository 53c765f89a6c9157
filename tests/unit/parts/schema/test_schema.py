"""The statement for an engine, with the table's own columns."""

import re
from argparse import Namespace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.errors import ConfigError
from app.journal.entry import group_folder
from app.journal.first_offsets import noted_topics
from app.parts.commands.command_line import new_parser
from app.parts.schema.command import ENGINES, Table, schema
from app.service.lake import new_lake, new_location, new_store
from app.table.layout import HIVE_NULL
from app.table.schema import TableSchema
from tests.support.commands import run_command
from tests.support.environment import local_settings

STATEMENTS = Path(__file__).with_name("statements")
FOLDERS = {"location": ["Oslo", "Berlin"], "year": ["2024", "2026"], "month": ["01"], "day": ["31"]}
COLUMNS = {
    "ts_ms": pa.int64(),
    "temperature": pa.float64(),
    "device": pa.struct({"id": pa.int64(), "firmware": pa.string()}),
    "__key": pa.string(),
    "_rescued_data": pa.string(),
}


def without_space(text: str) -> str:
    return re.sub(r"\s+", "", text)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_statement_has_columns_and_folders(engine: str) -> None:
    scheme = "gs" if engine == "bigquery" else "s3"
    path = "data/sensor-data"
    table = Table(
        *("sensor-data", f"{scheme}://my-lake/{path}", f"https://my-lake.s3.eu-west-1.amazonaws.com/{path}"),
        *(COLUMNS, FOLDERS),
        year=2026,
    )
    assert without_space(ENGINES[engine](table)) == without_space((STATEMENTS / f"{engine}.sql").read_text())


def test_every_engine_can_be_asked_for() -> None:
    assert [new_parser().parse_args(["schema", "--for", engine]).engine for engine in ENGINES] == [*ENGINES]


MAPS = {
    "athena": "map<string,array<double>>",
    "bigquery": "STRUCT<key_value ARRAY<STRUCT<key STRING, value ARRAY<FLOAT64>>>>",
    "clickhouse": "Map(String, Array(Nullable(Float64)))",
    "duckdb": "",
    "spark": "MAP<STRING, ARRAY<DOUBLE>>",
    "trino": "map(varchar, array(double))",
}


@pytest.mark.parametrize("engine", ENGINES)
def test_every_type_and_name_has_a_form(engine: str) -> None:
    columns = {
        **{f"c{number}": kind for number, kind in enumerate((pa.bool_(), pa.int32(), pa.binary(), pa.date32()))},
        "at": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "price": pa.decimal128(38, 18),
        "map": pa.map_(pa.string(), pa.list_(pa.float64())),
        'odd `name"': pa.list_(pa.list_(pa.struct({"a b": pa.int32()}))),
    }
    told = ENGINES[engine](Table("1. order", "s3://b/t", "https://b/t", columns, {}))
    assert re.search('["`]1__order["`]', told)
    assert MAPS[engine] in told
    assert "PARTITION" not in told.upper().replace("HIVE_PARTITIONING", "")


# A name with a backslash, both marks and a line break; an address with a quote and a backslash at its end.
NAME, PLACE = 'a\\`"\n', "//b/it's\\"


@pytest.mark.parametrize(
    ("engine", "name", "place"),
    [
        ("athena", '`a\\``"\n`', r"'s3://b/it\'s\\/'"),
        ("bigquery", r'`a\\\`"\n`', r"uris = ['s3://b/it\'s\\/*.parquet']"),
        ("clickhouse", r'`a\\\`"\n`', r"'https://b/it\'s\\/*.parquet'"),
        ("duckdb", "", r"'s3://b/it''s\/*.parquet'"),
        ("spark", '`a\\``"\n`', "'s3a://b/it\\'s\\\\'"),
        ("trino", '"a\\`""\n"', "'s3://b/it''s\\'"),
    ],
)
def test_no_name_and_no_address_ends_its_quotes(engine: str, name: str, place: str) -> None:
    """Producers choose the names of columns."""
    told = ENGINES[engine](Table("t", f"s3:{PLACE}", f"https:{PLACE}", {NAME: pa.int64()}, {}))
    assert name in told
    assert place in told


def test_duckdb_reads_the_table_by_its_statement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "it's").mkdir()
    settings = local_settings(tmp_path / "it's", HIVE_COLUMNS="place")
    store = new_store(settings)
    location = new_location(settings, store, None)
    with pytest.raises(ConfigError, match="there is no table in"):
        schema(settings, Namespace(engine="duckdb", beside=tuple))
    new_lake(settings, store, location).schema.extend(TableSchema({"speed": pa.int64()}))
    folder = tmp_path / "it's" / location.root / "place=a%2Fb"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"speed": [7]}), folder / "data_readings-0_0.parquet")

    assert schema(settings, Namespace(engine="duckdb", beside=tuple)) == 0
    with duckdb.connect() as connection:
        connection.execute(capsys.readouterr().out)
        assert connection.sql("FROM readings").fetchall() == [(7, "a/b")]


@pytest.mark.parametrize("topics", ["plant.line-1,plant.line_1,plant.line-2,Plant.Line_2", "^[Pp]lant[.].*"])
def test_tables_whose_names_an_engine_cannot_distinguish_have_names_of_their_own(
    topics: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = local_settings(tmp_path, input=topics, CONSUMER_GROUP="ours")
    store = new_store(settings)
    store.connect("data/")
    tables = ["Plant.Line_2", "plant.line-1", "plant.line-2", "plant.line_1"]
    for number, topic in enumerate(tables):
        root = f"{settings.root}/{topic}"
        store.overwrite(f"{noted_topics(settings.root, 'ours')}{topic}", b"{}")
        store.overwrite(f"{group_folder(root, 'ours')}{topic}/0.claim", b"{}")
        its = settings.of_topic(topic)
        new_lake(its, store, new_location(its, store, None)).schema.extend(TableSchema({"n": pa.int64()}))
        pq.write_table(pa.table({"n": [number]}), tmp_path / root / "data_t-0_0.parquet")

    assert run_command(settings, "schema", "--for", "duckdb") == 0
    told = capsys.readouterr().out
    with duckdb.connect() as connection:
        connection.execute(told)
        names = re.findall(r'CREATE VIEW "(\w+)"', told)
        assert [connection.sql(f"FROM {name}").fetchall() for name in names] == [[(n,)] for n in range(len(tables))]
    assert "-- Engines would read plant.line-1 and plant.line_1 as one name" in told
    assert "-- Engines would read Plant.Line_2 and plant.line-2 as one name" in told
    assert run_command(settings, "schema", "--for", "duckdb", "--table", "plant.line_1") == 0
    assert told.endswith(capsys.readouterr().out)


def athena(columns: str, lake: Path, capsys: pytest.CaptureFixture[str], *folders: str) -> str:
    """What is printed for a table with a file in each of these folders."""
    settings = local_settings(lake, HIVE_COLUMNS=columns)
    store = new_store(settings)
    location = new_location(settings, store, None)
    new_lake(settings, store, location).schema.extend(TableSchema({"speed": pa.int64()}))
    for name in folders:
        (lake / location.root / name).mkdir(parents=True)
        (lake / location.root / name / "data_readings-0_0.parquet").touch()
    assert schema(settings, Namespace(engine="athena", beside=tuple)) == 0
    return capsys.readouterr().out


def projections(statement: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for column, key, value in re.findall(r"'projection\.(\w+)\.(\w+)' = '([^']*)'", statement):
        found.setdefault(column, {})[key] = value
    return found


def test_athena_finds_the_folders_of_a_table_without_repair(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the values in the folders allow; the folder of missing values is one of them."""
    folders = [
        f"Line={number}/shop={number % 7 * 100_000}/device=d{number}/place={HIVE_NULL if number else 'Oslo'}/hour=05"
        for number in range(3, 80)
    ]
    told = athena("Line,shop,device,place,hour", tmp_path, capsys, *folders)
    hours = ",".join(f"{hour:02}" for hour in range(24))
    assert projections(told) == {
        "line": {"type": "integer", "range": "3,79"},
        "shop": {"type": "enum", "values": "0,100000,200000,300000,400000,500000,600000"},
        "device": {"type": "injected"},
        "place": {"type": "enum", "values": HIVE_NULL},
        "hour": {"type": "enum", "values": f"{hours},{HIVE_NULL}"},
    }
    assert "/Line=${line}/shop=${shop}/device=${device}/place=${place}/hour=${hour}/'" in told
    assert "set values of device" in told
    assert f"looks for {77 * 7 * 25:,} folders" in told
    assert "MSCK" not in told.partition("CREATE")[2]


@pytest.mark.parametrize(
    "folders",
    [[], ["place=Oslo", "place=a%2Fb"], [f"place={HIVE_NULL}", *(f"place=p{number}" for number in range(50))]],
)
def test_athena_repairs_a_table_whose_folders_it_cannot_tell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], folders: list[str]
) -> None:
    told = athena("place", tmp_path, capsys, *folders)
    assert told.startswith("-- Repeat MSCK REPAIR TABLE for new folders: ")
    assert told.endswith(";\n\nMSCK REPAIR TABLE `readings`;\n")
    assert "projection." not in told


def test_athena_lists_values_that_hold_no_comma(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert projections(athena("place", tmp_path, capsys, "place=a,b", "place=c")) == {"place": {"type": "injected"}}
