"""Deletes the logs of former generations, which no claim names any more: each assignment leaves one behind."""

import logging
import time
from collections.abc import Callable

from app.journal.claim import parse_claim
from app.journal.document import UnreadableError, read_document
from app.journal.entry import claim_key, logs_folder
from app.journal.log import GenerationLog, parse_log
from app.model import TopicPartition
from app.storage.base import ObjectStore

logger = logging.getLogger(__name__)

_DAY_SECONDS = 24 * 3600.0  # by then no member reads it because of an older version of a claim
_LOOK_SECONDS = 3600.0


class ObsoleteLogs:
    """Looks once an hour; for one thread.

    Args:
        store: connected.
        table_root: key of the table's folder.
        group: the consumer group.
        roots: the prefixes that keys of the table's objects have.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        store: ObjectStore,
        table_root: str,
        group: str,
        *,
        roots: tuple[str, ...],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._table_root = table_root
        self._group = group
        self._roots = roots
        self._now = now
        self._next = now() + _LOOK_SECONDS

    def delete(self) -> None:
        """Delete those that were closed a day ago or earlier; later logs list their rolled-back objects too.

        Raises:
            ConnectorError: of the store.
        """
        now = self._now()
        if now < self._next:
            return
        self._next = now + _LOOK_SECONDS
        for found in self._store.list(logs_folder(self._table_root, self._group)):
            if now - found.last_modified.timestamp() < _DAY_SECONDS:
                continue
            try:
                is_obsolete = self._is_obsolete(found.key)
            except UnreadableError as error:  # the others must not stay for it; a claim that needs it reports it
                logger.debug("%s", error)
                continue
            if is_obsolete:
                self._store.delete(found.key)

    def _is_obsolete(self, key: str) -> bool:
        read = read_document(self._store, key, parse_log, self._roots)
        return read is not None and read[0].closed and not self._is_named(read[0])

    def _is_named(self, log: GenerationLog) -> bool:
        return any(self._owner(each.tp) == log.owner for each in log.partitions)

    def _owner(self, tp: TopicPartition) -> str | None:
        key = claim_key(self._table_root, self._group, tp)
        read = read_document(self._store, key, parse_claim, self._roots)
        return read[0].owner if read else None
