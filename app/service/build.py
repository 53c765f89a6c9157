"""From settings to the parts: the one place, with ``service``, that knows the settings object."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from quixstreams.kafka import BaseConsumer, ConnectionConfig
from quixstreams.platforms.quix.env import QUIX_ENVIRONMENT

from app.bad_records.policy import BadRecords
from app.bad_records.refusals import ReadMessage
from app.catalog.registrar import Registrar
from app.config.settings import Settings
from app.consumer.application import LakeApplication
from app.consumer.group import OtherTables, client_id
from app.consumer.sink import LakeSink
from app.convert.batch import BatchConverter
from app.convert.json_batch import WholeBatches
from app.convert.rows import Rules
from app.errors import ConfigError
from app.journal.claims import Claims
from app.journal.entry import journal_key
from app.journal.first_offsets import FirstOffsets
from app.journal.group_offsets import GroupOffsets
from app.journal.journal import Journal
from app.journal.kafka_watch import KafkaWatch
from app.journal.ownership import AssignmentOwnership, JournalOwnership
from app.journal.recovery import Recovery
from app.journal.sweeper import Sweeper
from app.journal.topic_ids import TopicIds
from app.monitoring.metrics import Metrics
from app.monitoring.probes import Health
from app.pipeline.stage import Stager
from app.storage.base import ObjectStore
from app.table.layout import PartitionSpec, object_roots
from app.table.location import TableLocation
from app.table.schema_store import SchemaStore

logger = logging.getLogger(__name__)

# The consumer is thrown out of its group when it does not poll for this long (librdkafka's default).
_MAX_POLL_SECONDS = 300.0
FLUSH_SECONDS = 0.6 * _MAX_POLL_SECONDS
# quixstreams gives the flush of a revocation a fifth of it; ours ends just before, with a reason.
REVOKE_SECONDS = 0.2 * _MAX_POLL_SECONDS - 5.0
# How long a killed member's partitions stay without a reader. Heartbeats have a thread of their own in the client, so
# a busy connector does not miss them; one that is thought dead by mistake is fenced by the journal.
_SESSION_MS = 20_000
# A partition gets another owner when no heartbeat has come for that long, and they come every 3 s: half of it is safe.
_FRESH_SECONDS = _SESSION_MS / 1000 / 2
# Half of the client's default: what a message takes beside its bytes does not count there.
_FETCHED_AHEAD_KB = 32 * 1024
# One Spark job a second at most: a job costs a tenth of a CPU-second, and another 5 ms for each file.
_GATHER_SECONDS = 1.0
_SWEEP_SECONDS = 600.0
# How often the topic's id and the group's members are looked at.
_WATCH_SECONDS = 20.0
# New partitions are noticed after so long; the client's default is five minutes.
_METADATA_MS = 60_000
_STOP_SECONDS = 25.0  # below the 30 s that Kubernetes waits by default


def new_bad_records(settings: Settings) -> BadRecords:
    """What becomes of records that cannot become rows; the sink and the staging step share it."""
    return BadRecords(settings.on_bad_record, logger.warning)


def can_read_whole_batches(settings: Settings) -> bool:
    """Whether the deserializers and the rules for bad records let messages be converted many at once.

    A bad record that is to end the process does so with what came before it in the lake, which needs each to be looked
    at by itself.
    """
    as_text = settings.key_deserializer in ("str", "string")
    return as_text and settings.value_deserializer == "json" and settings.on_bad_record != "fail"


def new_stager(
    settings: Settings,
    place: TableLocation,
    spec: PartitionSpec,
    schema: SchemaStore,
    bad_records: BadRecords,
    read_message: ReadMessage | None = None,
) -> Stager:
    """Steps 1 and 2; ``read_message`` reads single messages where the batches are to be of messages."""
    rules = Rules(spec.timestamp_column, frozenset(spec.columns), settings.column_types)
    converter = BatchConverter(
        spec=spec,
        table_root=place.root,
        schema=schema,
        rules=rules,
        metadata=settings.metadata_columns,
        bad_records=bad_records,
        whole_batches=WholeBatches(spec, rules, settings.metadata_columns, settings.memory.max_record_bytes)
        if read_message
        else None,
        read_message=read_message,
    )
    return Stager(converter, spec, settings.sort_column)


def new_sink(
    settings: Settings, bad_records: BadRecords, metrics: Metrics, special: Callable[..., LakeSink] | None = None
) -> LakeSink:
    """The sink, or the one that ``special`` makes, not connected to its pipeline yet."""
    return (special or LakeSink)(
        batch_size=settings.batch_size,
        gather_seconds=_GATHER_SECONDS,
        max_buffer_bytes=settings.memory.buffer_mb * 2**20,
        max_record_bytes=settings.memory.max_record_bytes,
        flush_seconds=FLUSH_SECONDS,
        revoke_seconds=REVOKE_SECONDS,
        stop_seconds=_STOP_SECONDS,
        bad_records=bad_records,
        metrics=metrics,
    )


def new_ownership(settings: Settings, sink: LakeSink) -> JournalOwnership | AssignmentOwnership:
    """Who may write which partition."""
    if settings.delivery_guarantee == "at-least-once":
        return AssignmentOwnership(sink.is_owner)
    return JournalOwnership(
        sink.is_owner, sink.fenced, workers=settings.max_write_workers, fresh_seconds=_FRESH_SECONDS
    )


def begin_sweeping(ownership: JournalOwnership | AssignmentOwnership) -> Sweeper | None:
    """Delete rolled-back files again from time to time; with at-least-once delivery none are known."""
    if not isinstance(ownership, JournalOwnership):
        return None
    sweeper = Sweeper(ownership, _SWEEP_SECONDS)
    sweeper.start()
    return sweeper


def new_client_id(settings: Settings, place: TableLocation) -> str:
    """What other connectors of the consumer group see of this one."""
    return client_id(settings.input_topic, place.uri)


def new_group_offsets(application: LakeApplication) -> tuple[GroupOffsets, TopicIds]:
    """What asks Kafka where partitions stand, and what remembers which topic they were claimed in."""
    positions = GroupOffsets(_quiet_consumer(application), application.admin)
    return positions, TopicIds(positions.topic_id)


def new_claims(
    settings: Settings,
    store: ObjectStore,
    place: TableLocation,
    registrar: Registrar,
    ownership: JournalOwnership | AssignmentOwnership,
    application: LakeApplication,
    sink: LakeSink,
    metrics: Metrics,
    positions: GroupOffsets,
    topic_ids: TopicIds,
) -> Claims:
    """What claims partitions for the application."""
    root, roots = place.root, object_roots(place.root)
    group = application.config.consumer_group
    objects = ThreadPoolExecutor(max_workers=settings.max_write_workers, thread_name_prefix="recovery")
    recovery = Recovery(store, registrar, frozenset(settings.stats_columns) or None, objects.map)
    keeps_journals = isinstance(ownership, JournalOwnership)
    other_tables = OtherTables(application.admin, group, new_client_id(settings, place))
    first_offsets = FirstOffsets(
        store,
        root,
        group,
        roots=roots,
        kafka=positions,
        reset=settings.auto_offset_reset,
        keeps_journals=keeps_journals,
        internal=application.internal_topics,
    )
    return Claims(
        new_journal=lambda tp, token: Journal(
            store,
            journal_key(root, group, tp),
            token,
            roots=roots,
            each=objects.map,
        ),
        ownership=ownership if isinstance(ownership, JournalOwnership) else None,
        positions=positions,
        register=recovery.register,
        is_current=sink.is_owner,
        first_offset=first_offsets.of,
        topic_ids=topic_ids,
        start_from=settings.start_from,
        keeps_state=application.begins_at_commit,
        workers=settings.max_write_workers,
        check_group=other_tables.at_assignment,
        watch=KafkaWatch(
            [lambda: topic_ids.recreated(metrics.counts().positions), other_tables.later], seconds=_WATCH_SECONDS
        ),
        metrics=metrics,
    )


def _quiet_consumer(application: LakeApplication) -> BaseConsumer:
    """A consumer that is only asked: it is never polled, and statistics would wait in its memory for that."""
    consumer = application.get_consumer(auto_commit_enable=False)
    consumer._consumer_config["statistics.interval.ms"] = 0
    return consumer


def new_application(
    settings: Settings,
    place: TableLocation,
    sink: LakeSink,
    health: Health,
    metrics: Metrics,
    scratch: Path,
    kind: type[LakeApplication] | None = None,
    **others: Any,
) -> LakeApplication:
    """The quixstreams application, not connected yet.

    Args:
        settings: the connector's settings.
        place: what the group's other members are told that is written.
        sink: where all rows go.
        health: told of each turn of the loop.
        metrics: told where partitions stand.
        scratch: a writable folder, for the state of a transform() that keeps any where the platform gives no other.
        kind: of application, where it is to be a special one.
        others: further arguments of the application, or other ones.

    Raises:
        ConfigError: the Kafka client refuses its settings, or the platform does not tell where the broker is.
    """
    arguments: dict[str, Any] = {
        "lake_sink": sink,
        "on_turn": health.turn,
        "metrics": metrics,
        "broker_address": kafka_connection(settings),
        "quix_sdk_token": settings.sdk_token.get_secret_value() if settings.sdk_token else None,
        "quix_portal_api": settings.portal_api,
        "consumer_group": settings.consumer_group,
        # Claims decide where to begin. An offset that Kafka has lost later must not be passed over without a word.
        "auto_offset_reset": "error",
        "consumer_extra_config": {
            "client.id": new_client_id(settings, place),
            "session.timeout.ms": _SESSION_MS,
            "queued.max.messages.kbytes": _FETCHED_AHEAD_KB,
            "max.partition.fetch.bytes": settings.memory.fetched_at_once_bytes,
            "topic.metadata.refresh.interval.ms": _METADATA_MS,
        },
        "commit_interval": settings.commit_interval,
        "state_dir": QUIX_ENVIRONMENT.state_dir or scratch / "state",
        "consumer_poll_timeout": 0.25,  # a signal is noticed between two polls
        "auto_create_topics": False,
        "broker_availability_timeout": 0,  # an absent broker is waited for
        "loglevel": None,  # logging is set up already
    }
    try:
        return (kind or LakeApplication)(**arguments | others)
    except Exception as error:
        raise kafka_client_refused(error) from error


def kafka_connection(settings: Settings) -> ConnectionConfig | None:
    """How to reach the broker; ``None`` leaves it to quixstreams and the platform's token."""
    if settings.broker_address is None:
        return None
    return ConnectionConfig.from_librdkafka_dict(
        {
            "bootstrap.servers": settings.broker_address,
            "security.protocol": settings.security_protocol,
            "sasl.mechanism": settings.sasl_mechanism,
            "sasl.username": settings.sasl_username,
            "sasl.password": settings.sasl_password,
            "ssl.ca.location": str(settings.ssl_ca_location) if settings.ssl_ca_location else None,
        }
    )


def kafka_client_refused(error: Exception) -> ConfigError:
    """The error for settings that the Kafka client does not take, or a platform that does not tell its broker."""
    return ConfigError(
        "setting up the Kafka client",
        str(error),
        "Check the KAFKA_ variables, or Quix__Sdk__Token and Quix__Portal__Api",
    )
