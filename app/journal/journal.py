"""The journal of a table for one consumer group: its claims and its logs, and what their owner may meet."""

from collections.abc import Iterator
from dataclasses import dataclass

from app.journal.claim import CLAIM, PartitionClaim
from app.journal.entry import claim_key, log_key, logs_folder, topic_folder
from app.journal.log import GenerationLog, log_form
from app.model import TopicPartition
from app.storage.base import ObjectStore, StoredObject
from app.storage.document import Document


class FencedError(Exception):
    """Another generation owns the partitions, or the table was deleted."""


class LogClosedError(FencedError):
    """Another member has closed the generation's log. If Kafka still assigns the partitions, they can be claimed again.

    The other member may have claimed late, without knowing that it had lost the partitions.
    """


@dataclass(frozen=True, slots=True)
class Journal:
    """Where it lies; documents that it returns are not read yet."""

    store: ObjectStore
    table_root: str  # key of the table's folder
    group: str

    def claim(self, tp: TopicPartition) -> Document[PartitionClaim]:
        return Document(self.store, claim_key(self.table_root, self.group, tp), CLAIM)

    def claims(self, topic: str) -> Iterator[Document[PartitionClaim]]:
        listed = self.store.list(self.folder(topic))
        return (Document(self.store, found.key, CLAIM) for found in listed if found.key.endswith(".json"))

    def folder(self, topic: str) -> str:
        return topic_folder(self.table_root, self.group, topic)

    def log(self, owner: str) -> Document[GenerationLog]:
        return Document(self.store, log_key(self.table_root, self.group, owner), log_form(self.table_root))

    def logs(self) -> Iterator[StoredObject]:
        return self.store.list(logs_folder(self.table_root, self.group))
