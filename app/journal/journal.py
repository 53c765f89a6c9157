"""The claims and logs of one consumer group in a table's journal. ``survey`` reads the journals of all groups."""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

from pydantic import Field

from app.journal.entry import Stored, claim_key, form_of, group_folder, is_log, log_key, logs_folder, topic_folder
from app.journal.log import AssignmentLog, log_form
from app.model import TopicPartition
from app.storage.base import ObjectStore, StoredObject
from app.storage.document import Document, UnreadableError
from app.table.layout import journal_folder

logger = logging.getLogger(__name__)

_DAY_SECONDS = 24 * 3600.0  # after this time, no member with an old version of a claim reads the log
_LOOK_SECONDS = 3600.0


class PartitionClaim(Stored):
    """One version of a claim. A claim identifies the assignment that may write a topic partition."""

    version: Literal[1] = 1
    seq: int = Field(ge=1)  # number of the version
    owner: str  # token of the assignment whose log contains the partition
    cluster_id: str = ""  # the topic's Kafka cluster; empty if the broker does not report the cluster


CLAIM = form_of(PartitionClaim)


class FencedError(Exception):
    """Another assignment owns the partitions, or the table was deleted."""


class LogClosedError(FencedError):
    """Another member has closed the assignment's log. The partitions can be claimed again if Kafka still assigns them.

    The other member may have claimed the partitions late, after Kafka had already revoked them.
    """


@dataclass(frozen=True, slots=True)
class Journal:
    """The location of a consumer group's journal. Methods return documents whose contents are not read yet."""

    store: ObjectStore
    table_root: str  # object key of the table's folder
    group: str

    def claim(self, tp: TopicPartition) -> Document[PartitionClaim]:
        return Document(self.store, claim_key(self.table_root, self.group, tp), CLAIM)

    def claims(self, topic: str) -> Iterator[Document[PartitionClaim]]:
        listed = self.store.list(self.folder(topic))
        return (Document(self.store, stored.key, CLAIM) for stored in listed if stored.key.endswith(".json"))

    def folder(self, topic: str) -> str:
        return topic_folder(self.table_root, self.group, topic)

    def log(self, owner: str) -> Document[AssignmentLog]:
        return Document(self.store, log_key(self.table_root, self.group, owner), log_form(self.table_root))

    def logs(self) -> Iterator[StoredObject]:
        return self.store.list(logs_folder(self.table_root, self.group))


class ObsoleteLogs:
    """Deletes logs to which no claim refers. Each assignment creates a log. Only one thread may use an instance."""

    def __init__(self, journal: Journal, now: Callable[[], float] = time.time) -> None:
        self._journal = journal
        self._now = now
        self._next = now() + _LOOK_SECONDS

    def delete(self) -> None:
        """Delete logs that were closed a day ago. Runs once an hour. Newer logs also list the rolled-back objects."""
        now = self._now()
        if now < self._next:
            return
        self._next = now + _LOOK_SECONDS
        for stored in self._journal.logs():
            if now - stored.last_modified.timestamp() < _DAY_SECONDS:
                continue
            try:
                if self._is_obsolete(stored.key):
                    self._journal.store.delete(stored.key)
            except UnreadableError as error:  # delete the other logs; if a claim needs this log, it reports the error
                logger.debug("%s", error)

    def _is_obsolete(self, key: str) -> bool:
        log = Document(self._journal.store, key, log_form(self._journal.table_root)).read()
        if log is None or not log.closed:
            return False
        claims = (self._journal.claim(each.tp).read() for each in log.partitions)
        return not any(claim and claim.owner == log.owner for claim in claims)


@dataclass(frozen=True, slots=True)
class Survey:
    """Keys of objects. ``pending`` objects may become part of the table. ``rolled_back`` objects never become part."""

    pending: frozenset[str]
    rolled_back: frozenset[str]

    @property
    def left_out(self) -> frozenset[str]:
        """Objects that do not belong to the table at present. List the table's objects before you call ``survey``."""
        return self.pending | self.rolled_back


def survey(store: ObjectStore, table_root: str) -> Survey:
    """Read the journals of all consumer groups of a table."""
    folder = journal_folder(table_root)
    form = log_form(table_root)
    pending: set[str] = set()
    rolled_back: set[str] = set()
    for stored in store.list(folder):
        log = Document(store, stored.key, form).read() if is_log(stored.key) else None
        if log is not None:
            pending.update(log.objects)
            rolled_back.update(item.key for item in log.revoked)
    return Survey(frozenset(pending), frozenset(rolled_back))


def warn_of_other_groups(store: ObjectStore, table_root: str, group: str) -> None:
    """Log a warning if other consumer groups have journals in the table, because each group writes all rows."""
    root, own = journal_folder(table_root), group_folder(table_root, group)
    others = {
        key.removeprefix(root).split("/")[0]
        for key in (stored.key for stored in store.list(root))
        if key.endswith(".json") and not key.startswith(own) and "/" in key.removeprefix(root)
    }
    if others:
        logger.warning(
            "table %s was written by other consumer groups too (%s): it contains the rows of shared topics once for "
            "each group. If CONSUMER_GROUP was changed, records that the former group wrote are written again. To "
            "avoid that, set CONSUMER_GROUP to the former group",
            table_root,
            ", ".join(sorted(unquote(name) for name in others)),
        )
