"""The parts of the connector in the order of their creation, and the run of a lane that uses these parts.

A lane reads Kafka. ``plain_lane`` has the connector's own loop, and ``framework_lane`` the loop of quixstreams.
"""

import gc
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pkgutil import resolve_name
from typing import Any

from confluent_kafka.admin import AdminClient
from quixstreams import Application

from app import logs
from app.bad_records.refusals import BadRecords
from app.config.settings import Settings
from app.consumer.sink_observer import KeyWatch, RunEnd
from app.delivery.batch_limits import BatchLimits
from app.delivery.claimer import Group, StartSettings
from app.delivery.member import Member
from app.delivery.members import Members
from app.delivery.runtime import Buffer, Runtime
from app.errors import RetryableError
from app.journal.first_offsets import FirstOffsets
from app.journal.journal import Journal
from app.kafka.group import OtherTables, check_members, is_member
from app.kafka.topics import check_topic_rights, listing_topics, prefix_of
from app.kafka.watch import KafkaWatch, TopicIds
from app.monitoring.monitor import Monitor
from app.monitoring.status import Consumption
from app.parts import RUN_END
from app.service.formats import Formats, new_stager
from app.service.kafka_client import open_group, what_is_written
from app.service.lake import Lake, check_journals
from app.service.process import Process
from app.service.user_transform import Customised
from app.spark.writer import SparkWriter
from app.storage.base import ObjectStore
from app.table.existing_table import TableLocation

logger = logging.getLogger(__name__)
_NEW_OBJECTS_PER_COLLECTION = 50_000  # number of messages in a few calls


@dataclass(frozen=True, slots=True)
class Records:
    """The parts that convert records to rows, handle bad records, and limit the number of waiting records."""

    customised: Customised
    formats: Formats
    key_watch: KeyWatch
    bad: BadRecords
    limits: BatchLimits

    @property
    def deserializers(self) -> Mapping[str, Any]:
        return {"value_deserializer": self.formats.value, "key_deserializer": self.key_watch.key_deserializer}


@dataclass(frozen=True, slots=True)
class Connector:
    """The parts that exist before the lane. ``lakes`` contains the open tables by name."""

    settings: Settings
    runtime: Runtime
    process: Process
    spark: SparkWriter
    monitor: Monitor
    records: Records
    store: ObjectStore
    lakes: dict[str, Lake]

    @property
    def lake(self) -> Lake | None:
        """The table of all topics; ``None`` if the settings contain ``{topic}``, so that each topic has a table."""
        return self.lakes.get(self.settings.table)

    @property
    def location(self) -> TableLocation:
        """The location of the table. For several tables, the location contains ``{topic}``."""
        return self.lake.location if self.lake else self.settings.location

    def visible_topics(self, application: Application) -> Collection[str]:
        """Wait for the broker, and return the visible topics."""
        return self.runtime.metrics.waits.at_start("Kafka", listing_topics(application.config.broker_address))

    def check_group(self, application: Application, admin: AdminClient, topics: Collection[str]) -> None:
        """Raise an error if a right on a topic is missing, or if a member of the group writes a different table."""
        check_topic_rights(admin, *topics)
        ours = what_is_written(self.settings, self.location, prefix_of(application))
        group = application.config.consumer_group
        self.runtime.metrics.waits.at_start("Kafka", partial(check_members, admin, group, ours, topics))

    def new_run_end(self, application: Application, admin: AdminClient, topics: Collection[str]) -> RunEnd | None:
        """Query the ends of these topics if ``UNTIL`` is set. Otherwise return ``None``."""
        new: Callable[..., RunEnd] = resolve_name(RUN_END)
        return None if self.settings.until is None else new(self.settings, self.runtime, application, admin, topics)

    def join_group(
        self,
        application: Application,
        admin: AdminClient,
        topics: Collection[str],
        start: StartSettings,
        member_id: Callable[[], str | None],
    ) -> Group:
        """Connect to the consumer group. ``member_id`` returns this member's id; ``None`` outside of the group."""
        runtime, spark, prefix = self.runtime, self.spark, prefix_of(application)
        name = application.config.consumer_group
        at_start = partial(runtime.metrics.waits.at_start, "store")
        if self.lake:
            at_start(partial(check_journals, self.lake, name))
        offsets = open_group(application.config, admin, next(iter(topics), None), runtime.timings)
        if self.settings.has_several:
            at_start(lambda: self.store.connect(f"{self.settings.root}/"))
            tables = {topic: self.settings.of_topic(topic.removeprefix(prefix)).table for topic in topics}
            first = FirstOffsets(Journal(self.store, self.settings.root, name), kafka=offsets, reset=start.reset)
            start = replace(start, first_topics=at_start(partial(first.first_topics, tables, start.follow_offsets)))
        if spark.up.done():
            spark.up.result()  # do not join the group if Spark's start has failed
        topic_ids = TopicIds(offsets.topic_id)
        ours = what_is_written(self.settings, self.location, prefix)
        others = OtherTables(admin, name, topics, ours, runtime.metrics.members)
        watch = KafkaWatch((lambda: topic_ids.recreated(runtime.metrics.counts().positions), others.later))
        self.process.ends.callback(watch.stop)
        return Group(
            name,
            offsets,
            topic_ids,
            watch,
            lambda: is_member(admin, name, member_id()),
            others.at_assignment,
            start,
        )

    def open_member(self, group: Group, formats: Formats | None = None) -> Member:
        """Create and start the member of a process with one table. ``new_member`` describes the arguments."""
        assert self.lake is not None  # noqa: S101 - the process has one table
        return self.new_member(formats, self.settings, self.lake, group, self.runtime, Buffer(self.records.limits))

    def new_member(
        self, formats: Formats | None, settings: Settings, lake: Lake, group: Group, runtime: Runtime, buffer: Buffer
    ) -> Member:
        """Create and start the member that claims the topic's partitions, and writes their records.

        ``formats`` reads messages. It is ``None`` for the framework's lane, which hands over rows.
        """
        stager = new_stager(settings, lake, self.records.bad, formats)
        member = Member(lake.store, lake.registrar, stager, buffer, self.spark, group, runtime)
        member.start()
        self.lakes[settings.table] = lake
        return member

    def run(self, lane: "Lane") -> None:
        self.process.started(lane.stop)
        logger.info("ready to consume %s after %.1f s", self.settings.input_topic, self.process.seconds)
        self.spark.up.add_done_callback(self._can_write)
        self.spark.lost.add_done_callback(lambda lost: self.process.end_without_spark(lost.result(), lane.members.fail))
        # Scans of many waiting messages needed a quarter of Python's time. Objects that exist now live as long as the
        # process, so they are not scanned.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_NEW_OBJECTS_PER_COLLECTION, 100)
        with lane.run_end or nullcontext():
            try:
                is_all_written = lane.run()
            finally:
                self.records.bad.log_total()
            if not is_all_written:
                raise RetryableError(
                    "stopping",
                    "some rows are not in the lake, or their offsets are not committed",
                    "The next start reads them again: none is lost",
                )
        logger.info("stopped: everything consumed is in the lake and committed")

    def _can_write(self, spark_up: Future[None]) -> None:
        """Note that Spark has started. If Spark's start has failed, the pipeline logs the error."""
        if not spark_up.cancelled() and spark_up.exception() is None:
            logger.info("ready to write after %.1f s", self.process.seconds)
            self.process.connected.set()
            logs.announce_connected()


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane that is ready to run. ``stop`` is safe in a signal handler.

    ``run`` returns whether all consumed records are in the lake and committed.
    """

    admin: AdminClient
    application: Application
    topics: Sequence[str]
    members: Members
    consumption: Callable[[], Consumption]
    stop: Callable[[], None]
    run: Callable[[], bool]
    run_end: RunEnd | None = None
