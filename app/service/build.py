"""Builds the parts from the settings."""

import logging
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka.admin import AdminClient
from quixstreams import Application
from quixstreams.app import ApplicationConfig
from quixstreams.platforms.quix.env import QUIX_ENVIRONMENT

from app.bad_records.dead_letter import SCHEMA as DEAD_LETTER
from app.bad_records.refusals import BadRecords, ReadMessage
from app.config.settings import Settings
from app.consumer.plain.client import new_client
from app.convert.batch import BatchConverter
from app.convert.json_parser import JsonMessages
from app.convert.rows import Rules
from app.convert.ruled_messages import RuledMessages
from app.convert.whole_batches import WholeBatches
from app.delivery.assignment import Portion
from app.delivery.claimer import Claimer, Membership
from app.delivery.limits import BatchLimits
from app.delivery.stage import Stager
from app.errors import RetryableError
from app.journal.beginning import Beginnings
from app.journal.first_offsets import FirstOffsets
from app.journal.journal import Journal, ObsoleteLogs
from app.journal.own_log import OwnLog, new_token
from app.journal.rolled_back import Placeholders, Sweeper
from app.journal.settle import Settlement, roll_forward
from app.journal.takeover import Takeover
from app.kafka.connection import EVERY_CLIENT, check_properties, poll_in_background, uses_callback
from app.kafka.group import OtherTables, client_id, is_member
from app.kafka.questions import GroupOffsets
from app.kafka.watch import KafkaWatch, TopicIds
from app.model import TopicPartition
from app.service.formats import Formats
from app.service.kafka import kafka_client_refused, kafka_connection
from app.service.lake import Lake
from app.service.starting import Base
from app.spark.scratch import is_in_memory
from app.table.existing import TableLocation
from app.timings import DEFAULT, Timings

logger = logging.getLogger(__name__)

_Application = TypeVar("_Application", bound=Application)

# Half of the client's default. It counts values alone, so the number bounds keys and headers. More are fetched at the
# latest so many ms after fewer wait; the client's default is a second.
_FETCHED_AHEAD_KB = 32 * 1024
_FETCHED_AHEAD = 100
_FETCH_AGAIN_MS = 5
_MB = 2**20
_SWEEP_SECONDS = 10.0
# Between two checks of the topic's id and of the group's members.
_WATCH_SECONDS = 20.0
# New partitions are noticed after this time; the client's default is five minutes.
_METADATA_MS = 60_000
# A member learns of a rebalance at its next heartbeat. With the client's 3 s, partitions of a member that left would
# have no reader for so long.
_HEARTBEAT_MS = 500


def new_bad_records(settings: Settings) -> BadRecords:
    return BadRecords(settings.on_bad_record, logger.warning)


def one_by_one(settings: Settings) -> str | None:
    """The setting that does not allow converting messages in batches, if there is one.

    If a bad record ends the process, the records before it must reach the lake first: each is converted by itself.
    """
    if settings.value_deserializer not in ("json", "json-schema", "avro", "protobuf"):
        return f"KAFKA_VALUE_DESERIALIZER={settings.value_deserializer}"
    if settings.key_deserializer not in ("str", "avro"):
        return f"KAFKA_KEY_DESERIALIZER={settings.key_deserializer}"
    return "ON_BAD_RECORD=fail" if settings.on_bad_record == "fail" else None


def new_stager(
    settings: Settings,
    lake: Lake,
    bad_records: BadRecords,
    formats: Formats | None = None,
    read_message: ReadMessage | None = None,
) -> Stager:
    """Steps 1 and 2; ``formats`` and ``read_message`` read messages, many at once and single ones."""
    spec = lake.spec
    columns, types = frozenset(spec.columns), settings.column_types
    limit, is_iceberg = settings.column_limit, settings.is_iceberg
    rules = Rules(spec.timestamp_column, columns, types, settings.timestamp_as, is_iceberg, limit)
    field_rules = settings.field_rules
    whole_batches = None
    if formats:
        parser, read_key, ask_with = formats.parser, formats.read_key, formats.ask_with
        if field_rules:
            parser = RuledMessages(parser or JsonMessages(), field_rules)
        whole_batches = WholeBatches(spec, rules, settings.metadata_columns, parser, read_key, ask_with)
    converter = BatchConverter(
        spec=spec,
        table_root=lake.location.root,
        schema=lake.schema,
        rules=rules,
        metadata=settings.metadata_columns,
        bad_records=bad_records,
        whole_batches=whole_batches,
        read_message=read_message,
        field_rules=field_rules,
    )
    return Stager(converter, lake.location.root, spec, lake.registrar.computed)


def new_batch_limits(settings: Settings, timings: Timings, scratch: Path, commit_seconds: float = inf) -> BatchLimits:
    """The limits of the settings, of this machine's memory and of the scratch folder's disk."""
    memory = settings.memory
    limits = BatchLimits(
        batch_size=settings.batch_size,
        target_file_bytes=settings.target_file_mb * _MB,
        gather_seconds=timings.gather_seconds,
        max_record_bytes=memory.max_record_bytes,
        max_buffer_bytes=memory.buffer_mb * _MB,
        max_sort_bytes=memory.sort_mb * _MB,
        commit_seconds=commit_seconds,
    )
    return limits.fitted(disk_bytes=shutil.disk_usage(scratch).total, is_disk_memory=is_in_memory(scratch))


def begin_sweeping(claimer: Claimer, lake: Lake, group: str) -> Sweeper:
    """Delete rolled-back objects that are due, and old logs."""
    logs = ObsoleteLogs(Journal(lake.store, lake.location.root, group))

    def sweep(*, is_last: bool) -> None:
        claimer.sweep(is_last=is_last)
        if not is_last:
            logs.delete()

    sweeper = Sweeper(sweep, _SWEEP_SECONDS)
    sweeper.start()
    return sweeper


def new_client_id(settings: Settings, location: TableLocation) -> str:
    return client_id(settings.input_topic, location.uri)


def open_group(config: ApplicationConfig, admin: AdminClient, topic: str, timings: Timings) -> GroupOffsets:
    """Ask for an offset of the topic once: a missing right on the group shows before the connector is connected."""
    consumer = new_client(config, {"statistics.interval.ms": 0})  # nothing reads them: they would fill the memory
    if uses_callback(config.broker_address):
        poll_in_background(consumer, admin)
    offsets = GroupOffsets(consumer, admin, timings.kafka_answer_seconds)
    try:
        offsets.of(TopicPartition(topic, 0))
    except RetryableError as error:  # e.g. before Kafka's first group exists; claims ask again
        logger.debug("%s", error)
    return offsets


@dataclass(frozen=True, slots=True)
class Member:
    """This member of the consumer group, as claims need it.

    ``member_id`` is its id in the group, ``None`` outside of it. ``keeps_state``: consuming begins at the group's
    offset, even if the table is ahead of it.
    """

    member_id: Callable[[], str | None]
    admin: AdminClient
    internal_topics: Sequence[str] = ()
    keeps_state: bool = False


def _new_takeover(
    settings: Settings,
    lake: Lake,
    journal: Journal,
    member: Member,
    offsets: GroupOffsets,
    topic_ids: TopicIds,
    objects: ThreadPoolExecutor,
) -> Takeover:
    claims = ThreadPoolExecutor(max_workers=settings.max_write_workers, thread_name_prefix="takeover")
    first_offsets = FirstOffsets(
        journal, kafka=offsets, reset=settings.auto_offset_reset, internal=member.internal_topics
    )
    roll = partial(roll_forward, lake.store, lake.registrar, objects.map)
    return Takeover(
        journal,
        Settlement(lake.store, roll, lake.registrar.has, offsets, objects.map),
        Beginnings(
            offsets, topic_ids, first_offsets.of, settings.follow_offsets, member.keeps_state, first_offsets.followed
        ),
        claims.map,
    )


def new_claimer(
    base: Base,
    lake: Lake,
    name: str,
    member: Member,
    offsets: GroupOffsets,
    topic_ids: TopicIds,
    submit: Callable[[Portion], None],
) -> Claimer:
    settings, timings, metrics = base.settings, base.timings, base.metrics
    journal = Journal(lake.store, lake.location.root, name)
    objects = ThreadPoolExecutor(max_workers=settings.max_write_workers, thread_name_prefix="recovery")
    placeholders = Placeholders(lake.store, lake.location.root, DEAD_LETTER, objects.map)
    other_tables = OtherTables(member.admin, name, new_client_id(settings, lake.location), metrics.replicas)

    def new_log() -> OwnLog:
        return OwnLog(
            journal,
            new_token(),
            fill=placeholders.put,
            on_fenced=lambda _: metrics.fenced(),
            each=objects.map,
            clock=timings.clock,
        )

    return Claimer(
        _new_takeover(settings, lake, journal, member, offsets, topic_ids, objects),
        new_log,
        Membership(
            topic_ids,
            other_tables.at_assignment,
            lambda: is_member(member.admin, name, member.member_id()),
            KafkaWatch(
                [lambda: topic_ids.recreated(metrics.counts().positions), other_tables.later], seconds=_WATCH_SECONDS
            ),
        ),
        submit,
        metrics,
        timings,
    )


def new_application(
    kind: Callable[..., _Application],
    settings: Settings,
    location: TableLocation,
    scratch: Path,
    timings: Timings = DEFAULT,
    **others: Any,
) -> _Application:
    """The quixstreams application, made by ``kind`` and not connected yet; ``others`` replace its arguments.

    A ``transform()`` with state keeps it in ``scratch`` where the platform gives no other folder. Raises
    ``ConfigError`` if the Kafka client refuses its settings, or the platform does not name a broker.
    """
    of_consumer = {
        **EVERY_CLIENT,
        "client.id": new_client_id(settings, location),
        "session.timeout.ms": int(timings.session_seconds * 1000),
        "heartbeat.interval.ms": _HEARTBEAT_MS,
        "queued.max.messages.kbytes": _FETCHED_AHEAD_KB,
        "queued.min.messages": _FETCHED_AHEAD,
        "fetch.queue.backoff.ms": _FETCH_AGAIN_MS,
        "max.partition.fetch.bytes": settings.memory.fetched_at_once_bytes,
        "fetch.max.bytes": settings.memory.fetched_in_all_bytes,
        "topic.metadata.refresh.interval.ms": _METADATA_MS,
    }
    check_properties(settings.client_properties, of_consumer)
    arguments: dict[str, Any] = {
        "broker_address": kafka_connection(settings),
        "quix_sdk_token": settings.sdk_token,
        "quix_portal_api": settings.portal_api,
        "consumer_group": settings.consumer_group,
        # Claims decide where to begin. A later loss of an offset in Kafka must not be skipped silently.
        "auto_offset_reset": "error",
        "consumer_extra_config": of_consumer,
        "producer_extra_config": {**EVERY_CLIENT},
        "commit_interval": settings.commit_interval,
        "state_dir": QUIX_ENVIRONMENT.state_dir or scratch / "state",
        "consumer_poll_timeout": 0.25,  # a signal is noticed between two polls
        "auto_create_topics": False,
        "broker_availability_timeout": 0,  # an absent broker is waited for
        "loglevel": None,  # logging is set up already
    }
    try:
        return kind(**arguments | others)
    except Exception as error:
        raise kafka_client_refused(settings, error) from error
