"""``erase`` without Spark: which rows and folders go, and what it says of the others."""

import pytest

from tests.unit.commands.compact.lake import Lake


def test_rows_that_meet_all_conditions_go_and_the_others_stay(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    for batch in range(2):
        lake.write(batch, "a")
        lake.write(batch, "b")
    untouched = lake.files("year=2024/place=b")
    assert lake.run("erase", "--where", "place = 'a'", "--where", "n >= 15") == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == ["year=2024/place=a: 5 rows", "5 rows erased from 2 files in 1 folder"]
    assert printed[2].startswith("Not searched: records that are in Kafka only")
    assert lake.numbers("*/place=a") == list(range(15))
    assert lake.files("year=2024/place=b") == untouched


def test_a_dry_run_counts_them(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.write(0)
    assert lake.run("erase", "--where", "n < 3", "--dry-run") == 0
    assert "3 rows would be erased from 1 file in 1 folder" in capsys.readouterr().out
    assert lake.numbers() == list(range(10))


def test_a_folder_without_other_rows_loses_its_files(lake: Lake) -> None:
    lake.write(0, "a")
    lake.write(1, "b")
    assert lake.run("erase", "--where", "n < 10") == 0
    assert lake.files("year=2024/place=a") == []
    assert lake.numbers() == list(range(10, 20))


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
