"""What an existing table asks of the settings."""

import logging
from pathlib import Path

import pytest

from app.errors import ConfigError
from app.storage.local.store import LocalStore
from app.table.existing_table import CatalogTable, open_table
from app.table.layout import HIVE_NULL, QUIX_NULL, PartitionSpec
from tests.fakes.memory_catalog import MemoryCatalog

ROOT = "data/t"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder


def put(lake: Path, *keys: str) -> None:
    for key in keys:
        path = lake / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def opened(
    lake: Path,
    *hive_columns: str,
    catalog: MemoryCatalog | None = None,
    null_partition: str = "auto",
    order: tuple[str, ...] | None = None,
    most_files: int = 10_000,
) -> PartitionSpec:
    return open_table(
        LocalStore(lake),
        catalog.table() if catalog else None,
        ROOT,
        PartitionSpec(hive_columns, "ts_ms", null_partition, order or hive_columns),
        QUIX_NULL if catalog else HIVE_NULL,
        most_files,
    )


def refusal(lake: Path, *hive_columns: str, catalog: MemoryCatalog | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        opened(lake, *hive_columns, catalog=catalog)
    assert caught.value.exit_code == 2
    return str(caught.value)


# --- the store ------------------------------------------------------------------------------------------------------


def known(lake: Path, *columns: str, location: str | None = None) -> MemoryCatalog:
    return MemoryCatalog(CatalogTable(f"file://{lake}/{ROOT}" if location is None else location, columns))


def test_a_new_table_takes_the_settings(lake: Path) -> None:
    assert opened(lake, "year", "place") == PartitionSpec(("year", "place"), "ts_ms", HIVE_NULL)


def test_an_iceberg_table_is_partitioned_as_the_catalog_says(lake: Path) -> None:
    put(lake, f"{ROOT}/at_day=2024-01-15/data_1.parquet")  # as of a table that was dropped
    wanted = PartitionSpec(("place",), "ts_ms", "auto", keeps_columns=True)
    known = CatalogTable(f"file://{lake}/{ROOT}", ("room", "year"))
    for table, columns in ((None, ("place",)), (known, ("room", "year"))):
        found = open_table(LocalStore(lake), table, ROOT, wanted, HIVE_NULL)
        assert found == PartitionSpec(columns, "ts_ms", HIVE_NULL, keeps_columns=True)


NYC = f"{ROOT}/year=2024/place=NYC/data_1.parquet"


@pytest.mark.parametrize(
    ("keys", "columns"),
    [
        ([NYC], ["year", "place"]),
        ([f"{ROOT}/data_1.parquet"], []),
        # Other tables and hidden files
        (["data/t2/month=01/data_1.parquet", "data/other.parquet"], ["year"]),
        ([f"{ROOT}/_journal/x=1/a.parquet", f"{ROOT}/.tmp/a.parquet", f"{ROOT}/notes.txt"], ["year"]),
    ],
)
def test_a_table_with_the_same_columns_goes_on(
    lake: Path, caplog: pytest.LogCaptureFixture, keys: list[str], columns: list[str]
) -> None:
    put(lake, *keys)
    assert opened(lake, *columns).columns == tuple(columns)
    assert opened(lake, *columns, catalog=known(lake, *columns)).columns == tuple(columns)
    assert opened(lake, *columns, catalog=known(lake)).columns == tuple(columns), "it has no spec"
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("keys", "columns", "existing"),
    [
        ([NYC], ["year", "month"], "is partitioned by [year, place], HIVE_COLUMNS says [year, month]"),
        ([f"{ROOT}/data_1.parquet"], ["year"], "is partitioned by [] (no partitioning), HIVE_COLUMNS says [year]"),
        ([f"{ROOT}/year=2024/data_1.parquet", f"{ROOT}/year=1/month=01/2.parquet"], ["year"], "[year, month]"),
    ],
    ids=["others", "none", "one file that lies elsewhere"],
)
def test_a_table_with_other_columns_is_refused_with_both_specs(
    lake: Path, keys: list[str], columns: list[str], existing: str
) -> None:
    put(lake, *keys)
    message = refusal(lake, *columns)
    assert f"the table at file://{lake}/data/t " in message
    assert existing in message


def test_a_registered_table_with_other_columns_is_refused_with_both_specs(lake: Path) -> None:
    message = refusal(lake, "year", catalog=known(lake, "year", "place"))
    assert "the table in the catalog is partitioned by [year, place], HIVE_COLUMNS says [year]" in message
    assert "Set HIVE_COLUMNS=year,place" in message


@pytest.mark.parametrize("where", ["store", "catalog"])
def test_another_order_is_a_warning(lake: Path, caplog: pytest.LogCaptureFixture, where: str) -> None:
    if where == "store":
        put(lake, NYC)
    catalog = known(lake, "year", "place") if where == "catalog" else None
    assert opened(lake, "place", "year", catalog=catalog).columns == ("place", "year")
    [warning] = caplog.records
    assert warning.levelno == logging.WARNING
    assert "has its partition columns in the order [year, place]" in warning.message


def test_a_table_that_the_catalog_does_not_know_is_fine_and_not_yet_created(lake: Path) -> None:
    catalog = MemoryCatalog()
    assert opened(lake, "year", catalog=catalog).columns == ("year",)
    assert catalog.created == []


# --- the null folder ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("existing", "with_catalog", "null_value"),
    [
        (None, False, HIVE_NULL),
        (None, True, QUIX_NULL),
        ("NYC", True, QUIX_NULL),
        (QUIX_NULL, False, QUIX_NULL),
        (QUIX_NULL, True, QUIX_NULL),
        (HIVE_NULL, False, HIVE_NULL),
        (HIVE_NULL, True, HIVE_NULL),
    ],
)
def test_the_null_folder_is_the_one_the_table_has_else_the_one_its_readers_know(
    lake: Path, existing: str | None, with_catalog: bool, null_value: str
) -> None:
    if existing:
        put(lake, f"{ROOT}/year=2024/place={existing}/data_1.parquet")
    catalog = MemoryCatalog() if with_catalog else None
    assert opened(lake, "year", "place", catalog=catalog).null_value == null_value


def test_a_null_folder_that_the_user_names_is_taken(lake: Path) -> None:
    put(lake, f"{ROOT}/place={QUIX_NULL}/data_1.parquet")
    assert opened(lake, "place", null_partition="unknown").null_value == "unknown"


def test_the_null_folder_is_found_behind_more_files_than_are_looked_at(lake: Path) -> None:
    put(lake, *(f"{ROOT}/year=2024/data_{number}.parquet" for number in range(3)))
    put(lake, f"{ROOT}/year={QUIX_NULL}/data_1.parquet")
    assert opened(lake, "year", most_files=2).null_value == QUIX_NULL


# --- virtual columns ------------------------------------------------------------------------------------------------


def test_folders_are_compared_with_the_folders_and_the_catalog_with_the_whole_tree(
    lake: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(lake, f"{ROOT}/year=2024/data_1.parquet")
    spec = opened(lake, "year", catalog=known(lake, "year", "driver"), order=("year", "driver"))
    assert (spec.columns, spec.virtual, spec.order) == (("year",), ("driver",), ("year", "driver"))
    assert caplog.messages == []
