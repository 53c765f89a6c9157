"""Builds everything from the settings, starts it in order, runs it, and stops it in order."""

import logging
import os
import shutil
import signal
import socket
import threading
import time
from concurrent.futures import Future
from types import FrameType
from typing import NoReturn

from quixstreams.dataframe import StreamingDataFrame
from quixstreams.models.topics import Topic

from app import logs
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
from app.errors import ConnectorError, FatalError, RetryableError, SparkLostError
from app.journal.claims import Claims
from app.journal.group_offsets import GroupOffsets
from app.journal.kafka_watch import TopicIds
from app.journal.rolled_back import Sweeper
from app.model import TopicPartition
from app.monitoring.metrics import Metrics
from app.monitoring.monitor import Monitor
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
    new_group_offsets,
    new_ownership,
    new_stager,
)
from app.service.customised import Customised, load_customised
from app.service.kafka import asking_for_topics
from app.service.lake import Lake, check_journals, dead_letter_address, new_schema, open_lake
from app.service.overview import Parts, new_monitor, oversee
from app.service.spark import new_spark_writer
from app.service.starting import patiently, spare_the_garbage_collector
from app.service.stream_timeouts import StreamTimeouts
from app.spark.scratch import make_scratch
from app.stream_timeouts.events import Announcer
from app.table.location import TableLocation
from app.timings import DEFAULT, Timings

logger = logging.getLogger(__name__)

_LAST_WORDS_SECONDS = 1.0  # for the last notifications of new files
_LONGEST_LEAVE_SECONDS = 5.0  # without Spark; nothing is written any more, so it is only about the group
_LONGEST_STOP_SECONDS = 27.0  # the last flush has 25 of them; Kubernetes waits for 30 by default


class _StopRequested(BaseException):
    """A signal came while the connector was still starting; no ``Exception``, so that no handler swallows it."""


def run(settings: Settings, timings: Timings = DEFAULT) -> int:
    """Run the connector until a signal or an error ends it.

    Args:
        settings: the connector's settings.
        timings: how long it waits for what.

    Returns:
        The exit code: 0 stopped, 1 a lasting failure, 2 settings, 70 Spark lost, 75 worth trying again.
    """
    _log_settings(settings)
    service = _Service(settings, timings)
    try:
        service.run()
    except _StopRequested:
        logger.info("stopped while starting")
    except ConnectorError as error:
        logger.error("%s", error)  # noqa: TRY400 - the message says it, a stack trace would bury it
        if not service.connected:
            logs.announce_failure(error)
        return error.exit_code
    except Exception as error:
        logger.debug("unexpected", exc_info=True)
        if service.stopped_at_start:
            logger.info("stopped while starting")
            return 0
        unexpected = FatalError(
            "running", repr(error), "Please report this as a bug; LOGLEVEL=DEBUG shows where it was"
        )
        logger.error("%s", unexpected)  # noqa: TRY400
        if not service.connected:
            logs.announce_failure(unexpected)
        return unexpected.exit_code
    finally:
        service.close()
    return 0


class _Service:
    def __init__(self, settings: Settings, timings: Timings = DEFAULT) -> None:
        self._settings = settings
        self._timings = timings
        self._health = Health(loop_seconds=timings.flush_seconds + timings.revoke_seconds, clock=timings.clock)
        self._metrics = Metrics()
        self._scratch = make_scratch()
        self._stop = threading.Event()
        self._application: LakeApplication | None = None
        self._pipeline: Pipeline | None = None
        self._claims: Claims | None = None
        self._sweeper: Sweeper | None = None
        self._announcer: Announcer | None = None
        self._lake: Lake | None = None
        self._spark = new_spark_writer(settings, self._scratch, self._end_without_spark)
        self._consumes = False
        self.connected = False

    @property
    def stopped_at_start(self) -> bool:
        """Whether a signal came before anything was consumed.

        What its handler raises may be lost in the C code of Kafka's client, which goes on or fails in its own way.
        """
        return self._stop.is_set() and not self._consumes

    def run(self) -> None:
        """Start, consume, and return once stopped.

        Each part is made from those before it. First comes what needs no other system, then what ``transform()`` builds
        on, and only then the parts that depend on what it has built: whether records come in batches, and where
        consuming begins.
        """
        self._listen_to_signals()
        settings, timings, metrics = self._settings, self._timings, self._metrics
        customised = load_customised()
        monitor = self._new_monitor()
        begin = timings.clock()
        bad_records = new_bad_records(settings)
        stream_timeouts = StreamTimeouts(settings, customised.on_stream_timeout)
        spark_up = self._spark.start()  # takes seconds, in which the rest is connected and consuming begins
        self._lake = lake = open_lake(settings, timings, metrics.waits)
        # Probes are answered from the start; the monitor learns the rest later.
        monitor.found(lake.location.uri, lake.location.root, dead_letter_address(lake.store.uri, lake.location.root))
        schema = new_schema(settings, lake.store, lake.location)
        patiently("store", schema.open, timings, metrics.waits)

        assignments = Assignments(metrics, timings)
        application = new_application(settings, lake.location, assignments, metrics, self._scratch, timings)
        topic = self._open_topics(application, stream_timeouts, lake.location)
        transformed, is_untouched = _transformed(customised, application, topic)
        in_batches = is_untouched and can_read_whole_batches(settings)
        reader = MessageReader(topic).read if in_batches else None
        stager = new_stager(settings, lake.location, lake.spec, schema, bad_records, reader)
        patiently("store", lambda: check_journals(lake, application.config.consumer_group), timings, metrics.waits)
        if spark_up.done():
            spark_up.result()  # what is known to fail need not join the group

        limits = new_batch_limits(settings, timings, self._scratch)
        ownership = new_ownership(settings, assignments, timings)
        positions, topic_ids = self._open_group(application, topic)
        self._pipeline = pipeline = Pipeline(
            writer=self._spark,
            writer_up=spark_up,
            stager=stager,
            limits=limits,
            destination=Destination(
                lake.store, lake.location.root, lake.spec.virtual, frozenset(settings.stats_columns) or None
            ),
            registrar=lake.registrar,
            scratch=self._scratch,
            workers=settings.max_write_workers,
            ownership=ownership,
            recreated=topic_ids.recreated,
            metrics=metrics,
            timings=timings,
        )
        self._claims = claims = new_claims(
            settings, lake, ownership, application, assignments, metrics, positions, topic_ids, timings
        )
        self._sweeper = begin_sweeping(ownership, lake, application.config.consumer_group)
        paused = PausedPartitions(application.consumer, claims, assignments, metrics)
        sink = LakeSink(
            pipeline=pipeline,
            assignments=assignments,
            limits=limits,
            bad_records=bad_records,
            on_sealed=application.checkpoints.in_flight.sealed,
            metrics=metrics,
            observer=stream_timeouts.new_observer(paused.is_heard, self._announcer),
            timings=timings,
        )
        transformed.sink(sink)
        loop = new_loop(
            application=application,
            assignments=assignments,
            sink=sink,
            paused=paused,
            claims=claims,
            on_turn=self._health.turn,
            in_batches=in_batches,
            metrics=metrics,
            timings=timings,
        )
        application.start(loop)
        parts = Parts(assignments, sink, application, loop, pipeline, bad_records, self._health, self._spark, metrics)
        oversee(settings, monitor, parts)
        self._application = application  # from here on a signal stops the loop, and no longer the start
        if self.stopped_at_start:
            raise _StopRequested
        self._consumes = True
        logger.info("ready to consume %s after %.1f s", topic.name, timings.clock() - begin)
        spark_up.add_done_callback(lambda up: self._announce(up, timings.clock() - begin))
        spare_the_garbage_collector()
        try:
            application.run()
        finally:
            bad_records.log_total()
        self._raise_if_incomplete(sink)
        logger.info("stopped: everything consumed is in the lake and committed")

    def _announce(self, spark_up: Future[None], seconds: float) -> None:
        """Say that all is connected, for Spark was the last; where it failed, the pipeline says so."""
        if not spark_up.cancelled() and spark_up.exception() is None:
            logger.info("ready to write after %.1f s", seconds)
            self.connected = True
            logs.announce_connected()

    def _raise_if_incomplete(self, sink: LakeSink) -> None:
        if sink.left_rows_behind:
            once = self._settings.delivery_guarantee == "exactly-once"
            doubled = "" if once else ", and those that reached the lake already come twice"
            raise RetryableError(
                "stopping",
                "the offsets of some rows could not be committed",
                f"The next start reads them again: none is lost{doubled}",
            )

    def close(self) -> None:
        """End what still runs. Never raises, for an exit code is on its way."""
        if self._announcer:
            self._announcer.close()
        if self._pipeline:
            self._pipeline.stop()
        if self._sweeper:
            self._sweeper.stop()
        if self._claims:
            self._claims.stop()
        if self._lake and self._lake.query_api:
            self._lake.query_api.close(_LAST_WORDS_SECONDS)
        self._spark.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _new_monitor(self) -> Monitor:
        monitor = new_monitor(self._settings, self._metrics, self._health, self._spark)
        if self._settings.http_port:
            monitor.serve(self._settings.http_host, self._settings.http_port, self._settings.http_allowed_hosts)
        return monitor

    def _end_without_spark(self, error: SparkLostError) -> None:
        """End the process; offsets of what is under way are not committed, so nothing is lost.

        The consumer's loop ends it and leaves the group, so that others get its partitions at once. Where there is no
        loop yet, or it is stuck, the process ends from here.
        """
        if self._pipeline is None:
            _exit_now_with(error)
        self._pipeline.fail(error)
        limit = threading.Timer(_LONGEST_LEAVE_SECONDS, _exit_now_with, (error,))
        limit.daemon = True
        limit.start()

    def _listen_to_signals(self) -> None:
        """Handle them, and see to it that the process ends in time after one, also where no handler gets to run.

        Handlers run between two steps of Python alone, and a commit to a Kafka that is out of reach is one step of a
        minute or more. The descriptor is written to at once.
        """
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        signals, wake_up = socket.socketpair()
        wake_up.setblocking(False)
        signal.set_wakeup_fd(wake_up.fileno())
        self._wake_up = wake_up  # open as long as the process lives
        threading.Thread(target=self._end_late_stop, args=(signals,), name="stop-limit", daemon=True).start()

    def _end_late_stop(self, signals: socket.socket) -> None:
        signals.recv(1)
        time.sleep(_LONGEST_STOP_SECONDS)
        error = RetryableError(
            "stopping",
            f"it took longer than {_LONGEST_STOP_SECONDS:.0f} s, as when Kafka does not answer",
            "The next start reads again what was not committed",
        )
        self._spark.close()
        shutil.rmtree(self._scratch, ignore_errors=True)
        _exit_now_with(error)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self._stop.is_set():
            return  # platforms repeat themselves
        logger.info("received %s, stopping", signal.Signals(number).name)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a second Ctrl-C ends it the hard way
        self._stop.set()
        if self._application is None:
            raise _StopRequested
        self._application.request_stop()

    def _open_topics(
        self, application: LakeApplication, stream_timeouts: StreamTimeouts, location: TableLocation
    ) -> Topic:
        waiting, waits = Waiting(self._timings.clock), self._metrics.waits

        def failed(error: RetryableError) -> None:
            waiting.failed(error)
            waits.failed("start", error.of("Kafka"))

        visible = find_topics(
            application.config.broker_address,
            wait_seconds=self._timings.start_patience_seconds,
            stop=self._stop,
            clock=self._timings.clock,
            on_failure=failed,
        )
        waiting.worked()
        waits.over("start")
        with asking_for_topics(self._settings):
            topic = open_topic(
                application,
                self._settings.input_topic,
                visible,
                variable="input",
                right="Read",
                value_deserializer=new_deserializer(self._settings.value_deserializer),
                key_deserializer=stream_timeouts.key_deserializer,
            )
            self._announcer = stream_timeouts.new_announcer(application, visible)
        application.current.keep_of(topic)
        group = application.config.consumer_group
        check_topic_rights(application.admin, topic.name)
        own_id = new_client_id(self._settings, location)
        patiently("Kafka", lambda: check_members(application.admin, group, own_id), self._timings, waits)
        return topic

    def _open_group(self, application: LakeApplication, topic: Topic) -> tuple[GroupOffsets, TopicIds]:
        """Ask for an offset once: a missing right on the group shows before the process says that it is connected."""
        positions, topic_ids = new_group_offsets(application, self._timings)
        try:
            positions.of(TopicPartition(topic.name, 0))
        except RetryableError as error:  # as before Kafka's first group exists; claims ask again
            logger.debug("%s", error)
        return positions, topic_ids


def _log_settings(settings: Settings) -> None:
    for name, value in settings.summary().items():
        logger.info("%s: %s", name, value)
    if settings.memory_warning:
        logger.warning("%s", settings.memory_warning)


def _transformed(customised: Customised, application: LakeApplication, topic: Topic) -> tuple[StreamingDataFrame, bool]:
    """The stream of records to write, and whether nothing at all was done to it."""
    dataframe = application.dataframe(topic)
    transformed = customised.build(dataframe, application)
    is_untouched = application.built(dataframe, transformed)
    if application.internal_topics:
        logger.info("transform() keeps its own topics: %s", ", ".join(application.internal_topics))
    return transformed, is_untouched


def _exit_now_with(error: ConnectorError) -> NoReturn:
    logger.error("%s", error)
    logging.shutdown()
    os._exit(error.exit_code)
