"""Defines the log of an assignment. With this document, the connector delivers each record exactly once.

An assignment is the set of topic partitions that a member of the consumer group claims together, until Kafka revokes
these partitions. The log contains the end of each partition and the batch in progress. The owner writes the log for
each batch. The next owner of any partition first closes the log.
"""

import base64
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal

from pydantic import Field, TypeAdapter, field_validator, model_validator

from app.journal.entry import JournaledFile, RolledBack, Stored, check_keys, form_of, parse
from app.json_texts import MOST_BYTES, check_json
from app.model import DataFile, Mark, OffsetRange, TopicPartition
from app.storage.document import Form
from app.table.layout import object_roots

_PLAIN = 1_000  # rolled-back objects in a plain list; a longer list is compressed, because each batch writes the log
_PACKED: Final = "revoked_packed"
_ROLLED_BACK = TypeAdapter(tuple[RolledBack, ...])


@dataclass(frozen=True, slots=True)
class Intent:
    """The objects that a batch will store."""

    batch: int  # number of the batch, unique in the assignment
    offsets: Sequence[OffsetRange]  # the first and last offsets with a record
    files: Sequence[DataFile]
    also: Mapping[str, int]  # other objects: the number of records that only this object contains, by object key
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)  # the last offsets read, even without a row


class Progress(Stored):
    """The progress in one topic partition."""

    topic: str
    partition: int
    end: int = Field(ge=-1)  # the last offset that is in the table or gives no row
    first: int | None = None  # the first offset of a record in the pending batch; ``None`` without a record
    to: int | None = None  # the last offset read when the pending or kept batch ended; ``None`` without an offset
    topic_id: str = ""  # id of the topic; ``topic_id`` and ``cluster_id`` are empty if the broker reports none
    cluster_id: str = ""
    followed: list[str] = Field(default_factory=list)  # the last values of ``FOLLOW_OFFSETS``; older logs have a string
    series: str = ""  # a random name that changes if an owner does not begin at the end of the former owner

    @field_validator("followed", mode="before")
    @classmethod
    def _to_list(cls, value: object) -> object:
        return [text for text in [value] if text] if isinstance(value, str) else value

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def batch_offsets(self) -> range:
        """The partition's offsets in the pending batch. If the batch ends at or before ``end``, the range is empty."""
        if self.first is None or self.to is None or self.to <= self.end:
            return range(0)
        return range(self.first, self.to + 1)

    def changed(self, **values: object) -> "Progress":
        return self.model_copy(update=values)

    def moved(self, **values: object) -> "Progress":
        """Return the progress after the batch is in the lake. Without offsets in the batch, nothing changes."""
        return self if self.to is None else self.changed(end=max(self.end, self.to), first=None, **values)


class AssignmentLog(Stored):
    """One version of a log.

    ``done``: the lake contains all records up to each ``end``. ``pending``: objects of ``files`` and ``also`` may be
    uploaded. ``kept``: ``files`` belong to the table, but may not be registered yet. Each ``end`` includes them.

    Objects of ``also`` are rolled back with the batch, and are never registered. They are uploaded before the last data
    file. Therefore the data files show whether the batch is complete, even if a user has deleted the other objects.
    """

    version: Literal[1] = 1
    seq: int = Field(ge=1)  # number of the version; therefore two versions never have equal bytes or the same ETag
    owner: str  # token of the assignment
    writer: str  # token of the assignment that wrote this version
    closed: bool = False  # if true, the owner may not write any more
    state: Literal["done", "pending", "kept"] = "done"
    batch: int = 0  # number of the batch in the assignment of the owner
    partitions: tuple[Progress, ...] = ()
    files: tuple[JournaledFile, ...] = ()  # for a kept batch, only files that existed
    also: dict[str, int] = Field(default_factory=dict)  # see ``Intent``
    revoked: tuple[RolledBack, ...] = ()  # objects, including former assignments', that never belong to the table

    @model_validator(mode="after")
    def _only_unfinished_has_files(self) -> "AssignmentLog":
        if self.state == "done" and (self.files or self.also):
            raise ValueError("a log that is done has files")
        if self.state == "done" and any(each.to is not None for each in self.partitions):
            raise ValueError("a log that is done has the ends of a batch")
        return self

    @property
    def deciding(self) -> tuple[str, ...]:
        """The objects that show whether a pending batch is complete. One of these objects is uploaded last."""
        return tuple(file.key for file in self.files) or tuple(self.also)

    @property
    def objects(self) -> tuple[str, ...]:
        return (*(file.key for file in self.files), *self.also)

    @property
    def in_batch(self) -> tuple[Progress, ...]:
        """The partitions with offsets in the pending batch."""
        return tuple(each for each in self.partitions if each.batch_offsets)

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The end offsets that the batch's partitions will have when the batch is in the lake.

        Other partitions are left out. If they advanced without a file, no catalog knows their ends.
        """
        return tuple(
            Mark(each.tp, each.series, max(each.end, each.to)) for each in self.partitions if each.to is not None
        )

    def of(self, tp: TopicPartition) -> Progress | None:
        return next((each for each in self.partitions if each.tp == tp), None)

    def pending(self, intent: Intent) -> "AssignmentLog":
        """Return the next version, with this batch in progress. This version also means that the last batch is done."""
        partitions = self._moved()
        for offsets in intent.offsets:
            tp, end = offsets.tp, partitions[offsets.tp].end
            partitions[tp] = partitions[tp].changed(first=max(end + 1, offsets.first), to=max(end, offsets.last))
        for tp, last in intent.ends.items():
            progress = partitions[tp]
            partitions[tp] = progress.changed(to=max(progress.end if progress.to is None else progress.to, last))
        return self.changed(
            batch=intent.batch,
            state="pending",
            partitions=tuple(partitions.values()),
            files=tuple(intent.files),
            also=dict(intent.also),
        )

    def kept(self, files: Iterable[DataFile], lost: Iterable[RolledBack] = ()) -> "AssignmentLog":
        """Return the next version: ``files`` of the pending batch belong to the table, ``lost`` objects do not."""
        return self.changed(
            state="kept",
            partitions=tuple(each.moved() for each in self.partitions),
            files=tuple(files),
            also={},
            revoked=(*self.revoked, *lost),
        )

    def done(self, ends: Mapping[TopicPartition, int] | None = None) -> "AssignmentLog":
        """Return the next version: all rows of the batch, and all rows up to these offsets, are in the lake."""
        ends = ends or {}
        moved = (each.changed(end=max(each.end, ends.get(tp, -1))) for tp, each in self._moved().items())
        return self.changed(state="done", partitions=tuple(moved), files=(), also={})

    def rolled_back(self, since: int) -> "AssignmentLog":
        """Return the next version: the pending batch is rolled back, and its records are redelivered."""
        return self.changed(
            state="done",
            partitions=tuple(each.changed(first=None, to=None) for each in self.partitions),
            files=(),
            also={},
            revoked=(*self.revoked, *(RolledBack(key=key, since=since) for key in self.objects)),
        )

    def changed(self, **values: object) -> "AssignmentLog":
        """Return the next version with these changed values."""
        return AssignmentLog.model_validate({**dict(self), "seq": self.seq + 1, **values})

    def to_body(self) -> bytes:
        if len(self.revoked) <= _PLAIN:
            return self.model_dump_json().encode()
        packed = base64.b64encode(zlib.compress(_ROLLED_BACK.dump_json(self.revoked), level=1)).decode()
        return json.dumps({**json.loads(self.model_dump_json(exclude={"revoked"})), _PACKED: packed}).encode()

    def _moved(self) -> dict[TopicPartition, Progress]:
        """Return the progress of all partitions after the batch is in the lake."""
        return {each.tp: each.moved(to=None) for each in self.partitions}


def log_form(table_root: str) -> Form[AssignmentLog]:
    """Return the format of this table's logs. The format refuses a log that lists objects of another table."""
    form = form_of(AssignmentLog)
    return replace(form, parse=partial(_parse, roots=object_roots(table_root)), body=AssignmentLog.to_body)


def _parse(body: bytes, roots: tuple[str, ...]) -> AssignmentLog:
    log = parse(AssignmentLog, _unpack(body))
    check_keys((*log.objects, *(item.key for item in log.revoked)), roots)
    return log


def _unpack(body: bytes) -> bytes:
    if f'"{_PACKED}"'.encode() not in body:
        return body
    fields = json.loads(body)
    if not isinstance(fields, dict) or _PACKED not in fields:  # it is a topic, or a value of a partition column
        return body
    try:
        packed = base64.b64decode(fields.pop(_PACKED), validate=True)
        fields["revoked"] = json.loads(check_json(zlib.decompressobj().decompress(packed, MOST_BYTES + 1)))
    except (ValueError, TypeError, KeyError, AttributeError, zlib.error) as error:
        raise ValueError(f"{_PACKED}: {error}") from None
    return json.dumps(fields).encode()
