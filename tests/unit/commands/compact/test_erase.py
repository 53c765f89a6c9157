"""``erase`` without Spark: which rows and folders go, and what it says of the others."""

from datetime import UTC, datetime

import pytest

from tests.unit.commands.compact.lake import Lake


@pytest.mark.parametrize("dry", [False, True])
def test_rows_that_meet_all_conditions_go_and_the_others_stay(
    lake: Lake, capsys: pytest.CaptureFixture[str], dry: bool
) -> None:
    for batch in range(2):
        lake.write(batch, "a")
        lake.write(batch, "b")
    untouched = lake.files("year=2024/place=b")
    assert lake.run("erase", "--where", "place = 'a'", "--where", "n >= 15", *["--dry-run"] * dry) == 0
    printed = capsys.readouterr().out.splitlines()
    erased = "would be erased" if dry else "erased"
    assert printed[:2] == ["year=2024/place=a: 5 rows", f"5 rows {erased} from 2 files in 1 folder"]
    assert printed[2].startswith("Not searched: records that are in Kafka only")
    assert lake.numbers("*/place=a") == list(range(20 if dry else 15))
    assert lake.files("year=2024/place=b") == untouched


def test_a_folder_without_other_rows_loses_its_files(lake: Lake) -> None:
    lake.write(0, "a")
    lake.write(1, "b")
    assert lake.run("erase", "--where", "n < 10") == 0
    assert lake.files("year=2024/place=a") == []
    assert lake.numbers() == list(range(10, 20))


def test_the_index_of_a_file_goes_with_it_although_the_table_has_no_virtual_columns_any_more(lake: Lake) -> None:
    indexed = lake.write(0)
    index = lake.put(f"year=2024/place=a/.vidx/{indexed.name}", {"sensor": ["x"]})
    other = lake.put("year=2024/place=a/.vidx/other.parquet", {"sensor": ["y"]})
    assert lake.run("erase", "--where", "n < 10") == 0
    assert (index.exists(), other.exists()) == (False, True)


def test_folders_of_a_time_long_ago_go(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.write(0, year="2019")
    lake.write(1, year="__HIVE_DEFAULT_PARTITION__")
    lake.write(2, year="2999")
    assert lake.run("erase", "--older-than", "400d") == 0
    assert capsys.readouterr().out.splitlines() == [
        "year=2019/place=a: 10 rows",
        "10 rows erased from 1 file in 1 folder",
    ]
    assert lake.numbers() == list(range(10, 30))


def test_a_table_without_folders_of_years_has_none_of_a_time_long_ago(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.put("place=a/x.parquet", {"n": [1]})
    assert lake.run("erase", "--older-than", "1d", HIVE_COLUMNS="place") == 2
    assert "the table has no folders of years. Use --where" in capsys.readouterr().err


def test_without_months_the_year_of_a_folder_counts_and_not_its_day(lake: Lake) -> None:
    this_year = f"{datetime.now(UTC).year}"
    lake.put(f"year={this_year}/day=01/x.parquet", {"n": [1]})
    lake.put("year=2019/day=31/x.parquet", {"n": [2]})
    assert lake.run("erase", "--older-than", "1m", HIVE_COLUMNS="year,day") == 0
    assert lake.numbers() == [1]


def test_folders_of_no_time_or_of_the_last_one_are_not_old(lake: Lake) -> None:
    for number, day in enumerate(("9999/month=12/day=31", "2019/month=02/day=31", "2019/month=02/day=28")):
        lake.put(f"year={day}/x.parquet", {"n": [number]})
    assert lake.run("erase", "--older-than", "1d", HIVE_COLUMNS="year,month,day") == 0
    assert lake.run("erase", "--older-than", "999999999d", HIVE_COLUMNS="year,month,day") == 0
    assert lake.numbers("*/*/*") == [0, 1]


def test_a_merged_file_without_rows_keeps_its_name(lake: Lake) -> None:
    [first] = lake.merge_later_ones()
    assert lake.run("erase", "--where", "n = 3") == 0
    assert first.exists(), "an upload of it that comes late must find its name taken"
    assert len(lake.numbers()) == 29
