"""Defines the log of an assignment: the document that makes delivery exactly once.

An assignment is the topic-partitions that one member of the consumer group claims together, until they are taken from
it. Its log says how far each of them is written, and which batch is on its way. Its owner writes it for each batch. The
next owner of any of the partitions closes it first.
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

_PLAIN = 1_000  # rolled-back objects; a longer list is compressed, because each batch writes the log
_PACKED: Final = "revoked_packed"
_ROLLED_BACK = TypeAdapter(tuple[RolledBack, ...])


@dataclass(frozen=True, slots=True)
class Intent:
    """Lists the objects that a batch will store."""

    batch: int  # its number, which no other batch of the assignment has
    offsets: Sequence[OffsetRange]  # the first and last with a record
    files: Sequence[DataFile]
    also: Mapping[str, int]  # other objects; by key the number of records that no other object has
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)  # the last that was read, also without a row


class Progress(Stored):
    """How far one topic-partition is written."""

    topic: str
    partition: int
    end: int = Field(ge=-1)  # the last offset that is in the table or gives no row
    first: int | None = None  # the first offset with a record in the pending batch, if that has one
    to: int | None = None  # the last offset that was read when the pending or kept batch was sealed, if that has one
    topic_id: str = ""  # of these offsets; empty if the broker does not give it, as the next one
    cluster_id: str = ""
    followed: list[str] = Field(default_factory=list)  # the last texts of ``FOLLOW_OFFSETS``; one was a string before
    series: str = ""  # a random name, kept as long as each owner begins where the one before has ended

    @field_validator("followed", mode="before")
    @classmethod
    def _one_alone(cls, value: object) -> object:
        return [text for text in [value] if text] if isinstance(value, str) else value

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def batch_offsets(self) -> range:
        """Its offsets in the pending batch; none if that has late records of it alone."""
        if self.first is None or self.to is None or self.to <= self.end:
            return range(0)
        return range(self.first, self.to + 1)

    def changed(self, **values: object) -> "Progress":
        return self.model_copy(update=values)

    def moved(self, **values: object) -> "Progress":
        """With the batch in the lake, if that has some of its offsets."""
        return self if self.to is None else self.changed(end=max(self.end, self.to), first=None, **values)


class AssignmentLog(Stored):
    """One version of the document.

    ``done``: everything up to each ``end`` is in the lake. ``pending``: ``files`` and ``also`` may be uploaded or not.
    ``kept``: ``files`` belong to the table, and may not be registered yet; each ``end`` counts them.

    The objects ``also`` are rolled back with the batch and never registered. They are uploaded before the last data
    file. So the data files alone show whether the batch is complete, even if a user has deleted the others.
    """

    version: Literal[1] = 1
    seq: int = Field(ge=1)  # counts the versions: no two are equal byte for byte, or have one ETag
    owner: str  # token of the assignment
    writer: str  # token of the assignment that wrote this version
    closed: bool = False  # the owner may not write any more
    state: Literal["done", "pending", "kept"] = "done"
    batch: int = 0  # number of the owner's batch
    partitions: tuple[Progress, ...] = ()
    files: tuple[JournaledFile, ...] = ()  # of a kept batch those that existed
    also: dict[str, int] = Field(default_factory=dict)  # as of ``Intent``
    revoked: tuple[RolledBack, ...] = ()  # never belong to the table; of former assignments too

    @model_validator(mode="after")
    def _only_unfinished_has_files(self) -> "AssignmentLog":
        if self.state == "done" and (self.files or self.also):
            raise ValueError("a log that is done has files")
        if self.state == "done" and any(each.to is not None for each in self.partitions):
            raise ValueError("a log that is done has the ends of a batch")
        return self

    @property
    def deciding(self) -> tuple[str, ...]:
        """The objects of a pending batch that show whether it is complete: the last ones to be uploaded."""
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
        """How far the partitions of the batch are once it is in the lake.

        Without the others: they may have advanced since without a file, so that no catalog knows of it.
        """
        return tuple(
            Mark(each.tp, each.series, max(each.end, each.to)) for each in self.partitions if each.to is not None
        )

    def of(self, tp: TopicPartition) -> Progress | None:
        return next((each for each in self.partitions if each.tp == tp), None)

    def pending(self, intent: Intent) -> "AssignmentLog":
        """The next version, in which this batch is on its way. It implies that the one before is in the lake."""
        partitions = self._moved()
        for each in intent.offsets:
            end = partitions[each.tp].end
            partitions[each.tp] = partitions[each.tp].changed(first=max(end + 1, each.first), to=max(end, each.last))
        for tp, last in intent.ends.items():
            before = partitions[tp]
            partitions[tp] = before.changed(to=max(before.end if before.to is None else before.to, last))
        return self.changed(
            batch=intent.batch,
            state="pending",
            partitions=tuple(partitions.values()),
            files=tuple(intent.files),
            also=dict(intent.also),
        )

    def kept(self, files: Iterable[DataFile], lost: Iterable[RolledBack] = ()) -> "AssignmentLog":
        """The next version, in which these files of the pending batch belong to the table, and ``lost`` ones never."""
        return self.changed(
            state="kept",
            partitions=tuple(each.moved() for each in self.partitions),
            files=tuple(files),
            also={},
            revoked=(*self.revoked, *lost),
        )

    def done(self, ends: Mapping[TopicPartition, int] | None = None) -> "AssignmentLog":
        """The next version, in which the batch is in the lake and registered, and all rows up to these offsets are."""
        reached = ends or {}
        moved = (each.changed(end=max(each.end, reached.get(tp, -1))) for tp, each in self._moved().items())
        return self.changed(state="done", partitions=tuple(moved), files=(), also={})

    def rolled_back(self, since: int) -> "AssignmentLog":
        """The next version, in which the pending batch is rolled back: its rows come again."""
        return self.changed(
            state="done",
            partitions=tuple(each.changed(first=None, to=None) for each in self.partitions),
            files=(),
            also={},
            revoked=(*self.revoked, *(RolledBack(key=key, since=since) for key in self.objects)),
        )

    def changed(self, **values: object) -> "AssignmentLog":
        """The next version, with these values."""
        return AssignmentLog.model_validate({**dict(self), "seq": self.seq + 1, **values})

    def to_body(self) -> bytes:
        if len(self.revoked) <= _PLAIN:
            return self.model_dump_json().encode()
        packed = base64.b64encode(zlib.compress(_ROLLED_BACK.dump_json(self.revoked), level=1)).decode()
        return json.dumps({**json.loads(self.model_dump_json(exclude={"revoked"})), _PACKED: packed}).encode()

    def _moved(self) -> dict[TopicPartition, Progress]:
        """The partitions once the batch is in the lake."""
        return {each.tp: each.moved(to=None) for each in self.partitions}


def log_form(table_root: str) -> Form[AssignmentLog]:
    """How logs of this table are stored; one that names objects of another table is refused."""
    form = form_of(AssignmentLog)
    return replace(form, parse=partial(_parse, roots=object_roots(table_root)), body=AssignmentLog.to_body)


def _parse(body: bytes, roots: tuple[str, ...]) -> AssignmentLog:
    log = parse(AssignmentLog, _unpacked(body))
    check_keys((*log.objects, *(item.key for item in log.revoked)), roots)
    return log


def _unpacked(body: bytes) -> bytes:
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
