"""Chooses the first offset of a partition if the consumer group has no offset and no journal of this partition.

Kafka's rule ``auto.offset.reset`` would lose records. A consumer notices an added partition only after some time, and
``latest`` would skip earlier records. Therefore, with ``latest`` or a time, the connector stores the offsets at which
the group began, in an object ``_journal/<group>/<topic>/first-offsets``:

- The first member that finds no offset and no journal of any partition writes the object. The object contains the end
  of *every* partition at this moment, or each partition's first record since the time. The store lets only one member
  create the object, before any journal or commit of the group.
- A partition in the object begins at the stored offset, also after a crash or in another member.
- A partition that is missing in the object was added later, and begins with its first record.
- If the object is missing, and the group has an offset or a journal of another partition, the group is older than this
  partition's first claim. The partition begins with its first record.

Each value of ``FOLLOW_OFFSETS`` has a separate object. If a time is set when the value is first used, partitions in the
object begin at this time, but only once. Otherwise the object contains no offsets, even if a time is set later. Offsets
that are calculated later would skip records.

A group of several topics has an object ``first-topics.json`` next to the tables, and one for each value. The objects
contain these offsets for all topics, because a table may be opened late. The first member writes the objects before any
claim. Only one member can create an object. The objects of the topics are copies. A topic that is missing in an object
was added later, and begins with its first record. If the group has read topics before, it contains only these topics.

Internal topics of quixstreams (``group_by()``) contain results of records that the group may have committed already.
Internal topics always begin with their first record.
"""

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import Field

from app.errors import ConnectorError
from app.formatting import counted
from app.journal.entry import Stored, form_of, group_folder, topic_folder
from app.journal.journal import Journal
from app.kafka.questions import GroupOffsets, PartitionOffsets
from app.kafka.watch import ids_differ
from app.model import TopicPartition
from app.storage.base import ObjectStore
from app.storage.document import Document

logger = logging.getLogger(__name__)

_NAME = "first-offsets"  # without ``.json``, which only claims have


class _GroupBeginning(Stored):
    """The offsets at which the group began, by partition. ``since`` is the time, in seconds since the epoch."""

    version: Literal[1] = 1
    topic_id: str
    cluster_id: str
    since: int
    offsets: dict[str, int]

    def of(self, tp: TopicPartition, kafka: PartitionOffsets) -> int | None:
        """Return the partition's offset; ``None`` if the partition was added later, or the topic was recreated."""
        is_recreated = ids_differ(self.topic_id, kafka.topic_id) or ids_differ(self.cluster_id, kafka.cluster_id)
        return None if is_recreated else self.offsets.get(str(tp.partition))


_FORM = form_of(
    _GroupBeginning,
    "the group's first offsets",
    "If a newer release wrote it, update this one. Otherwise delete it: partitions that the consumer group has "
    "not read yet then begin with their first record",
)


class FirstTopics(Stored):
    """The first offsets of the topics that existed when a group of several topics began, or a value was first used.

    In a table's object, ``topics`` contains the first topic that was written into the table.
    """

    version: Literal[1] = 1
    topics: list[str] = Field(default_factory=list)
    beginnings: dict[str, _GroupBeginning] = Field(default_factory=dict)


_TOPICS_FORM = form_of(
    FirstTopics,
    "the group's first topics",
    "If a newer release wrote it, update this one. Otherwise delete it: the topics that the group has read then count "
    "as the first",
)


class FirstOffsets:
    """Reads or creates objects with the first offsets of a consumer group. Thread-safe."""

    def __init__(
        self,
        journal: Journal,
        *,
        kafka: GroupOffsets,
        reset: str | datetime | timedelta,
        internal: Collection[str] = (),
        first_topics: Mapping[str, FirstTopics] | None = None,
        now: Callable[[], float] = time.time,
        new_lock: Callable[[], AbstractContextManager[Any]] = threading.Lock,
    ) -> None:
        self._journal = journal
        self._kafka = kafka
        self._since = datetime.fromtimestamp(now(), UTC) - reset if isinstance(reset, timedelta) else reset
        self._internal = frozenset(internal)
        self._first_topics = first_topics or {}
        self._now = now
        self._lock = new_lock()
        self._followed: dict[str, _GroupBeginning] = {}  # objects by key; these objects never change

    def of(self, tp: TopicPartition, kafka: PartitionOffsets) -> int:
        if self._since == "earliest" or tp.topic in self._internal:
            return kafka.low
        first_topics = self._first_topics.get("")
        if first_topics is not None and tp.topic not in first_topics.beginnings:
            return self._first_record(tp, kafka, "the topic was added after the consumer group began")
        with self._lock:  # partitions are claimed in parallel, and the first partition decides for all partitions
            has_begun = self._has_begun(tp, kafka)  # before the read: a new group writes the object before the journal
            document = self._document(tp.topic)
            beginning = document.read()
            if has_begun and beginning is None:
                return self._first_record(tp, kafka, "the consumer group has read other partitions of the topic before")
            if beginning is None or (not has_begun and ids_differ(beginning.cluster_id, kafka.cluster_id)):
                beginning = document.write_first(self._beginning(tp.topic))
                self._log_skipped(tp.topic, beginning, f"the consumer group {self._journal.group} is new and begins")
        offset = beginning.of(tp, kafka)
        if offset is None:
            why = "the partition was added, or the topic recreated, after the consumer group began"
            return self._first_record(tp, kafka, why)
        return max(self._limit_to_end(tp, offset, kafka), kafka.low)

    def followed(self, tp: TopicPartition, kafka: PartitionOffsets, text: str) -> PartitionOffsets | None:
        """Return the offsets to follow for this value: the group's offsets, or the offsets of the time.

        Returns ``None`` for a partition that was added after the offsets of the time were calculated.
        """
        if tp.topic in self._internal:
            return kafka
        with self._lock:
            document = self._document(tp.topic, text)
            beginning = self._followed.get(document.where) or document.read()
            if beginning is None:
                beginning = document.write_first(self._beginning(tp.topic, text))
                self._log_skipped(tp.topic, beginning, f"FOLLOW_OFFSETS={text}: all partitions begin")
            self._followed[document.where] = beginning
        if not beginning.offsets:
            return kafka
        offset = beginning.of(tp, kafka)
        return None if offset is None else replace(kafka, committed=self._limit_to_end(tp, offset, kafka), is_set=True)

    def first_topics(self, tables: Mapping[str, str], text: str) -> dict[str, FirstTopics]:
        """Return the group's first topics by value of ``FOLLOW_OFFSETS``: for an empty value, and for ``text``.

        ``tables`` contains the names of the tables, by topic.
        """
        journal, first_topics = self._journal, dict[str, FirstTopics]()
        for follow_text in dict.fromkeys(("", text)):
            key = f"{group_folder(journal.table_root, journal.group)}first-topics{_suffix(follow_text)}.json"
            document = Document(journal.store, key, _TOPICS_FORM)
            if (first := document.read()) is None:
                old = first_topics[""].beginnings if first_topics else {}
                topics = [topic for topic in tables if topic in old or self._is_read(topic, tables[topic])] or tables
                first = FirstTopics(beginnings={topic: self._beginning(topic, follow_text) for topic in topics})
                first = document.write_first(first)
            first_topics[follow_text] = first
        return first_topics

    # --- inside -----------------------------------------------------------------------------------------------------

    def _limit_to_end(self, tp: TopicPartition, offset: int, kafka: PartitionOffsets) -> int:
        """Return the offset, or the partition's end if the end is lower. ``kafka`` may be outdated."""
        return offset if offset <= kafka.high else min(offset, self._kafka.ends(tp.topic).get(tp, kafka.high))

    def _is_read(self, topic: str, table: str) -> bool:
        folder = topic_folder(f"{self._journal.table_root}/{table}", self._journal.group, topic)
        return bool(self._kafka.begun(topic)) or any(self._journal.store.list(folder))

    def _document(self, topic: str, text: str = "") -> Document[_GroupBeginning]:
        return Document(self._journal.store, f"{self._journal.folder(topic)}{_NAME}{_suffix(text)}", _FORM)

    def _first_record(self, tp: TopicPartition, kafka: PartitionOffsets, why: str) -> int:
        logger.info("%s: %s: the partition begins with its first record, %d", tp, why, kafka.low)
        return kafka.low

    def _has_begun(self, tp: TopicPartition, kafka: PartitionOffsets) -> bool:
        """Whether the group has read another partition of this topic. A deleted topic of this name does not count."""
        if self._kafka.begun(tp.topic) - {tp}:
            return True
        claims = (document.read() for document in self._journal.claims(tp.topic))
        return any(claim and not ids_differ(claim.cluster_id, kafka.cluster_id) for claim in claims)

    def _beginning(self, topic: str, text: str = "") -> _GroupBeginning:
        """Return the topic's first offsets, stored or calculated. If no time is set, a value has no offsets."""
        first = self._first_topics.get(text)
        if first and topic in first.beginnings:
            return first.beginnings[topic]
        topic_id = self._kafka.topic_id(topic)  # read before the ends: if the topic is recreated then, its id differs
        follows_no_time = self._since == "earliest" or (text and (first or isinstance(self._since, str)))
        offsets: Mapping[TopicPartition, int] = {} if follows_no_time else self._kafka.ends(topic)
        if offsets and isinstance(self._since, datetime):
            offsets = self._kafka.since(self._since, offsets)
        by_partition = {str(tp.partition): offset for tp, offset in offsets.items()}
        cluster_id, since = self._kafka.cluster_id(), int(self._now())
        return _GroupBeginning(topic_id=topic_id, cluster_id=cluster_id, since=since, offsets=by_partition)

    def _log_skipped(self, topic: str, beginning: _GroupBeginning, who: str) -> None:
        try:
            lows = self._kafka.beginnings(topic)
        except ConnectorError as error:
            logger.debug("%s", error)  # only the log message needs these offsets
            return
        ends = {TopicPartition(topic, int(partition)): end for partition, end in beginning.offsets.items()}
        skipped = sum(max(0, end - lows.get(tp, end)) for tp, end in ends.items())
        if skipped:
            logger.info(
                "%s at %s of topic %s (AUTO_OFFSET_RESET): %s are skipped, unless they are in the table already. To "
                "read them, set AUTO_OFFSET_RESET=earliest and another CONSUMER_GROUP, which writes all rows again: "
                "also another TABLE_NAME if this table contains some",
                who,
                "the end" if isinstance(self._since, str) else f"the records since {self._since.isoformat()}",
                topic,
                counted(skipped, "existing record"),
            )


def begun_at(journal: Journal, topic: str, topic_id: str) -> Mapping[str, int]:
    """Return the stored offsets at which the group began, by partition. Nothing is written."""
    first = Document(journal.store, f"{journal.folder(topic)}{_NAME}", _FORM).read()
    return {} if first is None or ids_differ(first.topic_id, topic_id) else first.offsets


def _suffix(text: str) -> str:
    return "-" + hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""


def owner_of_table(store: ObjectStore, root: str, group: str, topic: str) -> str:
    """Return the first topic that was written into the table at ``root``. If no topic is stored, store this topic."""
    document = Document(store, f"{group_folder(root, group)}first-topics.json", _TOPICS_FORM)
    first = document.read() or document.write_first(FirstTopics(topics=[topic]))
    return first.topics[0]


def noted_topics(root: str, group: str) -> str:
    """Return the folder that contains an object for each topic whose table this group has opened."""
    return f"{group_folder(root, group)}topics/"
