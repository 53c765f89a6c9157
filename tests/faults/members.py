"""Members of a consumer group that write a table, and the table as it is found afterwards.

All is real, claims, journals, pipeline, S3 and HTTP, but for Kafka, which is a list of rows here, and for Spark.
"""

import io
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pyarrow.parquet as pq

from app.catalog.registrar import Registrar
from app.delivery.assignment import Assignment, Piece
from app.delivery.claimer import Group
from app.delivery.member import Member as ConnectorMember
from app.delivery.runtime import Buffer, Runtime
from app.journal.entry import claim_key, group_folder, log_key
from app.kafka.questions import GroupOffsets, PartitionOffsets
from app.kafka.watch import KafkaWatch, TopicIds
from app.model import TopicPartition
from app.monitoring.metrics import Metrics
from app.parts.http.rest_client import Patience
from app.parts.quix.catalog import QuixCatalog
from app.parts.quix.catalog_address import QuixTarget
from app.storage.base import ObjectStore
from app.table.existing_table import TableLocation
from app.table.layout import dead_letter_root, is_data_file
from app.timings import Timings
from tests.fakes.arrow_writer import ArrowWriter
from tests.faults.site import Site
from tests.support.batches import UNBOUNDED, row, spec, stager
from tests.support.waiting import PATIENCE, TookTooLong, wait_until

TOPIC = "sensors"
GROUP = "readers"
PARTITIONS = tuple(TopicPartition(TOPIC, number) for number in range(2))
PLACES = ("a", "b")  # the table's folders; each batch has one row for each of them
BATCHES = 3
LAST = BATCHES * len(PLACES) - 1  # offset of the last row of each partition
_HURRY = Timings(first_retry_seconds=0.01, longest_retry_seconds=0.05)  # it tries again as ever, only sooner
NEVER = Patience(PATIENCE, PATIENCE, PATIENCE)  # a request that is held in the catalog is given up


class FencedOff(Exception):  # noqa: N818 - what is expected of some members
    """A member was told that another one writes its partition."""


@dataclass(frozen=True)
class Table:
    """A table of the site's bucket and catalog, looked at past the proxies."""

    site: Site
    name: str = field(default_factory=lambda: f"t{secrets.token_hex(6)}")

    @property
    def root(self) -> str:
        return f"data/{self.name}"

    @property
    def keys(self) -> list[str]:
        """All objects of the table and its dead letter; a test has less than a page of them."""
        return [
            item["Key"]
            for prefix in (f"{self.root}/", f"{dead_letter_root(self.root)}/")
            for item in self.site.client.list_objects_v2(Bucket=self.site.bucket, Prefix=prefix).get("Contents", [])
        ]

    def log(self, tp: TopicPartition) -> Mapping[str, Any]:
        claim = json.loads(self._body(claim_key(self.root, GROUP, tp)))
        return dict(json.loads(self._body(log_key(self.root, GROUP, claim["owner"]))))

    def assert_whole(self) -> None:
        """Every row is there once, in its folder; catalog, store and journals agree; and nothing else lies about."""
        keys = self.keys
        found = {key: _values_in(self._body(key)) for key in keys if is_data_file(key, self.root)}
        files = {key: values for key, values in found.items() if values}
        rows = [(_place_of(key), value) for key, values in files.items() for value in values]
        offsets = [(tp, offset) for tp in PARTITIONS for offset in range(LAST + 1)]
        assert sorted(rows) == sorted((PLACES[offset % len(PLACES)], value_of(tp, offset)) for tp, offset in offsets)
        registered = [(file["file_path"], file["row_count"]) for file in self.site.catalog.files(self.name)]
        assert sorted(registered) == [
            (f"s3://{self.site.bucket}/{key}", len(values)) for key, values in sorted(files.items())
        ]
        logs = {tp: self.log(tp) for tp in PARTITIONS}
        journals = {key for key in keys if key.startswith(group_folder(self.root, GROUP))}
        placeholders = {item["key"] for log in logs.values() for item in log["revoked"]}
        assert set(keys) - set(files) - placeholders == journals, "an orphan"
        for tp, log in logs.items():
            ends = {(each["topic"], each["partition"]): each["end"] for each in log["partitions"]}
            assert (log["state"], ends[tp]) == ("done", LAST)

    def _body(self, key: str) -> bytes:
        return self.site.client.get_object(Bucket=self.site.bucket, Key=key)["Body"].read()


def _place_of(key: str) -> str:
    return key.rpartition("/")[0].rpartition("p=")[2]


def _values_in(body: bytes) -> list[str]:
    table = pq.read_table(io.BytesIO(body))
    return [str(value) for value in table.column("v").to_pylist()] if len(table) else []


def value_of(tp: TopicPartition, offset: int) -> str:
    return f"{tp.partition}:{offset}"


class Member:
    """One life of the connector, gone after the block; ``workers`` is how many requests it makes at the same time."""

    def __init__(
        self,
        table: Table,
        scratch: Path,
        *,
        store: ObjectStore | None = None,
        partitions: Sequence[TopicPartition] = PARTITIONS,
        workers: int = 4,
    ) -> None:
        store = store or table.site.store
        self._partitions = partitions
        catalog_server = table.site.catalog
        catalog = QuixCatalog(QuixTarget(table.site.to_catalog.url, catalog_server.token, "default", table.name), NEVER)
        registrar = Registrar(catalog, TableLocation(store.uri, table.root), spec("p"), TOPIC, None)
        folder = scratch / secrets.token_hex(4)
        folder.mkdir()
        offsets = _Topic()
        self._member = ConnectorMember(
            store,
            registrar,
            stager(spec("p"), "fail", table_root=table.root),
            Buffer(UNBOUNDED),
            ArrowWriter(),
            Group(GROUP, offsets, TopicIds(offsets.topic_id), KafkaWatch()),
            Runtime(folder, Metrics(timings=_HURRY), _HURRY, workers),
        )
        self._member.pipeline.start()
        self.starts: dict[TopicPartition, int] = {}

    @property
    def _assignment(self) -> Assignment:
        assert self._member.assignment is not None
        return self._member.assignment

    def claim(self) -> None:
        self._member.begin(self._partitions)
        wait_until(self._has_claimed, "the claims", pause=0.002)

    def _has_claimed(self) -> bool:
        self.starts |= {claim.tp: claim.start.offset for claim in self._assignment.new_claims()}
        self._raise_if_fenced()
        return len(self.starts) == len(self._partitions)

    def _raise_if_fenced(self) -> None:
        if self._assignment.fenced:
            raise FencedOff(*self._assignment.fenced.values())

    def write(self, batches: int = BATCHES) -> None:
        """Write what is left, in up to so many batches, each delivered before the next."""
        nexts = dict(self.starts)
        for number in range(1, batches + 1):
            rows = {tp: rows_of(tp, first) for tp, first in nexts.items() if first <= LAST}
            if not rows:
                return
            self._assignment.take([Piece(tp, some[-1].offset, rows=some) for tp, some in rows.items()], 100)
            self._assignment.end_batch("test")
            flow = self._member.flow
            delivered = flow.wait_delivered(self._assignment, PATIENCE)
            flow.raise_failure()
            self._raise_if_fenced()
            if not delivered:
                raise TookTooLong(f"batch {number} is not delivered: {flow.obstacle}")
            nexts = {tp: some[-1].offset + 1 for tp, some in rows.items()}

    def live(self) -> None:
        self.claim()
        self.write()

    def die(self) -> None:
        """Do nothing more; what is on its way stays there."""
        self._member.pipeline.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.die()


def rows_of(tp: TopicPartition, first: int) -> list[Any]:
    return [row({"p": place, "v": value_of(tp, first + index)}, first + index) for index, place in enumerate(PLACES)]


class _Topic(GroupOffsets):
    """Nothing committed: the journal alone says where to go on."""

    def __init__(self) -> None:
        """Ask nobody."""

    def of(self, tp: TopicPartition) -> PartitionOffsets:
        return PartitionOffsets(committed=None, low=0, high=LAST + 1, topic_id=f"{tp.topic}-1")

    def topic_id(self, topic: str) -> str:
        return f"{topic}-1"

    def cluster_id(self) -> str:
        return "cluster"


def recover(table: Table, scratch: Path) -> set[int]:
    """Let another member write what is left, with all well, and look at the table; the offsets where it went on."""
    table.site.clear()
    with Member(table, scratch) as member:
        member.live()
    table.assert_whole()
    return set(member.starts.values())
