"""What was found, as data and as text."""

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bench.row_checks import RowCheck
from bench.run import LANDED_SHARE, BusyStop, OurRun, Run
from bench.stage import HIVE_COLUMNS


@dataclass(frozen=True, slots=True)
class Report:
    """All figures of one benchmark; ``ours``, ``at_least_once`` and ``theirs`` have one run per round.

    ``ours`` are exactly once, ``at_least_once`` the connector without its journal.
    """

    date: str
    machine: dict[str, str]
    messages: int
    message_bytes: float
    partitions: int
    batch_size: int
    commit_interval: float
    ours: Sequence[OurRun]
    at_least_once: Sequence[Run]
    theirs: Sequence[Run]
    busy_stop: BusyStop
    row_checks: Sequence[RowCheck]

    @property
    def passed(self) -> bool:
        """Whether every row came out as it went in. A run with other rows never gets into a report."""
        return all(check.passed for check in self.row_checks)

    @property
    def our_runs(self) -> list[Run]:
        return [ours.run for ours in self.ours]

    def ratio(self, figure: Callable[[Run], float], others: Sequence[Run]) -> float:
        """Our median over that of other runs."""
        return median(map(figure, self.our_runs)) / median(map(figure, others))

    def as_data(self) -> dict[str, Any]:
        """All figures, with the derived ones, for JSON."""
        return {
            **asdict(self),
            "ratios": {name: round(self.ratio(rate, self.theirs), 3) for name, rate in _RATES},
            "guarantee_ratios": {name: round(self.ratio(rate, self.at_least_once), 3) for name, rate in _RATES},
            "passed": self.passed,
        }


def as_markdown(report: Report) -> str:
    """The report as text that can be read as it is."""
    parts = (_head(report), _rates(report), _guarantee(report), _costs(report), _checks(report), _machine(report))
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _head(report: Report) -> Iterator[str]:
    yield "# Benchmark"
    yield ""
    yield from _paragraph(
        f"{report.date}. {report.messages:,} JSON messages of {report.message_bytes:.0f} bytes on average in "
        f"{report.partitions} partitions, `HIVE_COLUMNS={HIVE_COLUMNS}`; Kafka, MinIO and "
        f"the sink on one machine. The connector with `BATCH_SIZE={report.batch_size}` and "
        f"`COMMIT_INTERVAL={report.commit_interval:g}`, the dependency's `QuixTSDataLakeSink` with "
        f"`commit_every={report.batch_size}` and its default commit interval of 5 s, in turn; "
        f"rounds: {len(report.ours)}. After each run all rows were read back and compared, by key and sum, with what "
        "was produced. Only ratios mean something elsewhere."
    )


def _rates(report: Report) -> Iterator[str]:
    yield "## Messages per second"
    yield ""
    yield from _paragraph(
        "Medians, with the lowest and the highest. Consuming begins with the assignment of the partitions, which comes "
        "some milliseconds before the first message. The last rows of a topic wait for a commit, so the clock has its "
        f"say in when that is; the rate at which {LANDED_SHARE:.0%} of the rows came into the bucket is free of that."
    )
    yield ""
    yield from _compared(report, report.theirs, ("connector", "dependency"))


_RATES: tuple[tuple[str, Callable[[Run], float]], ...] = (
    ("start of the process to last row committed", lambda run: run.whole_rate),
    ("first message to last row committed", lambda run: run.consuming_rate),
    (f"first message to {LANDED_SHARE:.0%} of the rows landed", lambda run: run.landing_rate),
)


def _guarantee(report: Report) -> Iterator[str]:
    yield "## What exactly-once delivery costs"
    yield ""
    yield from _paragraph("Messages per second of the connector with its journal and without it, in turn.")
    yield ""
    yield from _compared(report, report.at_least_once, ("exactly once", "at least once"))


def _compared(report: Report, others: Sequence[Run], names: tuple[str, str]) -> Iterator[str]:
    lines = [
        [
            name,
            _spread(list(map(rate, report.our_runs)), 0),
            _spread(list(map(rate, others)), 0),
            f"**{report.ratio(rate, others):.2f}**",
        ]
        for name, rate in _RATES
    ]
    yield from _table(["", *names, "ratio"], lines)


def _costs(report: Report) -> Iterator[str]:
    yield "## What it takes"
    yield ""
    yield from _paragraph(
        "Memory is resident memory at its peak, processor time is user and system of all processes of the sink."
    )
    yield ""
    ours, theirs = report.our_runs, report.theirs
    lines = [
        [name, *(_spread(list(map(figure, runs)), digits) for runs in (ours, theirs))]
        for name, digits, figure in _COMMON_COSTS
    ]
    java = [run.java_peak_mb for run in ours if run.java_peak_mb is not None]
    lines.append(["memory of Java, MB", _spread(java, 0), "none"])
    stops = [run.idle_stop_seconds for run in report.ours]
    lines.append(["SIGTERM to exit with nothing left to write, s", _spread(stops, 2), "not measured"])
    busy = f"{report.busy_stop.seconds:.2f}, once, with {report.busy_stop.committed:,} rows landed and committed"
    lines.append(["SIGTERM to exit while batches are under way, s", busy, "not measured"])
    yield from _table(["", "connector", "dependency"], lines)


_COMMON_COSTS: tuple[tuple[str, int, Callable[[Run], float]], ...] = (
    ("start of the process to first message, s", 1, lambda run: run.start_seconds),
    ("processor time until then, s", 1, lambda run: run.start_cpu_seconds),
    ("processor time of Python from then on, s per million rows", 1, lambda run: run.python_cpu_per_million),
    ("processor time of Java from then on, s per million rows", 1, lambda run: run.java_cpu_per_million),
    ("files written", 0, lambda run: run.files),
    ("memory of Python, MB", 0, lambda run: run.python_peak_mb),
)


def _spread(values: Sequence[float], digits: int) -> str:
    lowest, middle, highest = (f"{value:,.{digits}f}" for value in (min(values), median(values), max(values)))
    return f"{middle} ({lowest} to {highest})" if len(values) > 1 else middle


def _checks(report: Report) -> Iterator[str]:
    yield "## Every row counted"
    yield ""
    yield from _paragraph(
        "The connector's table read back: the rows in the files' footers, and what DuckDB and Spark read, by key and "
        "sum in each Hive partition. *yes* means equal to what was produced."
    )
    yield ""
    lines = [
        [
            *(f"{number:,}" for number in (check.partitions, check.batch_size, check.rows, check.files)),
            *("yes" if equal else "**no**" for equal in (check.footers, check.duckdb, check.spark)),
        ]
        for check in report.row_checks
    ]
    yield from _table(["partitions", "`BATCH_SIZE`", "rows", "files", "footers", "DuckDB", "Spark"], lines)


def _machine(report: Report) -> Iterator[str]:
    yield "## Machine"
    yield ""
    yield from _table(["", ""], [list(fact) for fact in report.machine.items()])


def _paragraph(text: str) -> list[str]:
    return textwrap.wrap(text, 110, break_on_hyphens=False)


def _table(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """A Markdown table whose columns also stand under each other in plain text."""
    widths = [max(map(len, column)) for column in zip(titles, *lines, strict=True)]
    yield _table_line(titles, widths)
    yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    for line in lines:
        yield _table_line(line, widths)


def _table_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"
