"""Deletes the logs of former generations, which no claim names any more: each assignment leaves one behind."""

import logging
import time
from collections.abc import Callable

from app.journal.journal import Journal
from app.journal.log import log_form
from app.storage.document import Document, UnreadableError

logger = logging.getLogger(__name__)

_DAY_SECONDS = 24 * 3600.0  # by then no member reads it because of an older version of a claim
_LOOK_SECONDS = 3600.0


class ObsoleteLogs:
    """Looks once an hour; for one thread."""

    def __init__(self, journal: Journal, now: Callable[[], float] = time.time) -> None:
        self._journal = journal
        self._now = now
        self._next = now() + _LOOK_SECONDS

    def delete(self) -> None:
        """Delete those that were closed a day ago or earlier; later logs list their rolled-back objects too."""
        now = self._now()
        if now < self._next:
            return
        self._next = now + _LOOK_SECONDS
        for found in self._journal.logs():
            if now - found.last_modified.timestamp() < _DAY_SECONDS:
                continue
            try:
                if self._is_obsolete(found.key):
                    self._journal.store.delete(found.key)
            except UnreadableError as error:  # the others must not stay for it; a claim that needs it reports it
                logger.debug("%s", error)

    def _is_obsolete(self, key: str) -> bool:
        log = Document(self._journal.store, key, log_form(self._journal.table_root)).read()
        if log is None or not log.closed:
            return False
        claims = (self._journal.claim(each.tp).read() for each in log.partitions)
        return not any(claim and claim.owner == log.owner for claim in claims)
