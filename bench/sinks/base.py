"""What a sink has to offer to be measured."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from bench.lake import check_table, download
from bench.stage import Place, Stage
from bench.timeline import LandedFile
from dev.machine import ServiceError

# Where the connector and the dependency's sink put their table, below the bucket.
PREFIX, TABLE = "data", "readings"
HIVE_COLUMNS = "year,month,day,location"


class SinkProcess(Protocol):
    """A process of a sink."""

    @property
    def pid(self) -> int: ...
    def check_running(self) -> None: ...
    def failure(self, what: str) -> ServiceError: ...


class Progress(Protocol):
    """Tells how far a sink is. Use as ``contextlib.closing``."""

    def rows(self) -> int:
        """How many rows it has committed: no failure from here on can lose or double them."""

    def close(self) -> None: ...


class Sink(Protocol):
    """A sink that is run over a topic.

    Attributes:
        name: in the command's options and the results.
        title: in the tables.
        settings: what it was run with, for the report.
        avro: whether it reads the topic in Avro, else in JSON.
        is_ours: a failure of ours ends the benchmark, one of a peer is reported in place of its figures.
    """

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def settings(self) -> str: ...
    @property
    def avro(self) -> bool: ...
    @property
    def is_ours(self) -> bool: ...

    def prepare(self) -> Mapping[str, str]:
        """Fetch what it needs, before anything is timed; returns what is worth telling of it.

        Raises:
            ServiceError: it cannot be had.
        """

    def set_up(self, stage: Stage, place: Place) -> None:
        """Make what a user makes once, before anything is timed: a table, a control topic."""

    def start(self, stage: Stage, place: Place) -> AbstractContextManager[Sequence[SinkProcess]]:
        """Start its processes; they are gone after the block."""

    def progress(self, stage: Stage, place: Place) -> Progress: ...

    def landed(self, stage: Stage, place: Place) -> list[LandedFile]:
        """The files of its table in the order in which they came in.

        Raises:
            WrongRowsError: the rows in them are not those of the topic.
        """


def in_avro(name: str) -> str:
    """The name of a sink while it reads Avro."""
    return f"{name}-avro"


def landed_in_bucket(stage: Stage, place: Place) -> list[LandedFile]:
    """``Sink.landed`` of a Hive-partitioned table in the bucket."""
    folder = place.folder / "lake"
    download(stage.minio, place.name, folder)
    return check_table(table_in(folder), place.topic.expected)


def table_in(folder: Path) -> Path:
    """The table's folder below the one that the bucket was copied to."""
    return folder / PREFIX / TABLE
