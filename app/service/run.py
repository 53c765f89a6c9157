"""Builds everything from the settings, starts it in order, runs it, and stops it in order."""

import logging
import shutil
from collections.abc import Callable, Collection
from concurrent.futures import Future
from contextlib import ExitStack, closing
from dataclasses import dataclass

from quixstreams.dataframe import StreamingDataFrame
from quixstreams.models.topics import Topic

from app import logs
from app.bad_records.policy import BadRecords
from app.config.settings import Settings
from app.consumer.application import LakeApplication
from app.consumer.assignment import Assignments
from app.consumer.broker import find_topics, open_topic
from app.consumer.exact_json import new_deserializer
from app.consumer.group import check_members, check_topic_rights
from app.consumer.loop import new_loop
from app.consumer.paused_partitions import PausedPartitions
from app.consumer.rejections import MessageReader
from app.consumer.sink import LakeSink
from app.errors import ConnectorError, FatalError, RetryableError
from app.monitoring.metrics import Metrics
from app.monitoring.probes import Health
from app.pipeline.pipeline import Pipeline
from app.pipeline.upload import Destination
from app.retry import Waiting
from app.service.build import (
    begin_sweeping,
    can_read_whole_batches,
    new_application,
    new_bad_records,
    new_batch_limits,
    new_claims,
    new_client_id,
    new_ownership,
    new_stager,
    open_group,
)
from app.service.customised import Customised, load_customised
from app.service.kafka import asking_for_topics
from app.service.lake import check_journals, dead_letter_address, open_lake
from app.service.overview import Parts, new_monitor, oversee
from app.service.process import Process, StopRequested
from app.service.spark import new_spark_writer
from app.service.starting import Base, patiently, spare_the_garbage_collector
from app.service.stream_timeouts import StreamTimeouts
from app.spark.scratch import scratch_folder
from app.spark.writer import SparkWriter
from app.stream_timeouts.events import Announcer
from app.table.location import TableLocation
from app.timings import DEFAULT, Timings

logger = logging.getLogger(__name__)

_LAST_WORDS_SECONDS = 1.0  # for the last notifications of new files


@dataclass(frozen=True, slots=True)
class _Stream:
    """The records to write; ``is_untouched``: ``transform()`` does not change them."""

    topic: Topic
    dataframe: StreamingDataFrame
    is_untouched: bool
    announcer: Announcer | None


def run(settings: Settings, timings: Timings = DEFAULT) -> int:
    """Run the connector until a signal or an error ends it.

    Args:
        settings: the connector's settings.
        timings: its waits and deadlines.

    Returns:
        The exit code: 0 stopped, 1 a lasting failure, 2 settings, 70 Spark lost, 75 worth trying again.
    """
    with ExitStack() as ends:
        scratch = ends.enter_context(scratch_folder())
        spark = ends.enter_context(closing(new_spark_writer(settings, scratch)))

        def clean_up() -> None:
            spark.close()
            shutil.rmtree(scratch, ignore_errors=True)

        process = Process(clean_up)
        try:
            process.handle_signals()
            _log_settings(settings)
            consume(Base(settings, timings, Metrics(), scratch), spark, process, ends)
        except StopRequested:
            logger.info("stopped while starting")
        except ConnectorError as error:
            return _failed(error, process)
        except Exception as error:
            logger.debug("unexpected", exc_info=True)
            if not process.stopped_at_start:
                hint = "Please report this as a bug; LOGLEVEL=DEBUG shows where it was"
                return _failed(FatalError("running", repr(error), hint), process)
            logger.info("stopped while starting")
        return 0


def consume(base: Base, spark: SparkWriter, process: Process, ends: ExitStack) -> None:
    """Build all parts, each from those before it; then consume until the connector is stopped.

    First come the parts that need no other system, then those that ``transform()`` builds on. The last ones depend on
    its stream: whether records come in batches, and where consuming begins.

    Args:
        base: common to all parts.
        spark: not started yet.
        process: learns when a signal has to stop the loop.
        ends: stops the parts, the last one first.
    """
    settings, timings, metrics = base.settings, base.timings, base.metrics
    begin = timings.clock()

    # Without another system.
    customised = load_customised()
    health = Health(loop_seconds=timings.flush_seconds + timings.revoke_seconds, clock=timings.clock)
    monitor = new_monitor(settings, metrics, health, spark)
    if settings.http_port:  # probes are answered from the start; the monitor learns the rest later
        monitor.serve(settings.http_host, settings.http_port, settings.http_allowed_hosts)
    bad_records = new_bad_records(settings)
    limits = new_batch_limits(settings, timings, base.scratch)
    stream_timeouts = StreamTimeouts(settings, customised.on_stream_timeout)
    spark_up = spark.start()  # takes seconds; the rest connects meanwhile

    # The catalog, the store and the table.
    lake = open_lake(settings, timings, metrics.waits)
    if lake.query_api:
        ends.callback(lake.query_api.close, _LAST_WORDS_SECONDS)
    monitor.found(lake.location.uri, lake.location.root, dead_letter_address(lake.store.uri, lake.location.root))

    # Kafka and the stream that transform() builds.
    assignments = Assignments(metrics, timings)
    application = new_application(settings, lake.location, assignments, metrics, base.scratch, timings)
    stream = _open_stream(base, application, lake.location, customised, stream_timeouts, process)
    in_batches = stream.is_untouched and can_read_whole_batches(settings)
    reader = MessageReader(stream.topic).read if in_batches else None
    stager = new_stager(settings, lake.location, lake.spec, lake.schema, bad_records, reader)
    patiently("store", lambda: check_journals(lake, application.config.consumer_group), timings, metrics.waits)
    if spark_up.done():
        spark_up.result()  # after a failed start of Spark do not join the group

    # Exactly once, and the way of a batch.
    ownership = new_ownership(assignments, timings)
    group = open_group(application, stream.topic.name, timings)
    claims = new_claims(base, lake, application, assignments, ownership, group)
    ends.callback(claims.stop)
    ends.callback(begin_sweeping(ownership, lake, application.config.consumer_group).stop)
    pipeline = Pipeline(
        writer=spark,
        writer_up=spark_up,
        stager=stager,
        limits=limits,
        destination=Destination(
            lake.store, lake.location.root, lake.spec.virtual, frozenset(settings.stats_columns) or None
        ),
        registrar=lake.registrar,
        scratch=base.scratch,
        workers=settings.max_write_workers,
        ownership=ownership,
        recreated=group.topic_ids.recreated,
        metrics=metrics,
        timings=timings,
    )
    ends.callback(pipeline.stop)
    spark.lost.add_done_callback(lambda lost: process.end_without_spark(lost.result(), pipeline.fail))
    paused = PausedPartitions(application.consumer, claims, assignments, metrics)
    if stream.announcer:
        ends.callback(stream.announcer.close)
    sink = LakeSink(
        pipeline=pipeline,
        assignments=assignments,
        limits=limits,
        bad_records=bad_records,
        metrics=metrics,
        observer=stream_timeouts.new_observer(paused.is_heard, stream.announcer),
        timings=timings,
    )
    stream.dataframe.sink(sink)
    loop = new_loop(
        application=application,
        assignments=assignments,
        sink=sink,
        paused=paused,
        on_turn=health.turn,
        in_batches=in_batches,
        metrics=metrics,
        timings=timings,
    )
    application.start(loop)
    parts = Parts(assignments, sink, application, loop, pipeline, bad_records, health, spark, metrics)
    oversee(settings, monitor, parts)

    process.started(application.request_stop)
    logger.info("ready to consume %s after %.1f s", stream.topic.name, timings.clock() - begin)
    spark_up.add_done_callback(_announcing(process, lambda: timings.clock() - begin))
    spare_the_garbage_collector()
    _run(application, sink, bad_records)


def _run(application: LakeApplication, sink: LakeSink, bad_records: BadRecords) -> None:
    """Consume until the application is stopped.

    Raises:
        RetryableError: some rows are not committed.
    """
    try:
        application.run()
    finally:
        bad_records.log_total()
    if sink.left_rows_behind:
        raise RetryableError(
            "stopping",
            "the offsets of some rows could not be committed",
            "The next start reads them again: none is lost",
        )
    logger.info("stopped: everything consumed is in the lake and committed")


def _announcing(process: Process, seconds: Callable[[], float]) -> Callable[[Future[None]], None]:
    """Returns a callback for the end of Spark's start; the pipeline logs its failure."""

    def announce(spark_up: Future[None]) -> None:
        if not spark_up.cancelled() and spark_up.exception() is None:
            logger.info("ready to write after %.1f s", seconds())
            process.connected.set()
            logs.announce_connected()

    return announce


def _failed(error: ConnectorError, process: Process) -> int:
    """Log what ended the connector; returns the exit code."""
    logger.error("%s", error)
    if not process.connected.is_set():
        logs.announce_failure(error)
    return error.exit_code


def _open_stream(
    base: Base,
    application: LakeApplication,
    location: TableLocation,
    customised: Customised,
    stream_timeouts: StreamTimeouts,
    process: Process,
) -> _Stream:
    """Wait for the broker, open the topics, check the group, and let ``transform()`` build."""
    settings = base.settings
    visible = _find_topics(base, application, process)
    with asking_for_topics(settings):
        topic = open_topic(
            application,
            settings.input_topic,
            visible,
            variable="input",
            right="Read",
            value_deserializer=new_deserializer(settings.value_deserializer),
            key_deserializer=stream_timeouts.key_deserializer,
        )
        announcer = stream_timeouts.new_announcer(application, visible)
    application.current.keep_of(topic)
    check_topic_rights(application.admin, topic.name)
    group, own_id = application.config.consumer_group, new_client_id(settings, location)
    patiently("Kafka", lambda: check_members(application.admin, group, own_id), base.timings, base.metrics.waits)
    given = application.dataframe(topic)
    built = customised.build(given, application)
    is_untouched = application.built(given, built)
    if application.internal_topics:
        logger.info("transform() keeps its own topics: %s", ", ".join(application.internal_topics))
    return _Stream(topic, built, is_untouched, announcer)


def _find_topics(base: Base, application: LakeApplication, process: Process) -> Collection[str]:
    """Wait for the broker; returns the topics that it shows."""
    waiting, waits = Waiting(base.timings.clock), base.metrics.waits

    def failed(error: RetryableError) -> None:
        waiting.failed(error)
        waits.failed("start", error.of("Kafka"))

    visible = find_topics(
        application.config.broker_address,
        wait_seconds=base.timings.start_patience_seconds,
        stop=process.stop,
        clock=base.timings.clock,
        on_failure=failed,
    )
    waiting.worked()
    waits.over("start")
    return visible


def _log_settings(settings: Settings) -> None:
    for name, value in settings.summary().items():
        logger.info("%s: %s", name, value)
    if settings.memory_warning:
        logger.warning("%s", settings.memory_warning)
