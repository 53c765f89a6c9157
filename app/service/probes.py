"""Reads the state of the running parts for the probes, the metrics and the status page."""

from collections.abc import Sequence

from app.config.settings import Settings
from app.errors import SparkLostError
from app.monitoring.metrics import Metrics
from app.monitoring.monitor import Monitor
from app.monitoring.status import Consumption, Health, Live, Probe, SparkState, StateName
from app.retries import OUTAGE_SECONDS, Trouble
from app.service.connector import Connector, Lane
from app.spark.writer import SparkWriter


def new_monitor(settings: Settings, metrics: Metrics, health: Health, java: SparkWriter) -> Monitor:
    def live() -> Live:
        return Live(java_pid=java.jvm_pid(), spark=_spark_state(java), waits=metrics.waits.current())

    return Monitor(settings, metrics, health, live)


def live(connector: Connector, lane: Lane) -> Live:
    """Return the present state. Values are read one by one without locks, because other threads use the parts."""
    waits, consumption = connector.runtime.metrics.waits.current(), lane.consumption()
    failure = _failure(connector, lane)
    ready = _readiness(consumption, waits, is_spark_up=connector.spark.is_up)
    state = _state(consumption, failure, is_held_up=bool(waits or consumption.fenced) or not ready.ok)
    if ready.ok and (programs := connector.runtime.metrics.counts().lasting_programs):  # the state is still "consuming"
        ready = Probe(ok=False, detail=f"another program has partitions in the consumer group: {programs[0]}")
    return Live(
        state=state,
        ready=ready,
        consumption=consumption,
        buffer_limit=connector.records.limits.max_buffer_bytes,
        under_way=lane.members.buffer.under_way,
        skipped=connector.records.bad.skipped,
        java_pid=connector.spark.jvm_pid(),
        spark=_spark_state(connector.spark),
        waits=waits,
        failure=failure,
    )


def _spark_state(java: SparkWriter) -> SparkState:
    if not java.alive:
        return "gone"
    return "running" if java.is_up else "starting"


def _failure(connector: Connector, lane: Lane) -> Trouble | None:
    """Return the error that ends the process, or that makes the platform end the process."""
    if failure := lane.members.failure:
        return Trouble.of(failure)
    live = connector.monitor.health.live()
    if live.ok:
        return None
    if connector.spark.alive:
        return Trouble(None, "consuming", live.detail)
    return Trouble("Spark", "writing batches", live.detail, exit_code=SparkLostError.exit_code)


def _readiness(consumption: Consumption, waits: Sequence[Trouble], *, is_spark_up: bool) -> Probe:
    if not consumption.assigned:
        return Probe(ok=False, detail="no partitions assigned yet")
    if consumption.suspended and all(tp.topic in consumption.suspended for tp in consumption.tps):
        trouble = next(iter(consumption.suspended.values())).trouble
        return Probe(ok=False, detail=f"all tables are suspended: {trouble.doing}: {trouble.cause}")
    if consumption.unclaimed:
        return Probe(ok=False, detail="partitions are not claimed yet")
    if not is_spark_up:
        return Probe(ok=False, detail="Spark is starting: consumed records wait for it")
    if consumption.is_held_up:
        return Probe(ok=False, detail="the last flush failed")
    if waits and waits[0].seconds >= OUTAGE_SECONDS:
        return Probe(ok=False, detail=f"{waits[0].system or 'another system'} is unavailable")
    return Probe(ok=True, detail="consuming")


def _state(consumption: Consumption, failure: Trouble | None, *, is_held_up: bool) -> StateName:
    if consumption.is_stopping:
        return "stopping"
    if failure:
        return "failing"
    if consumption.is_paused:
        return "paused"
    return "waiting" if is_held_up else "consuming"
