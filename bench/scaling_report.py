"""What the connector does along one axis after the other, as text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.run import Run
from bench.sinks.base import HIVE_COLUMNS
from bench.tables import document, paragraph, spread, table
from bench.timeline import WARM_FROM, WARM_TO

MEGABYTE = 1_000_000
TITLES = {
    "rows": "Rows of the topic",
    "partitions": "Partitions of the topic",
    "folders": "Folders that every batch is spread over",
    "days": "Days of the readings, in folders by day",
    "width": "Width of a row",
    "replicas": "Replicas on this one machine",
    "stores": "Stores",
}
# Title, digits, attribute of Run
COLUMNS = (
    ("msg/s cold", 0, "cold_rate"),
    ("msg/s warm", 0, "warm_rate"),
    ("CPU-s per M rows", 1, "cpu_per_million"),
    ("peak MB", 0, "peak_mb"),
    ("files", 0, "files"),
)


@dataclass(frozen=True, slots=True)
class Point:
    """The runs of the connector at one place of an axis."""

    axis: str
    label: str
    messages: int
    message_bytes: float
    runs: Sequence[Run]

    def values(self, figure: str) -> list[float]:
        """An attribute of ``Run`` in each round; none at all when one of them has no such figure."""
        found = [getattr(run, figure) for run in self.runs]
        return [] if None in found else found

    @property
    def megabytes_per_second(self) -> list[float]:
        """Bytes of messages, in millions, per second of the whole run."""
        return [run.cold_rate * self.message_bytes / MEGABYTE for run in self.runs]


def as_markdown(date: str, machine: Mapping[str, str], points: Sequence[Point]) -> str:
    """The measurements as text that can be read as it is."""
    axes = list(dict.fromkeys(point.axis for point in points))
    return document(
        [
            _head(date, len(points[0].runs)),
            *(_axis(axis, [point for point in points if point.axis == axis]) for axis in axes),
            _machine(machine),
        ]
    )


def _head(date: str, rounds: int) -> Iterator[str]:
    yield "# Scaling"
    yield ""
    yield from paragraph(
        f"{date}. This connector alone, `HIVE_COLUMNS={HIVE_COLUMNS}`; Kafka, MinIO and the connector on one machine; "
        f"rounds: {rounds}. Unless told otherwise 4 partitions and 8 folders. After each run all rows were read back "
        "and compared, by key and sum, with what was produced. *Cold* is from the start of the process to the commit "
        f"of the last row, *warm* from {WARM_FROM:.0%} to {WARM_TO:.0%} of the rows in the store."
    )


def _axis(axis: str, points: Sequence[Point]) -> Iterator[str]:
    yield f"## {TITLES[axis]}"
    yield ""
    lines = [
        [
            point.label,
            f"{point.messages:,}",
            f"{point.message_bytes:,.0f}",
            *(spread(point.values(figure), digits) for _, digits, figure in COLUMNS),
            spread(point.megabytes_per_second, 1),
        ]
        for point in points
    ]
    yield from table([axis, "messages", "bytes each", *(title for title, _, _ in COLUMNS), "MB/s in, cold"], lines)


def _machine(machine: Mapping[str, str]) -> Iterator[str]:
    yield "## Machine"
    yield ""
    yield from table(["", ""], [list(fact) for fact in machine.items()])
