"""Settles the unfinished batch of a former owner: keeps or rolls back the batch, before any member reads on.

The former owner is already fenced. The former owner may still upload files of the batch, but registers nothing.

- If all data files of a pending batch exist, it is kept: write ``kept``, register the files again, write ``done``.
- If some data files are missing, it is rolled back: write ``done`` up to its start, and its objects in ``revoked``.
- If Kafka has also deleted some of the batch's records, both decisions lose rows. The decision that loses fewer rows is
  chosen: write ``kept`` with the files that exist, or roll back.

Several members may settle a batch at the same time. Each member follows the stored decision.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.catalog.registrar import Registrar
from app.errors import RetryableError
from app.formatting import counted
from app.journal.entry import RolledBack
from app.journal.log import AssignmentLog, Progress
from app.kafka.questions import GroupOffsets
from app.kafka.watch import ids_differ
from app.model import DataFile, Mark
from app.storage.base import ObjectStore
from app.storage.document import Document
from app.table.parquet_reader import read_footer

logger = logging.getLogger(__name__)

_MOST_RANGES = 20  # ranges in a log line


@dataclass(frozen=True, slots=True)
class Settlement:
    """Settles batches. Thread-safe."""

    store: ObjectStore
    register: Callable[[Sequence[DataFile], Sequence[Mark]], None]  # safe to repeat
    is_registered: Callable[[Sequence[Mark]], bool]  # compares marks, because engines may have replaced the files
    offsets: GroupOffsets  # queried only before a roll back
    parallel_map: Callable[[Callable[[str], Any], Iterable[str]], Iterable[Any]] = map
    now: Callable[[], float] = time.time
    announce: Callable[[AssignmentLog], object] = lambda _: None  # receives the log of each batch that is kept

    def settle(self, document: Document[AssignmentLog]) -> None:
        """Settle the batch of a log that was just read. The owner of the log must be fenced.

        Raises ``ChangedError`` if another member has written the log. After any error, read the log again: the write
        that rolls back may succeed late. If all files exist by then, a second decision could contradict the first.
        """
        log = document.current
        assert log is not None, "it was read"  # noqa: S101
        if log.state == "done":
            return
        is_registered = self.is_registered(log.marks)
        if log.state == "pending":
            log = log.kept(log.files) if is_registered else self._decide(document.where, log)
            document.write(log)
        if log.state == "kept":
            if not is_registered:
                self.register(log.files, log.marks)
            self.announce(log)
            document.write(log.done())

    def _decide(self, where: str, batch: AssignmentLog) -> AssignmentLog:
        missing = self._list_missing(batch, batch.deciding)
        if not missing:
            logger.info("%s: batch %d of a former owner was complete: kept", where, batch.batch)
            return batch.kept(batch.files)
        is_only_topic = len({each.topic for each in batch.in_batch}) == 1
        readable = sum(len(self._offsets_in_kafka(each, is_only_topic=is_only_topic)) for each in batch.in_batch)
        expired = sum(len(each.batch_offsets) for each in batch.in_batch) - readable
        if expired and (kept := self._keep_existing(where, batch, expired)) is not None:
            return kept
        logger.info(
            "%s: batch %d of a former owner was incomplete (%d of %d objects missing): rolled back, to be read again",
            where,
            batch.batch,
            len(missing),
            len(batch.objects),
        )
        return batch.rolled_back(int(self.now()))

    def _keep_existing(self, where: str, batch: AssignmentLog, expired: int) -> AssignmentLog | None:
        """Return the next version of the log, which keeps the existing objects of an incomplete batch.

        Returns ``None`` if a roll back loses fewer records. Kafka no longer has ``expired`` records of the batch.
        """
        missing = self._list_missing(batch, batch.objects)
        records = {file.key: file.rows for file in batch.files} | batch.also
        lost = sum(records[key] for key in missing)
        if len(missing) == len(batch.objects) or lost > expired:
            return None
        if lost:
            ranges = [f"{each.tp} {each.first} to {each.to}" for each in batch.in_batch]
            more = f" and {len(ranges) - _MOST_RANGES:,} more" if len(ranges) > _MOST_RANGES else ""
            logger.error(
                "%s: %s of offsets %s are lost: Kafka no longer has all of them, and a former owner died before it had "
                "stored all of its files. Raise the topic's retention",
                where,
                counted(lost, "row"),
                ", ".join(ranges[:_MOST_RANGES]) + more,
            )
        since = int(self.now())
        files = tuple(file for file in batch.files if file.key not in missing)
        return batch.kept(files, (RolledBack(key=key, since=since) for key in missing))

    def _list_missing(self, batch: AssignmentLog, keys: Sequence[str]) -> list[str]:
        """Return the keys of the objects that do not exist or have a different size."""
        sizes = {file.key: file.size for file in batch.files}
        objects = zip(keys, self.parallel_map(self.store.find, keys), strict=True)
        return [key for key, stored in objects if stored is None or sizes.get(key, stored.size) != stored.size]

    def _offsets_in_kafka(self, progress: Progress, *, is_only_topic: bool) -> range:
        """Return the batch's offsets that Kafka still has. If the topic or cluster has a new id, return no offsets.

        The ids are read first, because Kafka reports no offsets for a partition that the recreated topic does not have.
        Records of a missing topic count as still in Kafka, because the topic may return soon, and other topics must not
        wait. Records of a recreated topic also count as still in Kafka if the batch has rows of other topics.
        """
        offsets = self.offsets
        try:
            topic_id = offsets.topic_id(progress.topic)
        except RetryableError as error:
            if error.system == "topic":
                return progress.batch_offsets
            raise
        if not is_only_topic and ids_differ(progress.topic_id, topic_id):
            return progress.batch_offsets
        if is_recreated(progress, topic_id, offsets.cluster_id()):
            return range(0)
        kafka = offsets.of(progress.tp)
        if is_recreated(progress, kafka.topic_id, kafka.cluster_id):  # recreated since the first query
            return range(0)
        return range(max(progress.batch_offsets.start, kafka.low), min(progress.batch_offsets.stop, kafka.high))


def is_recreated(progress: Progress, topic_id: str, cluster_id: str) -> bool:
    return ids_differ(progress.topic_id, topic_id) or ids_differ(progress.cluster_id, cluster_id)


def roll_forward(
    store: ObjectStore,
    registrar: Registrar,
    parallel_map: Callable[[Callable[[DataFile], DataFile], Iterable[DataFile]], Iterable[DataFile]],
    files: Sequence[DataFile],
    marks: Sequence[Mark],
) -> None:
    """Register the stored files of a batch. ``marks`` are the ends of the batch's partitions. Calls may be repeated."""

    def describe(file: DataFile) -> DataFile:
        stored = store.find(file.key)
        if stored is None:
            raise RetryableError(
                f"registering {store.uri}/{file.key}",
                "the file existed when the batch was settled, and is missing now",
                "If somebody or a lifecycle rule deleted it, restore it under the same name: it contains rows",
            )
        return replace(file, last_modified=stored.last_modified, footer=read_footer(store, file.key, file.size))

    if registrar.is_needed and files:
        registrar.register_again(list(parallel_map(describe, files)), marks)
