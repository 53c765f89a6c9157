"""Samples the running parts for the probes, the metrics and the status page."""

import platform
from dataclasses import dataclass
from importlib.metadata import version
from typing import Protocol

from app import __version__
from app.bad_records.policy import BadRecords
from app.config.settings import Settings
from app.consumer.application import LakeApplication
from app.consumer.assignment import Assignments
from app.consumer.end_offsets import EndOffsets
from app.consumer.loop import ConsumerLoop
from app.consumer.sink import LakeSink
from app.monitoring.metrics import Identity, Live, Metrics, StateName
from app.monitoring.monitor import Monitor
from app.monitoring.probes import Health, Probe
from app.pipeline.pipeline import Pipeline


class Java(Protocol):
    """The Java process of Spark; see ``app.spark.writer.SparkWriter``."""

    @property
    def alive(self) -> bool: ...
    @property
    def is_up(self) -> bool: ...
    def jvm_pid(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts that are sampled."""

    assignments: Assignments
    sink: LakeSink
    application: LakeApplication
    loop: ConsumerLoop
    pipeline: Pipeline
    bad_records: BadRecords
    health: Health
    java: Java


def new_monitor(settings: Settings, metrics: Metrics, health: Health, java: Java) -> Monitor:
    """The monitor of a connector that starts."""
    identity = Identity(
        topic=settings.input_topic,
        group=settings.consumer_group,
        table=f"{settings.storage.uri}/{settings.root}/{settings.table}",
        root=f"{settings.root}/{settings.table}",
        versions={
            "version": __version__,
            "spark": version("pyspark"),
            "quixstreams": version("quixstreams"),
            "python": platform.python_version(),
        },
        commit_interval=settings.commit_interval,
    )
    return Monitor(identity, metrics, health, lambda: Live(java_pid=java.jvm_pid()))


def oversee(settings: Settings, monitor: Monitor, parts: Parts) -> None:
    """Let the probes and the monitor sample the running parts from now on."""
    parts.health.started(
        spark_alive=lambda: parts.java.alive,
        ready=lambda: _readiness(parts),
        recovers=lambda: parts.application.recovers_state,
    )
    buffer_limit = settings.memory.buffer_mb * 2**20
    monitor.started(lambda: _look(parts, buffer_limit), EndOffsets(parts.application.admin).of)


def _readiness(parts: Parts) -> Probe:
    if not parts.assignments.tps:
        return Probe(ok=False, detail="no partitions assigned yet")
    if parts.application.recovers_state:
        return Probe(ok=False, detail="the state of transform() is read from its changelog")
    if not parts.loop.has_claimed_all:
        return Probe(ok=False, detail="partitions wait for their journals")
    if not parts.java.is_up:
        return Probe(ok=False, detail="Spark is starting: what is consumed waits for it")
    if not parts.sink.last_flush_ok:
        return Probe(ok=False, detail="the last flush did not go through")
    return Probe(ok=True, detail="consuming")


def _look(parts: Parts, buffer_limit: int) -> Live:
    """Other threads work on the parts: each sample reads single values, and waits for none of them."""
    state, detail = _state(parts)
    return Live(
        state=state,
        detail=detail,
        buffered=parts.sink.held_bytes,
        buffer_limit=buffer_limit,
        under_way=parts.pipeline.under_way,
        skipped=parts.bad_records.skipped,
        consumed=parts.loop.checkpoints.consumed,
        claiming=parts.loop.claiming,
        oldest=parts.assignments.oldest_uncommitted,
        commit_due_in=parts.loop.checkpoints.due_in,
        java_pid=parts.java.jvm_pid(),
    )


def _state(parts: Parts) -> tuple[StateName, str]:
    if parts.application.is_stopping:
        return "stopping", "what was consumed is brought into the lake"
    live = parts.health.live()
    failure, obstacle = parts.pipeline.failure, parts.pipeline.obstacle
    if failure or not live.ok:
        return "failing", str(failure or obstacle or live.detail)
    if parts.loop.is_paused:
        return "paused", str(obstacle or "the destination takes longer than a commit may; it goes on by itself")
    if obstacle:
        return "waiting", str(obstacle)
    ready = _readiness(parts)
    if not ready.ok:
        return "waiting", ready.detail
    return "consuming", "the buffer is full: consuming waits for room" if parts.sink.is_full else ""
