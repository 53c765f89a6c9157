"""A store and a catalog in memory that watch what is done to them."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pyarrow.parquet as pq

from app.errors import FatalError, RetryableError
from app.journal.entry import claim_key, is_log, log_key
from app.journal.journal import CLAIM, PartitionClaim
from app.journal.log import AssignmentLog, Progress, log_form
from app.model import DataFile, Mark, TopicPartition
from app.parts.iceberg.table_metadata import are_in, properties_of
from app.storage.base import ChangedError, Content, StoredObject
from app.storage.conditional import ConditionalWriter, Replaces, Seen, Version
from app.table.existing_table import CatalogTable
from app.table.layout import PartitionSpec
from tests.faults.lanes import Network

URI = "s3://lake"
GROUP = "group"
STORED_AT = datetime(2024, 1, 1, tzinfo=UTC)
_GROUP_FOLDER = "_journal"  # beside the tables, with the objects of several topics together
PLACEHOLDER = "placeholder"  # in place of an ETag
_T = TypeVar("_T")
RowId = tuple[str, int, int, int]  # topic, partition, offset, and which of its rows


def root_of(topic: str) -> str:
    """The folder of the table of a topic."""
    return f"data/{topic}"


def topic_of(key: str) -> str:
    """The table whose folder, dead letter or journal has the object: it is named as a topic."""
    return key.removeprefix("data/").removeprefix("_dead_letter/").partition("/")[0]


@dataclass(frozen=True)
class _Object:
    body: bytes
    etag: str


def _version(etag: str) -> Version:
    return Version(etag, STORED_AT)


class MemoryStore:
    """What ``ObjectStore`` promises, over a network that fails; ``violations`` are told what must not happen."""

    uri = URI

    def __init__(self, network: Network, violations: list[str]) -> None:
        self._network = network
        self.violations = violations
        self._writer: ConditionalWriter[bytes] = ConditionalWriter(URI, self._put, self._look)
        self._files: ConditionalWriter[bytes] = ConditionalWriter(URI, self._put_file, self._look)
        self.refuses_overwrites = True
        self.objects: dict[str, _Object] = {}
        self.rows: dict[str, list[RowId]] = {}  # of every Parquet file that ever was
        self.bodies: dict[str, bytes] = {}
        self.logs: dict[str, AssignmentLog] = {}  # by key
        self.claims: dict[str, PartitionClaim] = {}
        self.revoked: set[str] = set()  # keys of all batches that were ever rolled back
        self.registered: dict[str, DataFile] = {}
        self.wanted_again: Counter[RowId] = Counter()
        self.on_time: Callable[[str, bytes], None] = lambda *_: None  # key and body of an object of first offsets
        self.table_of: Callable[[str], str] = lambda topic: topic

    # --- as the connector sees it -----------------------------------------------------------------------------------

    def connect(self, prefix: str) -> None:
        """It is there."""

    def upload(self, path: Path, key: str) -> StoredObject:
        body = path.read_bytes()
        if key not in self.rows:
            self.rows[key] = _rows_in(path)
            self._check_topics(key, {row[0] for row in self.rows[key]})
        self._files.create(key, body)
        return self._stored(key, len(body))

    def overwrite(self, key: str, body: bytes) -> None:
        self._request(f"fill {key}", lambda: self._fill(key, body))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        found = self._request(
            f"list {prefix}",
            lambda: [(key, len(self.objects[key].body)) for key in sorted(self.objects) if key.startswith(prefix)],
            changes=False,
        )
        return iter([self._stored(key, size) for key, size in found])

    def find(self, key: str) -> StoredObject | None:
        return next((found for found in self.list(key) if found.key == key), None)

    def read(self, key: str) -> Content | None:
        found = self._request(f"read {key}", lambda: self.objects.get(key), changes=False)
        return Content(found.body, found.etag) if found else None

    def read_range(self, key: str, start: int, length: int) -> bytes:
        return self._request(f"read {key}", lambda: self.objects[key].body[start : start + length], changes=False)

    def write(self, key: str, body: bytes, *, replaces: str | None) -> str:
        return self._writer.write(key, body, replaces).etag

    def probe_conditions(self, prefix: str) -> None:
        """It knows them."""

    def download(self, key: str, path: Path) -> str:
        found = self._request(f"read {key}", lambda: self.objects[key], changes=False)
        path.write_bytes(found.body)
        return found.etag

    def replace(self, path: Path, key: str, *, replaces: str) -> StoredObject:
        body = path.read_bytes()
        self._writer.write(key, body, replaces)
        return self._stored(key, len(body))

    def delete(self, key: str) -> None:
        self._request(f"delete {key}", lambda: self._remove(key))

    # --- inside -----------------------------------------------------------------------------------------------------

    def _request(self, name: str, carry_out: Callable[[], _T], *, changes: bool = True) -> _T:
        return self._network.request(
            name,
            carry_out,
            failed=lambda cause: RetryableError(name, cause),
            forbidden=lambda cause: FatalError(name, cause),
            changes=changes,
        )

    def _put(self, key: str, body: bytes, replaces: Replaces) -> Version:
        return _version(self._request(f"write {key}", lambda: self._store_document(key, body, replaces)))

    def _put_file(self, key: str, body: bytes, replaces: Replaces) -> Version:
        return _version(self._request(f"upload {key}", lambda: self._store_file(key, body)))

    def _look(self, key: str, body: bytes) -> Seen | None:
        found = self._request(f"read back {key}", lambda: self.objects.get(key), changes=False)
        return Seen(_version(found.etag), found.body == body) if found else None

    def _store_document(self, key: str, body: bytes, replaces: Replaces) -> str:
        present = self.objects.get(key)
        if (present.etag if present else None) != replaces:
            raise ChangedError(key)
        self.objects[key] = _Object(body, hashlib.md5(body).hexdigest())  # noqa: S324 - as S3 does
        if is_log(key):
            log = log_form(root_of(topic_of(key))).parse(body)
            self._check_topics(key, {each.topic for each in log.partitions})
            self._check_sequence(key, self.logs.get(key), log)
            if key in self.logs and self.logs[key].closed and not log.closed:
                self.violations.append(f"{key} was opened again")
            self.logs[key] = log
            self.revoked |= {item.key for item in log.revoked}
        elif not key.endswith(".json"):
            self.on_time(key, body)
        elif topic_of(key) != _GROUP_FOLDER:
            claim = CLAIM.parse(body)
            assert isinstance(claim, PartitionClaim)
            self._check_topics(key, {key.split("/")[-2]})
            self._check_sequence(key, self.claims.get(key), claim)
            self.claims[key] = claim
        return self.objects[key].etag

    def _check_sequence(
        self, key: str, before: AssignmentLog | PartitionClaim | None, now: AssignmentLog | PartitionClaim
    ) -> None:
        if now.seq != (before.seq if before else 0) + 1:
            self.violations.append(f"{key} was replaced by {now}, which does not follow on {before}")

    def _check_topics(self, key: str, topics: set[str]) -> None:
        if {*map(self.table_of, topics)} - {topic_of(key)}:
            self.violations.append(f"{key} has something of {topics}")

    def _store_file(self, key: str, body: bytes) -> str:
        if key in self.objects:
            raise ChangedError(key)
        if self.bodies.setdefault(key, body) != body:
            self.violations.append(f"{key} changed after its upload")
        self.objects[key] = _Object(body, "")
        return ""

    def _fill(self, key: str, body: bytes) -> None:
        if key in self.registered:
            self.violations.append(f"{key} is registered and was replaced by a placeholder")
        self.objects[key] = _Object(body, PLACEHOLDER)

    def _remove(self, key: str) -> None:
        if key in self.registered:
            self.violations.append(f"{key} is registered and was deleted")
        self.objects.pop(key, None)

    def _stored(self, key: str, size: int) -> StoredObject:
        return StoredObject(key, size, STORED_AT)

    # --- as the test sees it ----------------------------------------------------------------------------------------

    def log_of(self, topic: str, token: str) -> AssignmentLog | None:
        return self.logs.get(log_key(root_of(topic), GROUP, token))

    def progress(self, tp: TopicPartition) -> Progress | None:
        log = self._log_with(tp)
        return log.of(tp) if log else None

    def _log_with(self, tp: TopicPartition) -> AssignmentLog | None:
        table = self.table_of(tp.topic)
        claim = self.claims.get(claim_key(root_of(table), GROUP, tp))
        return self.log_of(table, claim.owner) if claim else None

    @property
    def data_files(self) -> set[str]:
        return {key for key in self._with_rows - self.dead_letters if key.endswith(".parquet")}

    @property
    def dead_letters(self) -> set[str]:
        return {key for key in self._with_rows if key.startswith("data/_dead_letter/")}

    @property
    def placeholders(self) -> set[str]:
        return self.objects.keys() - self._with_rows

    @property
    def _with_rows(self) -> set[str]:
        return {key for key, found in self.objects.items() if found.etag != PLACEHOLDER}

    def found_end(self, tp: TopicPartition) -> int:
        """The last offset that is in the table once the next owner has settled the log, if nobody writes any more."""
        log = self._log_with(tp)
        progress = log.of(tp) if log else None
        if log is None or progress is None:
            return -1
        is_there = log.state == "pending" and set(log.deciding) <= self._with_rows
        return max(progress.end, -1 if progress.to is None else progress.to) if is_there else progress.end

    def rows_of(self, keys: set[str]) -> Counter[RowId]:
        return Counter(row for key in keys for row in self.rows[key])


class WatchfulCatalog:
    """A catalog of one table that holds against the store what it is told, and is one of Iceberg at the same time."""

    def __init__(self, network: Network, store: MemoryStore, topic: str) -> None:
        self._network = network
        self._store = store
        self._violations = store.violations
        self._topic = topic
        self._known = CatalogTable(f"{URI}/{root_of(topic)}", ("p",))
        self._holders: dict[RowId, set[str]] = {}
        self._committed: set[str] = set()
        self._asked = 0
        self._properties: dict[str, str] = {}

    def check(self) -> CatalogTable | None:
        return self._known

    def table(self) -> CatalogTable | None:
        return self._known

    def create_table(self, location: str, wanted: PartitionSpec) -> CatalogTable:
        raise AssertionError("the table is known")

    def sync_properties(self, table: CatalogTable, wanted: PartitionSpec) -> None:
        """It has all of them."""

    def add_source(self, topic: str) -> None:
        """It counts no sources."""

    def portions(self, files: Sequence[DataFile]) -> Iterator[Sequence[DataFile]]:
        if files:
            yield files

    def close(self, seconds: float) -> None:
        pass

    def has(self, marks: Sequence[Mark]) -> bool:
        """It knows every other time, as catalogs of both kinds."""
        self._asked += 1
        return bool(self._asked % 2) and are_in(self._properties, "group", marks)

    def add_files(self, files: Sequence[DataFile], topic: str | None, marks: Sequence[Mark] = ()) -> None:
        name = f"register {len(files)} files"
        self._network.request(
            name,
            lambda: self._add(files, marks),
            failed=lambda cause: RetryableError(name, cause),
            forbidden=lambda cause: FatalError(name, cause),
            changes=True,
        )

    def _add(self, files: Sequence[DataFile], marks: Sequence[Mark]) -> None:
        self._commit(files, marks)
        for file in files:
            if topic_of(file.key) != self._topic:
                self._violations.append(f"{file.key} is registered in the table of {self._topic}")
            if file.key not in self._store.objects:
                self._violations.append(f"{file.key} is registered and not in the store")
            if file.key in self._store.revoked:
                self._violations.append(f"{file.key} is registered and was rolled back")
            for row in self._store.rows[file.key]:
                self._holders.setdefault(row, set()).add(file.key)
                if len(self._holders[row]) > 1 + self._store.wanted_again[row]:
                    self._violations.append(f"{row} is registered too often: {self._holders[row]}")
            former = self._store.registered.setdefault(file.key, file)
            if (former.size, former.rows, former.partition_values) != (file.size, file.rows, file.partition_values):
                self._violations.append(f"{file.key} is registered again as another file")

    def _commit(self, files: Sequence[DataFile], marks: Sequence[Mark]) -> None:
        """As a table of Iceberg does, which does not know files by their paths."""
        keys = {file.key for file in files}
        if are_in(self._properties, "group", marks):
            if not keys <= self._committed:
                self._violations.append(f"{keys - self._committed} are left out, and the table does not have them")
            return
        if keys & self._committed:
            self._violations.append(f"{keys & self._committed} are committed twice")
        self._committed |= keys
        self._properties |= properties_of(self._properties, "group", marks)


def _rows_in(path: Path) -> list[RowId]:
    table = pq.read_table(path)
    if "reason" in table.column_names:
        columns = (*(table.column(name).to_pylist() for name in ("topic", "partition", "offset")), [0] * len(table))
    else:
        columns = tuple(table.column(name).to_pylist() for name in ("__topic", "__partition", "__offset", "v"))
    return list(zip(*columns, strict=True))
