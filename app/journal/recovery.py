"""Settles the batch that a former owner left behind: keeps it or rolls it back, before anybody reads on from its end.

The former owner is fenced by then: it may still upload files of the batch, and register nothing. If all data files of
a pending batch exist, it is rolled forward: ``kept`` is written, and only then its files are registered again and
``done`` is written. If some are missing, it is rolled back: ``done`` up to its start is written, with its objects on
the list ``revoked``. If some are missing and Kafka no longer has all of the batch's records, either loses rows. Then
the smaller loss is chosen: ``kept`` is written with the files that exist, or the batch is rolled back. Several members
may settle the same batch at once: each follows the decision that was written, even if it finds other files.
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

_NAMED = 20  # ranges in a line of the log


@dataclass(frozen=True, slots=True)
class Settlement:
    """Settles batches; safe from several threads."""

    store: ObjectStore
    register: Callable[[Sequence[DataFile], Sequence[Mark]], None]  # safe to repeat
    is_registered: Callable[[Sequence[Mark]], bool]  # up to these marks: engines may have replaced the files
    offsets: GroupOffsets  # asked before a roll back alone
    each: Callable[[Callable[[str], Any], Iterable[str]], Iterable[Any]] = map
    now: Callable[[], float] = time.time

    def settle(self, document: Document[AssignmentLog]) -> None:
        """Settle the batch of a document that was just read; ``ChangedError``: another member has written it.

        After an error the document must be read again. The write that rolls back may have succeeded, or succeed later,
        and the missing files may exist by then: a second decision could be another one. The owner is fenced.
        """
        log = document.current
        assert log is not None, "it was read"  # noqa: S101
        if log.state == "done":
            return
        is_registered = self.is_registered(log.marks)
        if log.state == "pending":
            log = log.kept(log.files) if is_registered else self._decided(document.where, log)
            document.write(log)
        if log.state == "kept":
            if not is_registered:
                self.register(log.files, log.marks)
            document.write(log.done())

    def _decided(self, where: str, batch: AssignmentLog) -> AssignmentLog:
        missing = self._missing(batch, batch.deciding)
        if not missing:
            logger.info("%s: batch %d of a former owner was complete: kept", where, batch.batch)
            return batch.kept(batch.files)
        is_alone = len({each.topic for each in batch.in_batch}) == 1
        left = sum(len(self._left_in_kafka(each, is_alone=is_alone)) for each in batch.in_batch)
        expired = sum(len(each.batch_offsets) for each in batch.in_batch) - left
        kept = self._with_what_is_there(where, batch, expired) if expired else None
        if kept is not None:
            return kept
        logger.info(
            "%s: batch %d of a former owner was not complete (%d of %d objects missing): undone, its rows come again",
            where,
            batch.batch,
            len(missing),
            len(batch.objects),
        )
        return batch.rolled_back(int(self.now()))

    def _with_what_is_there(self, where: str, batch: AssignmentLog, expired: int) -> AssignmentLog | None:
        """The next version, which keeps the objects that exist of an incomplete batch.

        ``None`` if reading it again loses fewer records: Kafka no longer has ``expired`` of its offsets.
        """
        missing = self._missing(batch, batch.objects)
        records = {file.key: file.rows for file in batch.files} | batch.also
        lost = sum(records[key] for key in missing)
        if len(missing) == len(batch.objects) or lost > expired:
            return None
        if lost:
            named = [f"{each.tp} {each.first} to {each.to}" for each in batch.in_batch]
            more = f" and {len(named) - _NAMED:,} more" if len(named) > _NAMED else ""
            logger.error(
                "%s: %s of offsets %s are lost: Kafka no longer has all of these, and a former owner died before it "
                "had stored all of its files. Raise the topic's retention",
                where,
                counted(lost, "row"),
                ", ".join(named[:_NAMED]) + more,
            )
        since = int(self.now())
        files = tuple(file for file in batch.files if file.key not in missing)
        return batch.kept(files, (RolledBack(key=key, since=since) for key in missing))

    def _missing(self, batch: AssignmentLog, keys: Sequence[str]) -> list[str]:
        """Keys of those objects that do not exist or have another size."""
        wanted = {file.key: file.size for file in batch.files}
        found = zip(keys, self.each(self.store.find, keys), strict=True)
        return [key for key, stored in found if stored is None or wanted.get(key, stored.size) != stored.size]

    def _left_in_kafka(self, progress: Progress, *, is_alone: bool) -> range:
        """The batch's offsets that Kafka still has: none if the topic was recreated or the cluster is another one.

        The ids come first. Kafka never gives the offsets of a partition that the recreated topic does not have. Records
        of a topic that is missing count as still there: it may be back soon, and other topics must not wait for it. So
        do those of one that was recreated, unless it ``is_alone`` in the batch: the others' rows must not be lost.
        """
        offsets = self.offsets
        try:
            topic_id = offsets.topic_id(progress.topic)
        except RetryableError as error:
            if error.system == "topic":
                return progress.batch_offsets
            raise
        if not is_alone and ids_differ(progress.topic_id, topic_id):
            return progress.batch_offsets
        if _is_of_another(progress, topic_id, offsets.cluster_id()):
            return range(0)
        kafka = offsets.of(progress.tp)
        if _is_of_another(progress, kafka.topic_id, kafka.cluster_id):  # since the first question
            return range(0)
        return range(max(progress.batch_offsets.start, kafka.low), min(progress.batch_offsets.stop, kafka.high))


def _is_of_another(progress: Progress, topic_id: str, cluster_id: str) -> bool:
    return ids_differ(progress.topic_id, topic_id) or ids_differ(progress.cluster_id, cluster_id)


def roll_forward(
    store: ObjectStore,
    registrar: Registrar,
    each: Callable[[Callable[[DataFile], DataFile], Iterable[DataFile]], Iterable[DataFile]],
    files: Sequence[DataFile],
    marks: Sequence[Mark],
) -> None:
    """Register the stored files of a batch, with the marks of its partitions; safe to repeat."""

    def described(file: DataFile) -> DataFile:
        found = store.find(file.key)
        if found is None:
            raise RetryableError(
                f"registering {store.uri}/{file.key}",
                "it was there when the batch was finished and is gone",
                "If somebody or a rule has deleted it, bring it back under the same name: it has rows of that batch",
            )
        return replace(file, last_modified=found.last_modified, footer=read_footer(store, file.key, file.size))

    if registrar.is_needed and files:
        registrar.register_again(list(each(described, files)), marks)
