"""Builds what both lanes have in common, and runs a lane once it is built.

There are two: ``plain_lane`` where ``transform()`` is untouched, ``framework_lane`` where it is edited.
"""

import logging
from collections.abc import Callable, Collection
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from confluent_kafka.admin import AdminClient
from quixstreams import Application
from quixstreams.models import Deserializer
from quixstreams.models.topics import Topic

from app import logs
from app.bad_records.policy import BadRecords
from app.bad_records.refusals import ReadMessage
from app.errors import RetryableError
from app.kafka.group import check_members, check_topic_rights
from app.kafka.topics import listing_topics, missing_topic, open_topic
from app.monitoring.consumption import Consumption
from app.monitoring.monitor import Monitor
from app.monitoring.probes import Health
from app.pipeline.claimer import Claimer
from app.pipeline.deliver import Delivery
from app.pipeline.flow import Flow
from app.pipeline.gather import Gathering
from app.pipeline.limits import BatchLimits
from app.pipeline.pipeline import Pipeline
from app.service.build import (
    Group,
    Member,
    begin_sweeping,
    new_claimer,
    new_client_id,
    new_stager,
    open_group,
)
from app.service.customised import Customised
from app.service.formats import Formats
from app.service.kafka import asking_for_topics
from app.service.lake import Lake, check_journals
from app.service.overview import Parts, oversee
from app.service.process import Process
from app.service.starting import Base, spare_the_garbage_collector
from app.service.stream_timeouts import StreamTimeouts
from app.spark.writer import SparkWriter
from app.stream_timeouts.events import Announcer

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Common:
    """The parts that are there before the lane is built.

    Args:
        base: settings, timings, metrics, and the scratch folder.
        begin: when the start began, in monotonic seconds.
        customised: the user's functions.
        health: what the probes say.
        monitor: what metrics and page say.
        bad_records: the policy for records that cannot become rows.
        limits: decide when a batch ends.
        formats: read keys and values.
        stream_timeouts: makes their parts.
        spark: starts meanwhile.
        spark_up: the end of its start.
        lake: the connected store, and the table in it.
        process: learns when a signal has to stop the loop.
        ends: stops the parts, the last one first.
    """

    base: Base
    begin: float
    customised: Customised
    health: Health
    monitor: Monitor
    bad_records: BadRecords
    limits: BatchLimits
    formats: Formats
    stream_timeouts: StreamTimeouts
    spark: SparkWriter
    spark_up: Future[None]
    lake: Lake
    process: Process
    ends: ExitStack


def open_input(
    common: Common,
    application: Application,
    visible: Collection[str],
    keys: Deserializer,
    values: Deserializer,
) -> Topic:
    """Open the input topic.

    Args:
        common: the parts that are there.
        application: makes the topic.
        visible: the topics that Kafka shows us.
        keys: reads the keys.
        values: reads the values.

    Raises:
        ConfigError: it does not exist.
    """
    settings = common.base.settings
    prefix = f"{application.config.consumer_group_prefix}-" if application.is_quix_app else ""
    if f"{prefix}{settings.input_topic}" not in visible:  # quixstreams would create it
        raise missing_topic(settings.input_topic, [name.removeprefix(prefix) for name in visible])
    with asking_for_topics(settings):
        return open_topic(
            application,
            settings.input_topic,
            visible,
            variable="input",
            right="Read",
            value_deserializer=values,
            key_deserializer=keys,
        )


def check_group(common: Common, application: Application, admin: AdminClient, topic: Topic) -> None:
    """Check the rights on the topic, and the other members of the group.

    Raises:
        ConnectorError: a right is missing, or a member writes another table.
    """
    check_topic_rights(admin, topic.name)
    group, own_id = application.config.consumer_group, new_client_id(common.base.settings, common.lake.location)
    common.base.metrics.waits.at_start("Kafka", partial(check_members, admin, group, own_id))


def new_announcer(common: Common, application: Application, visible: Collection[str]) -> Announcer | None:
    """The announcer of stream timeouts, if there is one."""
    with asking_for_topics(common.base.settings):
        announcer = common.stream_timeouts.new_announcer(application, visible)
    if announcer:
        common.ends.callback(announcer.close)
    return announcer


def visible_topics(common: Common, application: Application) -> Collection[str]:
    """Wait for the broker; returns the topics that it shows."""
    return common.base.metrics.waits.at_start("Kafka", listing_topics(application.config.broker_address))


def open_way(
    common: Common, application: Application, topic: Topic, member: Member, read_message: ReadMessage | None = None
) -> tuple[Group, Claimer, Pipeline]:
    """Build exactly once, and the way of a batch.

    Args:
        common: the parts that are there.
        application: has the name of the group, and the broker.
        topic: the input.
        member: of the group.
        read_message: reads single messages for batches of messages; ``None`` if the lane gives rows.
    """
    base, lake = common.base, common.lake
    settings, timings, metrics = base.settings, base.timings, base.metrics
    name = application.config.consumer_group
    stager = new_stager(settings, lake, common.bad_records, common.formats, read_message)
    metrics.waits.at_start("store", partial(check_journals, lake, name))
    if common.spark_up.done():
        common.spark_up.result()  # after a failed start of Spark do not join the group
    group = open_group(application.config, member.admin, topic.name, timings)
    flow = Flow(metrics, timings)
    gathering = Gathering(flow, stager, common.limits, base.scratch, in_files=lake.registrar.in_files)
    claimer = new_claimer(base, lake, name, member, group, gathering.submit)
    common.ends.callback(claimer.stop)
    common.ends.callback(begin_sweeping(claimer, lake, name).stop)
    delivery = Delivery(
        flow, lake.store, lake.registrar, settings.max_write_workers, recreated=group.topic_ids.recreated
    )
    pipeline = Pipeline(flow, gathering, common.spark, delivery, common.spark_up)
    pipeline.start()
    common.ends.callback(pipeline.stop)
    common.spark.lost.add_done_callback(lambda lost: common.process.end_without_spark(lost.result(), pipeline.fail))
    return group, claimer, pipeline


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane that is built.

    Args:
        topic: its input.
        admin: asks Kafka.
        pipeline: writes what it consumes.
        consumption: how it goes.
        stop: stops it; safe in a signal handler.
        run: consumes until it is stopped; returns whether all that was consumed is in the lake and committed.
    """

    topic: Topic
    admin: AdminClient
    pipeline: Pipeline
    consumption: Callable[[], Consumption]
    stop: Callable[[], None]
    run: Callable[[], bool]


def run_lane(common: Common, lane: Lane) -> None:
    """Consume until stopped.

    Raises:
        ConnectorError: it failed, or some rows are not committed.
    """
    settings, process = common.base.settings, common.process
    parts = Parts(
        lane.consumption,
        lane.admin,
        lane.pipeline,
        common.bad_records,
        common.health,
        common.spark,
        common.base.metrics,
    )
    oversee(settings, common.monitor, parts)

    def seconds() -> float:
        return common.base.timings.clock() - common.begin

    process.started(lane.stop)
    logger.info("ready to consume %s after %.1f s", lane.topic.name, seconds())
    common.spark_up.add_done_callback(_announcing(process, seconds))
    spare_the_garbage_collector()
    try:
        is_all_written = lane.run()
    finally:
        common.bad_records.log_total()
    if not is_all_written:
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
