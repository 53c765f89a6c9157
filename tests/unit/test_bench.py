"""The benchmark's verification: figures of a run that lost, doubled or misplaced a row must not come to count."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.environment import REQUIREMENTS
from bench.lake import LandedFile, check_table, time_landed
from bench.messages import expected_totals, first_of_each_partition, records
from bench.run import time_of_line
from bench.totals import WrongRowsError, differences
from bench.usage import usage
from dev.connector import REPO

COUNT = 400
OF_PARTITION = ("year", "month", "day", "location")
Row = dict[str, Any]


def _rows() -> list[Row]:
    """The records as a sink would write them, with the values of their folders."""
    rows = []
    for key, value, _, _ in records(COUNT, 4):
        row = json.loads(value or b"{}")
        date = ("2025", "03", "31") if row["seq"] < COUNT // 2 else ("2025", "04", "01")
        rows.append({**row, "__key": key, **dict(zip(OF_PARTITION, date, strict=False))})
    return rows


def _write(table: Path, rows: Iterable[Row]) -> None:
    folders: dict[Path, list[Row]] = {}
    for row in rows:
        folder = table.joinpath(*(f"{column}={row[column]}" for column in OF_PARTITION))
        folders.setdefault(folder, []).append({name: row[name] for name in row if name not in OF_PARTITION})
    for folder, contents in folders.items():
        folder.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(contents), folder / "data_0.parquet")


def test_a_table_with_every_row_once_passes(tmp_path: Path) -> None:
    _write(tmp_path, _rows())

    check_table(tmp_path, expected_totals(COUNT))


def _lose_one(rows: list[Row]) -> None:
    del rows[17]


def _double_one(rows: list[Row]) -> None:
    rows.append(rows[17])


def _double_one_and_lose_another_of_its_key(rows: list[Row]) -> None:
    rows[17] = rows[17 + 40]


def _swap_keys(rows: list[Row]) -> None:
    rows[17]["__key"], rows[18]["__key"] = rows[18]["__key"], rows[17]["__key"]


def _change_a_value(rows: list[Row]) -> None:
    rows[17]["temperature"] += 0.01


def _put_in_the_wrong_day(rows: list[Row]) -> None:
    rows[17]["day"] = "30"


def _drop_the_leading_zero(rows: list[Row]) -> None:
    for row in rows:
        row["month"] = row["month"].lstrip("0")


@pytest.mark.parametrize(
    "spoil",
    [
        _lose_one,
        _double_one,
        _double_one_and_lose_another_of_its_key,
        _swap_keys,
        _change_a_value,
        _put_in_the_wrong_day,
        _drop_the_leading_zero,
        list[Row].clear,
    ],
)
def test_a_table_that_is_not_what_was_produced_is_an_error(tmp_path: Path, spoil: Callable[[list[Row]], None]) -> None:
    rows = _rows()
    spoil(rows)
    _write(tmp_path, rows)

    with pytest.raises(WrongRowsError, match=r"rows? in the lake"):
        check_table(tmp_path, expected_totals(COUNT))


def test_the_error_says_where_and_what(tmp_path: Path) -> None:
    rows = _rows()
    lost = rows.pop(17)
    _write(tmp_path, rows)

    with pytest.raises(WrongRowsError) as error:
        check_table(tmp_path, expected_totals(COUNT))

    assert f"{COUNT - 1} rows in the lake by the files' footers, {COUNT} expected" in str(error.value)
    assert f"{lost['__key']} in {lost['location']}/2025/03/31: rows 4 instead of 5" in str(error.value)


def test_groups_that_are_missing_or_made_up_are_differences() -> None:
    totals = expected_totals(COUNT)
    group, *_ = sorted(totals)
    rest = {other: sums for other, sums in totals.items() if other != group}

    assert differences(totals, rest) == [
        f"{group.key} in {group.location}/2025/03/31: produced, but not in the lake",
    ]
    assert differences(rest, totals) == [
        f"{group.key} in {group.location}/2025/03/31: not produced, but in the lake",
    ]
    assert differences(totals, dict(totals)) == []


def test_the_first_readings_of_each_partition_are_those_that_were_produced_first() -> None:
    produced = [json.loads(value or b"{}")["seq"] for _, value, _, partition in records(COUNT, 3) if partition == 1]

    some = [reading.seq for reading in first_of_each_partition(COUNT, [0, 25, 0])]

    assert some == produced[:25]


def test_a_share_of_the_rows_has_landed_with_the_file_that_completes_it() -> None:
    files = [LandedFile(10.0, 50), LandedFile(11.0, 45), LandedFile(40.0, 5)]

    assert time_landed(files, 95) == 11.0
    assert time_landed(files, 96) == 40.0
    with pytest.raises(WrongRowsError, match="100 rows"):
        time_landed(files, 101)


def test_only_a_whole_line_of_the_log_tells_its_time() -> None:
    first = "2025-04-01 00:00:01,250 INFO app.application: assigned: "

    assert time_of_line("nothing yet\n", "assigned: ") is None
    assert time_of_line(first, "assigned: ") is None
    earlier = time_of_line("2025-04-01 00:00:00,000 INFO app: begins\n", "begins")
    at = time_of_line(f"noise\n{first}readings[0]\n{first}again\n", "assigned: ")
    assert earlier is not None
    assert at == earlier + 1.25


def test_memory_and_processor_time_of_a_process_and_its_children_are_read() -> None:
    work = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'sum(range(5_000_000))']); print(); input()"
    with subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # the child of the child has ended by now
        found = usage(process.pid)
        process.communicate(b"\n")

    assert found.python_peak_mb > 1
    assert found.java_peak_mb is None
    assert found.cpu_seconds > 0


@pytest.mark.parametrize("package", ["quixstreams", "pyarrow"])
def test_both_sinks_run_on_the_same_version(package: str) -> None:
    ours, theirs = (_pin(file, package) for file in (REPO / "requirements.txt", REQUIREMENTS))

    assert ours == theirs


def _pin(requirements: Path, package: str) -> str:
    (line,) = [line for line in requirements.read_text().splitlines() if line.startswith(f"{package}==")]
    return line
