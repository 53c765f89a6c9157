"""The benchmark's verification: figures of a run that lost, doubled or misplaced a row must not come to count."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.environment import DEPENDENCY
from bench.lake import check_table
from bench.messages import DEVICES, Workload, expected_totals, records, totals_of_first
from bench.timeline import LandedFile, warm_window
from bench.totals import WrongRowsError
from bench.usage import Sampler, usage
from dev.connector import REPO

COUNT = 480
WORKLOAD = Workload(COUNT, 4)
OF_PARTITION = ("year", "month", "day", "location")
Row = dict[str, Any]


def _rows() -> list[Row]:
    """The records as a sink would write them, with the values of their folders."""
    rows = []
    for key, value, _, _ in records(WORKLOAD):
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

    check_table(tmp_path, expected_totals(WORKLOAD))


def _spoil(rows: list[Row], how: str) -> None:
    row, neighbour = rows[17], rows[18]
    match how:
        case "double one and lose another of its key":
            rows[17] = rows[17 + 4 * DEVICES]
        case "swap keys":
            row["__key"], neighbour["__key"] = neighbour["__key"], row["__key"]
        case "change a value":
            row["temperature"] += 0.01
        case "put one into the wrong day":
            row["day"] = "30"
        case "drop a leading zero":
            row["month"] = row["month"].lstrip("0")
        case "lose all":
            rows.clear()


@pytest.mark.parametrize(
    "how",
    [
        "double one and lose another of its key",
        "swap keys",
        "change a value",
        "put one into the wrong day",
        "drop a leading zero",
        "lose all",
    ],
)
def test_a_table_that_is_not_what_was_produced_is_an_error(tmp_path: Path, how: str) -> None:
    rows = _rows()
    _spoil(rows, how)
    _write(tmp_path, rows)

    with pytest.raises(WrongRowsError, match=r"rows? in the lake"):
        check_table(tmp_path, expected_totals(WORKLOAD))


@pytest.mark.parametrize(
    "workload",
    [
        Workload(COUNT, 1, locations=1, over_midnight=False),
        Workload(COUNT, 24, locations=100),
        Workload(COUNT, 4, plain=False, every_ms=60),
        Workload(COUNT, 4, notes=17),
    ],
)
def test_the_totals_are_those_of_the_messages(workload: Workload) -> None:
    values = [json.loads(value or b"{}") for _, value, _, _ in records(workload)]
    totals = expected_totals(workload)

    assert [value["seq"] for value in values] == [*range(COUNT)]
    assert sum(sums.rows for sums in totals.values()) == COUNT
    for name, scale in (("temperature", 100), ("humidity", 10), ("battery", 1), ("seq", 1), ("ts_ms", 1)):
        assert sum(getattr(sums, name) for sums in totals.values()) == sum(round(v[name] * scale) for v in values)
    assert {group.location for group in totals} == {value["location"] for value in values}
    assert len({group.location for group in totals}) == workload.locations
    assert len({group.day for group in totals}) == 1 + workload.over_midnight


def test_the_first_readings_of_each_partition_are_those_that_were_produced_first() -> None:
    workload = Workload(COUNT, 3)
    produced = [json.loads(value or b"{}")["seq"] for _, value, _, partition in records(workload) if partition == 1]

    some = totals_of_first(workload, [0, 25, 0])

    assert sum(sums.rows for sums in some.values()) == 25
    assert sum(sums.seq for sums in some.values()) == sum(produced[:25])


def test_the_warm_part_begins_with_a_fifth_of_the_rows_and_ends_with_nearly_all() -> None:
    files = [LandedFile(9.0, 10, 1), LandedFile(10.0, 20, 1), LandedFile(12.0, 65, 1), LandedFile(40.0, 5, 1)]

    window = warm_window(files)

    assert window is not None
    assert (window.begin, window.end, window.rows) == (10.0, 12.0, 65)
    assert window.rate == 32.5


def test_memory_and_processor_time_of_a_process_and_its_children_are_read() -> None:
    work = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'sum(range(5_000_000))']); print(); input()"
    with subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # the child of the child has ended by now
        with Sampler([process.pid]) as sampler:
            found = usage([process.pid])
        process.communicate(b"\n")

    assert found.resident_mb > 1
    assert found.cpu_seconds > 0
    assert found.java_cpu_seconds == 0
    assert sampler.samples[-1].cpu_seconds >= sampler.samples[0].cpu_seconds > 0


@pytest.mark.parametrize("package", ["quixstreams", "pyarrow"])
def test_both_sinks_run_on_the_same_version(package: str) -> None:
    ours, theirs = (_pin(file, package) for file in (REPO / "requirements.txt", DEPENDENCY.requirements))

    assert ours == theirs


def _pin(requirements: Path, package: str) -> str:
    (line,) = [line for line in requirements.read_text().splitlines() if line.startswith(f"{package}==")]
    return line
