"""Defines the journal's entry of a topic-partition: the JSON object that makes delivery exactly once."""

import base64
import hashlib
import json
import re
import zlib
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator

from app.model import TopicPartition
from app.table.layout import journal_folder

VERSION: Final = 1
_LONGEST_NAME = 150  # of 255 bytes that a folder's name may have; the rest is for a hash
_PLAIN = 1_000  # rolled-back objects; a longer list is compressed, because each batch writes the entry twice
_PACKED: Final = "revoked_packed"
_ZERO_ID = "A" * 22  # sixteen bytes of zero as Kafka spells them: what clients get from a broker without ids
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def known_id(text: str | None) -> str:
    """The id of a topic or a cluster from Kafka; empty for the zero id, which means none."""
    return text if text and text != _ZERO_ID else ""


def ids_differ(one: str, other: str) -> bool:
    """Whether two ids of topics or clusters are known and different."""
    return bool(one and other and one != other)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)


class JournaledFile(_Frozen):
    """A data file of a batch, with all values that its registration needs; ``size`` in bytes."""

    key: str
    size: int = Field(ge=0)
    rows: int = Field(ge=0)
    partition_values: dict[str, str]


class RolledBack(_Frozen):
    """The key of an object that belongs to a batch rolled back at ``since`` (seconds since the epoch).

    ``deleted``: it was deleted at least once since; an upload in flight may bring it back.
    """

    key: str
    since: int
    deleted: bool = False


class JournalEntry(_Frozen):
    """One version of the object.

    Attributes:
        seq: counts the versions, so that no two of them are equal byte for byte, and none has another's ETag.
        owner: token of the assignment that wrote it.
        batch: number of the owner's batch.
        state: ``done``: everything up to ``end`` is in the lake. ``pending``: ``files`` and ``also`` may be uploaded or
            not. ``kept``: ``files`` belong to the table, and may not be registered yet. ``off``: delivery is at least
            once from here on, without the journal.
        start: first offset of the batch.
        end: last offset of the batch.
        topic_id: of the current topic of that name; empty if the broker does not give it.
        cluster_id: of the Kafka cluster of these offsets; empty if the broker does not give it, and in entries of
            former releases.
        marks_commits: whether the group's offsets have the connector's mark (``app.journal.group_offsets``).
        files: data files of a pending batch; for a kept one, those that existed.
        also: keys of its other objects, which are rolled back with it and never registered.
        also_first: whether ``also`` is uploaded before the last data file. Then the data files alone show whether the
            batch is complete, even if a user has deleted the others. Earlier releases uploaded in any order.
        revoked: objects of batches that were rolled back: they never belong to the table.
    """

    version: Literal[1] = VERSION
    seq: int = Field(ge=1)
    owner: str
    batch: int
    state: Literal["done", "pending", "kept", "off"]
    start: int = Field(ge=0)
    end: int = Field(ge=-1)
    topic_id: str
    cluster_id: str = ""
    marks_commits: bool = False
    files: tuple[JournaledFile, ...] = ()
    also: tuple[str, ...] = ()
    also_first: bool = False
    revoked: tuple[RolledBack, ...] = ()

    @field_validator("topic_id")
    @classmethod
    def _zero_is_no_id(cls, value: str) -> str:
        return known_id(value)

    @model_validator(mode="after")
    def _only_unfinished_has_files(self) -> "JournalEntry":
        if not self.is_unfinished and (self.files or self.also):
            raise ValueError(f"an entry that is {self.state} has files")
        if self.is_unfinished and self.end < self.start - 1:
            raise ValueError("the batch ends before it starts")
        return self

    @property
    def is_unfinished(self) -> bool:
        """Whether a batch is not finished."""
        return self.state in ("pending", "kept")

    @property
    def deciding(self) -> tuple[str, ...]:
        """The objects of a pending batch that show whether it is complete: the last ones to be uploaded."""
        return tuple(file.key for file in self.files) if self.files and self.also_first else self.objects

    @property
    def objects(self) -> tuple[str, ...]:
        """All objects of the batch."""
        return (*(file.key for file in self.files), *self.also)

    def changed(self, **values: object) -> "JournalEntry":
        """The next version, with these values."""
        return JournalEntry.model_validate({**dict(self), "seq": self.seq + 1, **values})

    def to_body(self) -> bytes:
        """The JSON to store."""
        if len(self.revoked) <= _PLAIN:
            return self.model_dump_json().encode()
        packed = base64.b64encode(zlib.compress(_ROLLED_BACK.dump_json(self.revoked), level=1)).decode()
        return json.dumps({**json.loads(self.model_dump_json(exclude={"revoked"})), _PACKED: packed}).encode()


_ROLLED_BACK = TypeAdapter(tuple[RolledBack, ...])


def parse(body: bytes, roots: tuple[str, ...]) -> JournalEntry:
    """Read an entry.

    Args:
        body: the stored JSON.
        roots: the prefixes that its keys may have; the connector must not touch any other key.

    Raises:
        ValueError: it is damaged, of a newer release or not ours; the message says which.
    """
    try:
        entry = JournalEntry.model_validate_json(_unpacked(body))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{where}: {first['msg']}" if where else first["msg"]) from None
    for key in (*entry.objects, *(item.key for item in entry.revoked)):
        if not key.startswith(roots) or ".." in key.split("/"):
            raise ValueError(f"it names {key}, which is not below {' or '.join(roots)}")
    return entry


def _unpacked(body: bytes) -> bytes:
    """The JSON with the list of rolled-back objects uncompressed."""
    if f'"{_PACKED}"'.encode() not in body:
        return body
    fields = json.loads(body)
    try:
        fields["revoked"] = json.loads(zlib.decompress(base64.b64decode(fields.pop(_PACKED), validate=True)))
    except (ValueError, TypeError, KeyError, AttributeError, zlib.error) as error:
        raise ValueError(f"{_PACKED}: {error}") from None
    return json.dumps(fields).encode()


def group_folder(table_root: str, group: str) -> str:
    """Where the journals of one consumer group lie, with a slash at the end."""
    return f"{journal_folder(table_root)}{_as_name(group)}/"


def topic_folder(table_root: str, group: str, topic: str) -> str:
    """Where the journals of one topic lie, with a slash at the end; of a journal's key only these end in ``.json``."""
    return f"{group_folder(table_root, group)}{_as_name(topic)}/"


def journal_key(table_root: str, group: str, tp: TopicPartition) -> str:
    """The key of one topic-partition's journal."""
    return f"{topic_folder(table_root, group, tp.topic)}{tp.partition}.json"


def _as_name(text: str) -> str:
    """The text as a folder's name: percent-encoded, also its dots; too long a one is cut and hashed."""
    encoded = _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match.group().encode()), text)
    if len(encoded) <= _LONGEST_NAME:
        return encoded
    return f"{encoded[:_LONGEST_NAME]}~{hashlib.sha256(text.encode()).hexdigest()[:8]}"
