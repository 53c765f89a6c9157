"""Builds the parts from the settings."""

import logging
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path

from confluent_kafka.admin import AdminClient

from app.bad_records.dead_letter import SCHEMA as DEAD_LETTER
from app.bad_records.refusals import BadRecords, ReadMessage
from app.config.settings import Settings
from app.convert.batch import BatchConverter
from app.convert.json_parser import JsonMessages
from app.convert.rows import Rules
from app.convert.ruled_messages import RuledMessages
from app.convert.whole_batches import WholeBatches
from app.delivery.assignment import Portion
from app.delivery.claimer import Claimer, Membership
from app.delivery.limits import BatchLimits
from app.delivery.stage import Stager
from app.journal.beginning import Beginnings
from app.journal.first_offsets import FirstOffsets
from app.journal.journal import Journal, ObsoleteLogs
from app.journal.own_log import OwnLog, new_token
from app.journal.rolled_back import Placeholders, Sweeper
from app.journal.settle import Settlement, roll_forward
from app.journal.takeover import Takeover
from app.kafka.group import OtherTables, is_member
from app.kafka.questions import GroupOffsets
from app.kafka.watch import KafkaWatch, TopicIds
from app.monitoring.metrics import Metrics
from app.service.formats import Formats
from app.service.kafka import new_client_id
from app.service.lake import Lake
from app.spark.scratch import is_in_memory
from app.timings import Timings

logger = logging.getLogger(__name__)

_MB = 2**20
_SWEEP_SECONDS = 10.0
# Between two checks of the topic's id and of the group's members.
_WATCH_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Base:
    """Common to all parts; ``scratch`` is a private folder, deleted with the process."""

    settings: Settings
    timings: Timings
    metrics: Metrics
    scratch: Path


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
    claims = ThreadPoolExecutor(max_workers=settings.max_write_workers, thread_name_prefix="takeover")
    first = FirstOffsets(journal, kafka=offsets, reset=settings.auto_offset_reset, internal=member.internal_topics)
    roll = partial(roll_forward, lake.store, lake.registrar, objects.map)
    settlement = Settlement(lake.store, roll, lake.registrar.has, offsets, objects.map)
    beginnings = Beginnings(offsets, topic_ids, first.of, settings.follow_offsets, member.keeps_state, first.followed)
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
        Takeover(journal, settlement, beginnings, claims.map),
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
