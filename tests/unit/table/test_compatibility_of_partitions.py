"""The partitioning of tables that exist already: read from their keys, and compared with the settings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ConfigError
from app.table.existing_table import check_spec
from app.table.layout import HIVE_NULL, QUIX_NULL, data_key, is_data_file, null_folder_of, spec_of_key


@pytest.mark.parametrize(
    ("key", "columns", "values"),
    [
        ("data/t/year=2024/place=a%2Fb/data_1.parquet", ("year", "place"), ("2024", "a/b")),
        ("data/t/x=1=2/part-0.parquet", ("x",), ("1=2",)),
        ("data/t/x=/part-0.parquet", ("x",), ("",)),
        ("data/t/a%3Db=1/part-0.parquet", ("a=b",), ("1",)),
        ("data/t/part-0.parquet", (), ()),
        ("data/t/batch-7/x=1/part-0.parquet", ("x",), ("1",)),
    ],
)
def test_the_spec_is_read_from_a_key(key: str, columns: tuple[str, ...], values: tuple[str, ...]) -> None:
    assert spec_of_key(key, "data/t") == (columns, values)


@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=4))
def test_the_spec_of_a_key_we_wrote_is_read_back(values: dict[str, str]) -> None:
    key = data_key("data/t", values, "x.parquet")
    assert spec_of_key(key, "data/t") == (tuple(values), tuple(values.values()))


@pytest.mark.parametrize(
    ("key", "is_data"),
    [
        ("data/t/data_1.parquet", True),
        ("data/t/year=2024/part-0.parquet", True),
        ("data/t/__key=d1/part-0.parquet", True),
        ("data/t/_journal/x.parquet", False),
        ("data/t/year=2024/_temporary/0/part-0.parquet", False),
        ("data/t/year=2024/.upload-1.parquet", False),
        ("data/t/schema.json", False),
        ("data/t/other/data_1.parquet", False),
        ("data/t/year=2024/other/part-0.parquet", False),
    ],
)
def test_only_visible_parquet_in_folders_of_partitions_is_data(key: str, is_data: bool) -> None:
    assert is_data_file(key, "data/t") is is_data


def test_a_hidden_folder_above_the_table_hides_nothing() -> None:
    assert is_data_file("_lake/.t/data_1.parquet", "_lake/.t")


@pytest.mark.parametrize(
    ("configured", "existing", "advice"),
    [
        (("year",), ("year", "place"), "HIVE_COLUMNS=year,place,~driver "),  # folders
        (("year",), ("year", "driver"), "HIVE_COLUMNS=year,driver "),
        (("year", "driver"), ("driver", "place"), "HIVE_COLUMNS=~driver,place "),  # a catalog's tree
    ],
)
def test_the_advice_keeps_virtual_columns(configured: tuple[str, ...], existing: tuple[str, ...], advice: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_spec(configured, [existing], "the table", ("driver",))
    assert advice in str(caught.value)


def test_of_two_null_folders_that_of_quix_is_taken() -> None:
    assert null_folder_of([HIVE_NULL, QUIX_NULL]) == QUIX_NULL
