"""Defines the claim of a topic-partition: which generation writes it. Former releases have its journal at that key.

Former releases had no generations: the journal of each topic-partition was the only document. It is read, its batch is
settled, and then a claim takes its place. A member of a former release that still runs then finds a version that it did
not write, and is fenced; one that starts later ends with an error that asks for an update.
"""

import json
from typing import Literal, TypeAlias

from pydantic import Field, field_validator, model_validator

from app.journal.entry import JournaledFile, RolledBack, Span, Stored, check_keys, known_id, parse, to_body
from app.journal.log import Progress
from app.model import TopicPartition


class PartitionClaim(Stored):
    """One version of the document.

    Attributes:
        seq: counts the versions.
        owner: token of the generation whose log has the partition.
        state: ``off``: delivery is at least once from here on, without a log.
        cluster_id: of the Kafka cluster of the topic; empty if the broker does not give it.
    """

    version: Literal[2] = 2
    seq: int = Field(ge=1)
    owner: str
    state: Literal["on", "off"] = "on"
    cluster_id: str = ""

    def to_body(self) -> bytes:
        """The JSON to store."""
        return self.model_dump_json().encode()

    def changed(self, **values: object) -> "PartitionClaim":
        """The next version, with these values."""
        return PartitionClaim.model_validate({**dict(self), "seq": self.seq + 1, **values})


class JournalEntry(Stored):
    """One version of the journal of a topic-partition, as former releases have it.

    Attributes:
        seq: counts the versions.
        owner: token of the assignment that wrote it.
        batch: number of the owner's batch.
        state: as in a generation's log. ``off``: delivery is at least once from here on, without the journal.
        start: first offset of the batch.
        end: last offset of the batch.
        topic_id, cluster_id, marks_commits: as in a generation's log.
        files: data files of a pending batch; for a kept one, those that existed.
        also: keys of its other objects.
        also_first: whether ``also`` is uploaded before the last data file. The earliest releases uploaded in any order.
        revoked: objects of batches that were rolled back.
    """

    version: Literal[1] = 1
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
        is_unfinished = self.state in ("pending", "kept")
        if not is_unfinished and (self.files or self.also):
            raise ValueError(f"an entry that is {self.state} has files")
        if is_unfinished and self.end < self.start - 1:
            raise ValueError("the batch ends before it starts")
        return self

    @property
    def deciding(self) -> tuple[str, ...]:
        """The objects of a pending batch that show whether it is complete: the last ones to be uploaded."""
        return tuple(file.key for file in self.files) if self.files and self.also_first else self.objects

    @property
    def objects(self) -> tuple[str, ...]:
        """All objects of the batch."""
        return (*(file.key for file in self.files), *self.also)

    def spans_of(self, tp: TopicPartition) -> tuple[Span, ...]:
        """The offsets of the pending batch."""
        ids = {"topic_id": self.topic_id, "cluster_id": self.cluster_id}
        return (Span(topic=tp.topic, partition=tp.partition, first=self.start, last=self.end, **ids),)

    def progress_of(self, tp: TopicPartition) -> Progress:
        """How far the partition is written, once no batch is pending."""
        return Progress(
            topic=tp.topic,
            partition=tp.partition,
            end=self.end,
            topic_id=self.topic_id,
            cluster_id=self.cluster_id,
            marks_commits=self.marks_commits,
        )

    def kept(self, files: tuple[JournaledFile, ...]) -> "JournalEntry":
        """The next version, in which these files of the pending batch belong to the table."""
        return self.changed(state="kept", files=tuple(files), also=())

    def done(self) -> "JournalEntry":
        """The next version, in which the batch is in the lake and registered."""
        return self.changed(state="done", files=(), also=(), also_first=False)

    def rolled_back(self, since: int) -> "JournalEntry":
        """The next version, in which the pending batch is rolled back: its rows come again."""
        listed = (*self.revoked, *(RolledBack(key=key, since=since) for key in self.objects))
        return self.done().model_copy(update={"end": self.start - 1, "revoked": listed})

    def changed(self, **values: object) -> "JournalEntry":
        """The next version, with these values."""
        return JournalEntry.model_validate({**dict(self), "seq": self.seq + 1, **values})

    def to_body(self) -> bytes:
        """The JSON to store."""
        return to_body(self)


AnyClaim: TypeAlias = PartitionClaim | JournalEntry


def parse_claim(body: bytes, roots: tuple[str, ...]) -> AnyClaim:
    """Read what is at a claim's key.

    Args:
        body: the stored JSON.
        roots: the prefixes that its keys may have; the connector must not touch any other key.

    Raises:
        ValueError: it is damaged, of a newer release or not ours; the message says which.
    """
    if _version(body) == 1:
        entry = parse(JournalEntry, body)
        check_keys((*entry.objects, *(item.key for item in entry.revoked)), roots)
        return entry
    return parse(PartitionClaim, body)


def _version(body: bytes) -> object:
    try:
        fields = json.loads(body)
    except ValueError:
        return None
    return fields.get("version") if isinstance(fields, dict) else None
