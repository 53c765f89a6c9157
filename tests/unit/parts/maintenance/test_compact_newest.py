"""``compact --newest-by`` without Spark: which rows and files stay, when a folder is left, and what is refused."""

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.errors import ConfigError
from app.parts.maintenance.batch_metadata import batches_in
from app.parts.maintenance.removal import Removal
from tests.unit.parts.maintenance.lake import Lake

NEWEST = ("compact", "--newest-by", "device")


def test_a_folder_has_the_newest_row_of_each_key_and_changes_only_with_its_files(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    for batch in range(3):
        lake.write(batch, "a")
    lake.write(3, "b")
    assert lake.run(*NEWEST, "--dry-run") == 0
    assert "year=2024/place=a: 3 files" in capsys.readouterr().out
    assert len(lake.files()) == 4

    assert lake.run(*NEWEST) == 0

    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith("(newest rows, snappy → zstd, 25 rows removed)")
    assert said[1].startswith("year=2024/place=b: 1 file, ")
    assert lake.numbers("*/place=a") == [*range(25, 30)], "a key that moves to another folder stays in both"
    assert lake.numbers("*/place=b") == [*range(35, 40)]
    assert lake.run("audit", "--json") == 0
    [partition] = json.loads(capsys.readouterr().out)["partitions"]
    assert (partition["first"], partition["last"], partition["missing"], partition["doubled"]) == (0, 39, [], [])

    files = lake.files()
    lake.patch.setattr("app.parts.maintenance.table.read_footer", lambda *_: pytest.fail("a footer is read"))
    assert lake.run(*NEWEST) == 0
    lake.patch.undo()
    Lake(lake.folder, lake.patch)
    lake.write(4, "a")
    assert lake.run(*NEWEST, "--drop-where", "device = 'd3'") == 0
    assert lake.numbers() == [35, 36, 37, 39, 45, 46, 47, 49], "the merged file is a minute old"
    lake.age_all(days=2)
    assert lake.run(*NEWEST, "--drop-where", "device = 'd3'") == 0
    lake.write(5, "a")
    for _ in range(2):
        assert lake.run(*NEWEST, "--drop-where", "device = 'd3'") == 0
        lake.age_all(days=2)
    assert lake.numbers() == [35, 36, 37, 39, 55, 56, 57, 59]
    assert len([*lake.files("*/place=a")]) == len([*lake.files("*/place=b")]) == 1
    assert not {*files} & {*lake.files()}, "another condition is another run"


def test_rows_without_a_key_or_without_an_order_stay(lake: Lake) -> None:
    path = lake.write(0)
    rows = pq.read_table(path).to_pydict()
    columns: dict[str, Any] = {**rows, "device": [None] * 5 + ["d0"] * 5, "__offset": [*range(8), None, 9]}
    pq.write_table(pq.read_table(path).from_pydict(columns, pq.read_schema(path)), path)
    lake.age_all(days=2)
    assert lake.run(*NEWEST) == 0
    assert lake.numbers() == [0, 1, 2, 3, 4, 8, 9]


def test_a_plain_run_in_between_and_its_settings_instead_of_options(lake: Lake) -> None:
    """The plain run's file is young, and its rows are old: a deletion may not go without them."""
    lake.write(0), lake.write(1)
    assert lake.run("compact") == 0
    lake.write(2)
    newest = {"COMPACT_NEWEST_BY": "device", "COMPACT_DROP_WHERE": "device = 'd1' AND n > 20"}
    assert lake.run("compact", **newest) == 0
    assert lake.numbers() == [25, 27, 28, 29]
    assert lake.run("compact") == 0
    lake.age_all(days=2)
    assert lake.run("compact") == 0
    assert lake.numbers() == [25, 27, 28, 29]


def test_a_table_without_folders_lists_few_offsets_of_many_batches(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else the footer of its only file would grow with each batch for ever."""
    for batch in (0, 1, 2, 4):
        path = lake.write(batch)
        path.rename(lake.table / path.name)
    assert lake.run(*NEWEST, HIVE_COLUMNS="") == 0
    [path] = lake.files()
    parts = batches_in(path.name, pq.read_metadata(path).metadata)
    assert [(each.first, each.last) for each in parts] == [(0, 29), (40, 49)]
    capsys.readouterr()
    assert lake.run("audit", "--json", HIVE_COLUMNS="") == 0
    [partition] = json.loads(capsys.readouterr().out)["partitions"]
    assert [(each["first"], each["last"]) for each in partition["missing"]] == [(30, 39)]


@pytest.mark.parametrize(
    ("arguments", "variables", "cause"),
    [
        (("--newest-by", "devise"), {}, "the table has no column 'devise'"),
        (("--newest-by", "f"), {}, "'f' has the type double, without an exact order"),
        (("--newest-by", "o"), {}, "'o' has the type struct<x:bigint>"),
        (("--newest-by", "n,"), {}, "the table has no column ''"),
        (("--newest-by", "n"), {"METADATA_COLUMNS": "__offset"}, "METADATA_COLUMNS with __partition, __timestamp"),
        (("--drop-where", "n = 1"), {}, "COMPACT_DROP_WHERE has no effect without COMPACT_NEWEST_BY"),
    ],
    ids=str,
)
def test_a_key_without_an_order_is_refused(
    lake: Lake,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    variables: dict[str, str],
    cause: str,
) -> None:
    path = lake.write(0)
    odd = {"f": [0.5] * 10, "o": [{"x": 1}] * 10}
    lake.put(f"year=2024/place=a/{path.name}", {**pq.read_table(path).to_pydict(), **odd})
    assert lake.run("compact", *arguments, **variables) == ConfigError.exit_code
    assert cause in capsys.readouterr().err
    assert lake.files() == [path]


@pytest.mark.parametrize(("name", "kind"), [("__offset", pa.string()), ("__timestamp", pa.int64())])
def test_an_order_of_another_type_is_refused(name: str, kind: pa.DataType) -> None:
    columns = {"n": pa.int64(), "__offset": pa.int64(), "__timestamp": pa.timestamp("us", "UTC")}
    removal = Removal(newest_by=["n"])
    removal.require_columns(columns, ["__partition"])
    with pytest.raises(ConfigError, match=f"'{name}' has the type"):
        removal.require_columns({**columns, name: kind}, ["__partition"])
