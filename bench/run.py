"""One run of a sink over a topic: timed, and worth nothing unless every row has landed exactly."""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from bench.sinks.base import Sink, SinkProcess
from bench.stage import Place, Stage, Topic
from bench.timeline import LandedFile, warm_window
from bench.usage import Sampler, Usage, cpu_seconds_at

LOOK_SECONDS = 0.25
STANDSTILL_SECONDS = 300.0  # longer than any commit interval and any start; a sink that commits nothing so long hangs
MILLION = 1_000_000
MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Run:
    """What one run over a whole topic took.

    Attributes:
        messages: rows that landed, which is all of them.
        cold_seconds: from the start of the process to the commit of the last row.
        first_seconds: from the start of the process to the first file in its place.
        warm_rate: rows per second from when a fifth of them had landed to when 95 % had; None if that tells nothing.
        cpu_seconds: processor time, user and system, of all processes of the sink from their start on.
        java_cpu_seconds: the part of Java.
        warm_cpu_seconds: processor time during the time of ``warm_rate``, per million rows.
        peak_mb: resident memory of all processes together, at its peak.
        files, size: files of the table, and their bytes.
    """

    messages: int
    cold_seconds: float
    first_seconds: float
    warm_rate: float | None
    cpu_seconds: float
    java_cpu_seconds: float
    warm_cpu_seconds: float | None
    peak_mb: float
    files: int
    size: int

    @property
    def cold_rate(self) -> float:
        """Messages per second of the whole run."""
        return self.messages / self.cold_seconds

    @property
    def cpu_per_million(self) -> float:
        """Processor seconds per million rows, the start included."""
        return self.cpu_seconds / self.messages * MILLION

    @property
    def megabytes(self) -> float:
        """The size of the table's files."""
        return self.size / MEGABYTE


def measure(sink: Sink, stage: Stage, topic: Topic) -> Run:
    """Run a sink over a whole topic and look at every row.

    Raises:
        ServiceError: it failed or did not get to the end.
        WrongRowsError: other rows are in its table than were produced.
    """
    with stage.place(sink.name, topic) as place:
        sink.set_up(stage, place)
        started = time.time()
        with sink.start(stage, place) as processes, Sampler([process.pid for process in processes]) as sampler:
            wait_for_rows(sink, stage, place, processes, topic.messages)
            ended = time.time()
        return _run(topic, started, ended, sampler.samples, sink.landed(stage, place))


def wait_for_rows(sink: Sink, stage: Stage, place: Place, processes: Sequence[SinkProcess], rows: int) -> None:
    """Return when the sink has committed so many rows.

    Raises:
        ServiceError: it has ended, or has stopped committing.
    """
    committed, moved = 0, time.monotonic()
    with closing(sink.progress(stage, place)) as progress:
        while (now := progress.rows()) < rows:
            for process in processes:
                process.check_running()
            if now > committed:
                committed, moved = now, time.monotonic()
            if time.monotonic() - moved > STANDSTILL_SECONDS:
                raise processes[0].failure(
                    f"has committed {committed:,} of {rows:,} rows and no more in {STANDSTILL_SECONDS:.0f} s"
                )
            time.sleep(LOOK_SECONDS)


def _run(topic: Topic, started: float, ended: float, samples: Sequence[Usage], files: Sequence[LandedFile]) -> Run:
    warm = warm_window(files)
    warm_cpu = None
    if warm:
        used = cpu_seconds_at(samples, warm.end) - cpu_seconds_at(samples, warm.begin)
        warm_cpu = used / warm.rows * MILLION
    return Run(
        messages=topic.messages,
        cold_seconds=ended - started,
        first_seconds=files[0].time - started,
        warm_rate=warm.rate if warm else None,
        cpu_seconds=samples[-1].cpu_seconds,
        java_cpu_seconds=samples[-1].java_cpu_seconds,
        warm_cpu_seconds=warm_cpu,
        peak_mb=max(sample.resident_mb for sample in samples),
        files=len(files),
        size=sum(file.size for file in files),
    )
