"""One run of a sink over a topic: timed, and worth nothing unless every row has landed exactly."""

import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from bench.lake import LandedFile, check_table, download, landed_files, time_landed
from bench.messages import add_up, first_of_each_partition
from bench.peer_process import Peer
from bench.stage import PREFIX, TABLE, CommittedOffsets, Place, Stage
from bench.totals import Totals
from bench.usage import Usage, usage
from dev.connector import Connector
from dev.machine import ServiceError

# Both log their assignment from the same call of quixstreams; the first message comes some milliseconds later.
OURS_ASSIGNED = "app.application: assigned: "
THEIRS_ASSIGNED = "quixstreams.app: Rebalancing: assigning partitions"
FIRST_BATCH = "app.job: batch 1 "

LOOK_AT_LOG_SECONDS = 0.05
LOOK_AT_OFFSETS_SECONDS = 0.25
START_SECONDS = 180.0
# The last rows of a topic wait for a commit, whose time the clock decides; most rows do not.
LANDED_SHARE = 0.95
SLOWEST_RATE = 500  # messages per second; a run that is slower hangs

Check = Callable[[Path, Totals], None]
"""Compares a table with its expected totals; may raise ``WrongRowsError``."""


class SinkProcess(Protocol):
    """What is measured: ``Connector`` or ``Peer``."""

    @property
    def pid(self) -> int: ...
    def check_running(self) -> None: ...
    def failure(self, what: str) -> ServiceError: ...


@dataclass(frozen=True, slots=True)
class Run:
    """What one run over a whole topic took.

    Attributes:
        messages: rows that landed, which is all of them.
        start_seconds: from the start of the process to the assignment of its partitions.
        landed_seconds: from the start of the process to when 95 % of the rows were in the bucket.
        whole_seconds: from the start of the process to the commit of the last row.
        start_cpu_seconds: processor time, user and system, all processes, up to the assignment.
        cpu_seconds: the same from the assignment to the last commit.
        java_cpu_seconds: the part of Java in ``cpu_seconds``.
        files: objects in the bucket.
    """

    messages: int
    start_seconds: float
    landed_seconds: float
    whole_seconds: float
    start_cpu_seconds: float
    cpu_seconds: float
    java_cpu_seconds: float
    python_peak_mb: float
    java_peak_mb: float | None
    files: int

    @property
    def whole_rate(self) -> float:
        """Messages per second of the whole run."""
        return self.messages / self.whole_seconds

    @property
    def consuming_rate(self) -> float:
        """Messages per second from the first consumed message on."""
        return self.messages / (self.whole_seconds - self.start_seconds)

    @property
    def landing_rate(self) -> float:
        """Rows per second from the first consumed message to when 95 % of all were in the bucket."""
        return LANDED_SHARE * self.messages / (self.landed_seconds - self.start_seconds)

    @property
    def python_cpu_per_million(self) -> float:
        """Processor seconds of Python per million rows, after the start."""
        return (self.cpu_seconds - self.java_cpu_seconds) / self.messages * 1_000_000

    @property
    def java_cpu_per_million(self) -> float:
        """Processor seconds of Java per million rows, after the start."""
        return self.java_cpu_seconds / self.messages * 1_000_000


@dataclass(frozen=True, slots=True)
class OurRun:
    """A run of the connector; ``idle_stop_seconds`` from SIGTERM to its end when nothing was left to write."""

    run: Run
    idle_stop_seconds: float


@dataclass(frozen=True, slots=True)
class BusyStop:
    """A stop in the middle of a topic; ``committed`` rows landed, and no others."""

    seconds: float
    committed: int


def run_ours(stage: Stage, place: Place, check: Check = check_table) -> OurRun:
    """Run the connector over the whole topic, and stop it.

    Args:
        stage: the services.
        place: where to read from and write to.
        check: looks at the table in a local folder.

    Raises:
        ServiceError: it failed or did not get to the end.
        WrongRowsError: other rows are in the lake than were produced.
    """
    started = time.time()
    with Connector(place.settings, place.log) as connector:
        finish = _follow(connector, place, OURS_ASSIGNED, started)
        stopping = time.monotonic()
        connector.stop()
        stop_seconds = time.monotonic() - stopping
    return OurRun(finish(_check(stage, place, place.topic.expected, check)), stop_seconds)


def run_theirs(stage: Stage, place: Place) -> Run:
    """Run the dependency's own sink over the whole topic. Raises as ``run_ours`` does."""
    started = time.time()
    with Peer(place.settings, place.log) as peer:
        finish = _follow(peer, place, THEIRS_ASSIGNED, started)
    return finish(_check(stage, place, place.topic.expected))


def stop_busy(stage: Stage, place: Place) -> BusyStop:
    """Stop the connector as soon as its first batch is in the lake and many more are on their way.

    Raises as ``run_ours`` does: all that is committed must be in the lake, and nothing else.
    """
    with Connector(place.settings, place.log) as connector:
        _wait_for_line(connector, place.log, FIRST_BATCH)
        stopping = time.monotonic()
        connector.stop()
        seconds = time.monotonic() - stopping
    with closing(CommittedOffsets(place)) as offsets:
        committed = offsets.by_partition()
    landed = add_up(first_of_each_partition(place.topic.messages, committed))
    _check(stage, place, landed)
    return BusyStop(seconds, sum(committed))


def _follow(process: SinkProcess, place: Place, assigned: str, started: float) -> Callable[[list[LandedFile]], Run]:
    """Wait until the last row is committed; returns what makes a ``Run`` of it, given the files that landed."""
    assigned_at = _wait_for_line(process, place.log, assigned)
    at_start = usage(process.pid)
    _wait_for_commits(process, place)
    ended = time.time()
    at_end = usage(process.pid)
    return lambda files: _run(place, started, assigned_at, ended, at_start, at_end, files)


def _run(
    place: Place, started: float, assigned: float, ended: float, at_start: Usage, at_end: Usage, files: list[LandedFile]
) -> Run:
    return Run(
        messages=place.topic.messages,
        start_seconds=assigned - started,
        landed_seconds=time_landed(files, LANDED_SHARE * place.topic.messages) - started,
        whole_seconds=ended - started,
        start_cpu_seconds=at_start.cpu_seconds,
        cpu_seconds=at_end.cpu_seconds - at_start.cpu_seconds,
        java_cpu_seconds=at_end.java_cpu_seconds - at_start.java_cpu_seconds,
        python_peak_mb=at_end.python_peak_mb,
        java_peak_mb=at_end.java_peak_mb,
        files=len(files),
    )


def _wait_for_line(process: SinkProcess, log: Path, mark: str) -> float:
    """Wait for a line of the log that holds ``mark``, and return its time in seconds since the epoch."""
    deadline = time.monotonic() + START_SECONDS
    while (at := time_of_line(log.read_text(errors="replace"), mark)) is None:
        process.check_running()
        if time.monotonic() > deadline:
            raise process.failure(f"has not come to {mark!r} in {START_SECONDS:.0f} s")
        time.sleep(LOOK_AT_LOG_SECONDS)
    return at


def time_of_line(log: str, mark: str) -> float | None:
    """The time, in seconds since the epoch, that the first whole line with ``mark`` begins with."""
    for line in log.splitlines(keepends=True):
        if mark in line and line.endswith("\n"):
            date, clock = line.split(" ")[:2]
            return datetime.strptime(f"{date} {clock}", "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()
    return None


def _wait_for_commits(process: SinkProcess, place: Place) -> None:
    seconds = START_SECONDS + place.topic.messages / SLOWEST_RATE
    deadline = time.monotonic() + seconds
    with closing(CommittedOffsets(place)) as offsets:
        while (committed := sum(offsets.by_partition())) < place.topic.messages:
            process.check_running()
            if time.monotonic() > deadline:
                raise process.failure(f"has committed {committed:,} of {place.topic.messages:,} in {seconds:.0f} s")
            time.sleep(LOOK_AT_OFFSETS_SECONDS)


def _check(stage: Stage, place: Place, expected: Totals, check: Check = check_table) -> list[LandedFile]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        download(stage.minio, place.name, Path(folder))
        table = Path(folder) / PREFIX / TABLE
        check(table, expected)
        return landed_files(table)
