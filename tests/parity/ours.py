"""The connector's own way from the sink to the catalog; quixstreams alone is not there."""

import logging
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from quixstreams.models import MessageContext

from app.bad_records.refusals import BadRecords
from app.config.settings import Settings
from app.consumer.framework.current import CurrentMessage, Due
from app.consumer.framework.flushing import Flushing
from app.consumer.framework.sink import RowSink
from app.consumer.sink_observer import Observed
from app.delivery.claimer import Group
from app.delivery.member import Member
from app.delivery.pipeline import Writer
from app.delivery.runtime import Buffer, Runtime
from app.kafka.questions import GroupOffsets, PartitionOffsets
from app.kafka.watch import KafkaWatch, TopicIds
from app.model import TopicPartition
from app.monitoring.metrics import Metrics
from app.service.formats import new_batch_limits, new_stager
from app.service.lake import new_catalog, new_lake, new_location
from app.storage.local.store import LocalStore
from app.timings import DEFAULT
from tests.fakes.catalog_server import CatalogServer
from tests.parity.case import BUCKET, PREFIX, TABLE, TOPIC, Case, Record
from tests.parity.lake import Lake, Outcome
from tests.support.environment import load


class _Folder(LocalStore):
    """A folder whose addresses look like a bucket's, as the dependency's sink writes them for any store."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.uri = f"s3://{BUCKET}"


class _NothingCommitted(GroupOffsets):
    """Each partition begins with its first record, and the topics are always the same."""

    def __init__(self) -> None:
        """Asks no broker."""

    def of(self, tp: TopicPartition) -> PartitionOffsets:
        return PartitionOffsets(committed=None, low=0, high=sys.maxsize, topic_id="")

    def topic_id(self, topic: str) -> str:
        return ""

    def cluster_id(self) -> str:
        return ""


class Ours:
    """Writes the batches of a case into ``folder``, set up by variables as a user would."""

    def __init__(self, case: Case, folder: Path, scratch: Path, catalog: CatalogServer, writer: Writer) -> None:
        self._lake = Lake(folder, catalog)
        settings = _settings(case, folder, catalog)
        bad_records = BadRecords(settings.on_bad_record, logging.warning)
        store = _Folder(folder)
        catalog_client = new_catalog(settings, store)
        known = catalog_client.check() if catalog_client else None
        place = new_location(settings, store, known)
        store.connect(f"{place.root}/")
        self._lake.news()  # what is there already is not ours
        lake = new_lake(settings, store, place, known, catalog_client)
        lake.schema.open()
        scratch.mkdir(exist_ok=True)
        limits = new_batch_limits(settings, DEFAULT, scratch)
        offsets = _NothingCommitted()
        group = Group(settings.consumer_group, offsets, TopicIds(offsets.topic_id), KafkaWatch())
        runtime = Runtime(scratch, Metrics(), workers=2)
        stager = new_stager(settings, lake, bad_records)
        self._member = member = Member(store, lake.registrar, stager, Buffer(limits), writer, group, runtime)
        member.start()
        self._sink = RowSink(
            member,
            Flushing(member, lambda **_: None),
            bad_records,
            CurrentMessage(limits.max_record_bytes),
            Due(5.0, DEFAULT),
            Observed(),
        )
        self._sink.setup()

    def write(self, batch: Sequence[Record]) -> Outcome:
        for record in batch:
            self._add(record)
        self._sink.flush()
        return self._lake.news()

    def close(self) -> None:
        """Let the threads end, which nothing has to wait for: they are idle after a flush, but for one."""
        threading.Thread(target=self._member.stop, daemon=True).start()

    def _add(self, record: Record) -> None:
        self._sink.begin_record(MessageContext(TOPIC, record.partition, record.number, 9), record.timestamp)
        self._sink.add(record.value, record.key, record.timestamp, [], TOPIC, record.partition, record.number)
        self._sink.message_processed(TopicPartition(TOPIC, record.partition), record.number)


def _settings(case: Case, folder: Path, catalog: CatalogServer) -> Settings:
    return load(
        {},
        input=TOPIC,
        KAFKA_BOOTSTRAP_SERVERS="localhost:9092",
        STORAGE_URL=folder.as_uri(),
        S3_PREFIX=PREFIX,
        TABLE_NAME=TABLE,
        HIVE_COLUMNS=case.hive_columns,
        TIMESTAMP_COLUMN=case.timestamp_column,
        SORT_COLUMN=case.sort_column,
        STATS_COLUMNS=case.stats_columns,
        AUTO_DISCOVER=str(case.auto_discover).lower(),
        CATALOG_URL=catalog.url,
        CATALOG_AUTH_TOKEN=catalog.token,
    )
