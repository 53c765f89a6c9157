"""Creates all parts from the settings, starts them in order, runs the connector, and stops them in order."""

import logging
import shutil
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from math import inf
from pkgutil import resolve_name

import pyarrow as pa

from app import logs
from app.bad_records.refusals import BadRecords
from app.config.settings import Settings
from app.consumer.sink_observer import KeyWatch
from app.delivery.runtime import Runtime
from app.errors import ConnectorError, FatalError
from app.kafka.questions import end_offsets
from app.model import FindSchema
from app.monitoring.metrics import Metrics
from app.monitoring.status import Health
from app.parts import KEY_WATCH, OBSERVERS, REGISTRY
from app.service.connector import Connector, Records
from app.service.formats import new_batch_limits, new_formats, waiting
from app.service.framework_lane import new_framework_lane
from app.service.lake import new_store, open_lake
from app.service.lane_choice import choose_lane
from app.service.plain_lane import new_plain_lane
from app.service.probes import live, new_monitor
from app.service.process import Process, StopRequested
from app.service.user_transform import load_customised
from app.spark.scratch import scratch_folder
from app.spark.writer import SparkWriter
from app.timings import DEFAULT, Timings

logger = logging.getLogger(__name__)


def run(settings: Settings, timings: Timings = DEFAULT) -> int:
    """Run the connector until a signal or an error ends it.

    Returns:
        The exit code: 0 stopped, 1 lasting failure, 2 wrong settings, 70 Spark lost, 75 a retry may succeed.
    """
    pa.set_memory_pool(pa.system_memory_pool())  # Arrow's default pool keeps 50 MB more of freed memory
    with ExitStack() as ends:
        scratch = ends.enter_context(scratch_folder())
        spark = ends.enter_context(closing(SparkWriter(settings.spark, scratch)))

        def clean_up() -> None:
            spark.close()
            shutil.rmtree(scratch, ignore_errors=True)

        process = Process(clean_up, ends)
        try:
            process.handle_signals()
            for name, value in settings.summary().items():
                logger.info("%s: %s", name, value)
            for warning in settings.warnings:
                logger.warning("%s", warning)
            runtime = Runtime(scratch, Metrics(timings=timings), timings, settings.max_write_workers)
            consume(settings, runtime, spark, process)
        except StopRequested:
            logger.info("stopped while starting")
        except ConnectorError as error:
            return _failed(error, process)
        except Exception as error:
            logger.debug("unexpected", exc_info=True)
            if not process.stopped_at_start:
                hint = "Please report this as a bug; LOGLEVEL=DEBUG shows the error's message and traceback"
                return _failed(FatalError("running", type(error).__name__, hint), process)
            logger.info("stopped while starting")
        return 0


def consume(settings: Settings, runtime: Runtime, spark: SparkWriter, process: Process) -> None:
    """Create all parts, each part from earlier parts. Then consume until the connector is stopped.

    ``spark`` is not started yet. ``process.ends`` stops the parts in reverse order.
    """
    if settings.until is not None:  # a table that fails is written by the next run
        runtime = replace(runtime, timings=replace(runtime.timings, first_suspension_seconds=inf))
    timings, metrics, scratch, ends = runtime.timings, runtime.metrics, runtime.scratch, process.ends

    # These parts need no other system.
    customised = load_customised()
    health = Health(loop_seconds=timings.flush_seconds + timings.revoke_seconds, clock=timings.clock)
    monitor = new_monitor(settings, metrics, health, spark)
    if settings.http_port:  # the server answers probes from the start, and receives the other parts later
        monitor.serve(settings.http_host, settings.http_port, settings.http_allowed_hosts)
    bad_records = BadRecords(settings.on_bad_record, logger.warning)
    lane_choice = choose_lane(customised, settings)
    logger.info("%s", lane_choice.why)
    commit_seconds = settings.commit_interval if lane_choice.is_plain else inf  # quixstreams requests commits
    limits = new_batch_limits(settings, timings, scratch, commit_seconds)
    registry = resolve_name(REGISTRY)(settings, scratch) if settings.needs_registry else None
    find: FindSchema | None = registry.find if registry else None
    if find and not lane_choice.is_untouched:  # the consumer's thread queries the registry
        find = waiting(find, metrics.waits, timings.flush_seconds, process.stop)
    formats = new_formats(settings, find)
    key_watch: KeyWatch = resolve_name(KEY_WATCH)(settings, customised.on_stream_timeout, formats.key, ends)
    spark.start()  # needs seconds; the other parts connect at the same time

    # Create the catalog, the store and the table, and the schema registry.
    store = new_store(settings)
    lake = None if settings.has_tables else open_lake(settings, metrics.waits, store, ends)
    if registry:
        metrics.waits.at_start("registry", registry.latest)

    # Create the connection to Kafka, claims, the pipeline, and the loop.
    records = Records(customised, formats, key_watch, bad_records, limits)
    lakes = {settings.table: lake} if lake else {}
    connector = Connector(settings, runtime, process, spark, monitor, records, store, lakes)
    monitor.found(connector.location)
    lane = new_plain_lane(connector, lane_choice.built) if lane_choice.is_plain else new_framework_lane(connector)
    health.started(lambda: spark.alive)
    monitor.started(partial(live, connector, lane), partial(end_offsets, lane.admin))
    with ExitStack() as observed:
        for observer in OBSERVERS.values():
            if any(getattr(settings, name) for name in observer.settings):
                observed.enter_context(resolve_name(observer.new)(connector, lane))
        connector.run(lane)


def _failed(error: ConnectorError, process: Process) -> int:
    logger.error("%s", error)
    if not process.connected.is_set():
        logs.announce_failure(error)
    return error.exit_code
