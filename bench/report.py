"""What was found, as data, as text and as a picture."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.bars import FIGURES, Verdict, verdicts
from bench.laps import Lap
from bench.picture import Pair, as_svg
from bench.row_checks import RowCheck
from bench.sinks.base import HIVE_COLUMNS, Sink
from bench.stopping import Stop
from bench.tables import document, paragraph, spread, table
from bench.timeline import WARM_FROM, WARM_TO

# Title, digits, attribute of Run
COLUMNS = (
    ("msg/s cold", 0, "cold_rate"),
    ("msg/s warm", 0, "warm_rate"),
    ("CPU-s per M rows", 1, "cpu_per_million"),
    ("CPU-s per M rows, warm", 1, "warm_cpu_seconds"),
    ("peak MB", 0, "peak_mb"),
    ("first file after s", 1, "first_seconds"),
    ("files", 0, "files"),
    ("MB", 1, "megabytes"),
)


@dataclass(frozen=True, slots=True)
class Report:
    """All figures of one benchmark.

    Attributes:
        laps: the first one is over the topic that the picture shows.
        sinks: by name, those that could be run.
        not_run: the reason, by the title of the sink.
        stops: None when they were left out, as ``row_checks`` are empty then.
    """

    date: str
    machine: Mapping[str, str]
    rounds: int
    laps: Sequence[Lap]
    sinks: Mapping[str, Sink]
    not_run: Mapping[str, str]
    stops: tuple[Stop, Stop] | None
    row_checks: Sequence[RowCheck]

    @property
    def passed(self) -> bool:
        """Whether every row came out as it went in. A run with other rows never gets into a report."""
        return all(check.passed for check in self.row_checks)

    def as_data(self) -> dict[str, Any]:
        """All figures, with the derived ones, for JSON."""
        return {
            "date": self.date,
            "machine": dict(self.machine),
            "laps": [_lap_data(lap) for lap in self.laps],
            "settings": {name: sink.settings for name, sink in self.sinks.items()},
            "not_run": dict(self.not_run),
            "bars": [{**asdict(verdict), "ratio": verdict.ratio} for verdict in verdicts(self.laps)],
            "stops": [asdict(stop) for stop in self.stops or ()],
            "row_checks": [asdict(check) for check in self.row_checks],
            "passed": self.passed,
        }


def _lap_data(lap: Lap) -> dict[str, Any]:
    runs = {
        name: [{**asdict(run), "cold_rate": run.cold_rate, "cpu_per_million": run.cpu_per_million} for run in found]
        for name, found in lap.runs.items()
    }
    return {**asdict(lap), "runs": runs}


def as_markdown(report: Report) -> str:
    """The report as text that can be read as it is."""
    return document(
        [
            _head(report),
            *(_lap(report, lap) for lap in report.laps),
            _not_run(report),
            _bars(report),
            _settings(report),
            _stops(report),
            _checks(report),
            _machine(report),
        ]
    )


def as_picture(report: Report) -> str:
    """The medians of the first lap as an SVG, the fastest sink first."""
    lap = report.laps[0]
    pairs = [
        Pair(report.sinks[name].title, cold, lap.middle(name, "warm_rate"), report.sinks[name].is_ours)
        for name in lap.runs
        if (cold := lap.middle(name, "cold_rate")) is not None
    ]
    pairs.sort(key=lambda pair: pair.cold, reverse=True)
    return as_svg(f"Messages per second, {lap.messages:,} messages of {lap.message_bytes:.0f} bytes", pairs)


def _head(report: Report) -> Iterator[str]:
    lap = report.laps[0]
    yield "# Benchmark"
    yield ""
    in_avro = f", of {lap.avro_bytes:.0f} as Avro," if lap.avro_bytes else ""
    yield from paragraph(
        f"{report.date}. Messages of {lap.message_bytes:.0f} bytes on average as JSON{in_avro} in "
        f"{lap.partitions} partitions, `HIVE_COLUMNS={HIVE_COLUMNS}`; Kafka, MinIO and the sink on one machine, the "
        f"sinks in turn on the same topic, each with its own consumer group; rounds: {report.rounds}. After each run "
        "all rows were read back and compared, by key and sum, with what was produced. Medians, with the lowest and "
        "the highest. Only ratios mean something elsewhere."
    )
    yield ""
    yield from paragraph(
        "*Cold* is from the start of the process to when its last row is committed: by the consumer group's offsets, "
        "by the checkpoint of the streaming query, by the table's snapshot. *Warm* is the rate from when "
        f"{WARM_FROM:.0%} of the rows lay in files in their place to when {WARM_TO:.0%} did, by the files' times. "
        "Processor time is user and system of all processes of the sink, from their start on or during the warm "
        "part; memory is resident memory of all of them together, twice a second. A dash: too few batches to tell."
    )


def _lap(report: Report, lap: Lap) -> Iterator[str]:
    yield f"## {lap.messages:,} messages"
    yield ""
    lines = [
        [
            f"**{report.sinks[name].title}**" if report.sinks[name].is_ours else report.sinks[name].title,
            *(spread(lap.values(name, figure), digits) for _, digits, figure in COLUMNS),
        ]
        for name in lap.runs
    ]
    yield from table(["", *(title for title, _, _ in COLUMNS)], lines)


def _not_run(report: Report) -> Iterator[str]:
    if not report.not_run:
        return
    yield "## Not run"
    yield ""
    for title, reason in report.not_run.items():
        first, *_ = reason.splitlines()
        yield from paragraph(f"- {title}: {first}")


def _bars(report: Report) -> Iterator[str]:
    yield "## Beside each other"
    yield ""
    yield from paragraph("This connector's median over the other's, and what it is to be at least.")
    yield ""
    yield from table(
        ["beside", "messages", "figure", "connector", "other", "ratio", "at least", "reached"],
        [_bar(report, verdict) for verdict in verdicts(report.laps)],
    )


def _bar(report: Report, verdict: Verdict) -> list[str]:
    bar = verdict.bar
    sink = report.sinks.get(bar.other)
    digits = 1 if bar.less_is_better else 0
    ours, theirs = ([] if value is None else [value] for value in (verdict.ours, verdict.theirs))
    return [
        sink.title if sink else bar.other,
        f"{verdict.messages:,}",
        FIGURES[bar.figure] + (", less is better" if bar.less_is_better else ""),
        spread(ours, digits),
        spread(theirs, digits),
        "-" if verdict.ratio is None else f"**{verdict.ratio:.2f}**",
        f"{bar.at_least:.1f}",
        _reached(verdict),
    ]


def _reached(verdict: Verdict) -> str:
    if verdict.ratio is None:
        return "not measured"
    if verdict.reached is None:
        return f"is for {verdict.bar.messages:,}"
    return "yes" if verdict.reached else "**no**"


def _settings(report: Report) -> Iterator[str]:
    yield "## Settings"
    yield ""
    yield from table(["", ""], [[sink.title, sink.settings] for sink in report.sinks.values()])


def _stops(report: Report) -> Iterator[str]:
    if not report.stops:
        return
    idle, busy = report.stops
    yield "## Stopping"
    yield ""
    yield from paragraph(
        f"From SIGTERM to the end of the connector: {idle.seconds:.2f} s with nothing left to write, "
        f"{busy.seconds:.2f} s while batches were under way, with {busy.committed:,} rows landed and committed. "
        "Each once."
    )


def _checks(report: Report) -> Iterator[str]:
    if not report.row_checks:
        return
    yield "## Every row counted"
    yield ""
    yield from paragraph(
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
    yield from table(["partitions", "`BATCH_SIZE`", "rows", "files", "footers", "DuckDB", "Spark"], lines)


def _machine(report: Report) -> Iterator[str]:
    yield "## Machine"
    yield ""
    yield from table(["", ""], [list(fact) for fact in report.machine.items()])
