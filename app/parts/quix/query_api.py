"""Notifies the query API of Quix of new files, so that queries find them immediately."""

import logging
from collections.abc import Sequence
from http import HTTPStatus
from urllib.parse import quote

from app.errors import ConnectorError
from app.model import DataFile
from app.parts.http.rest_client import Credentials, Patience, RestClient, Service
from app.parts.quix.catalog_address import QuixTarget
from app.parts.quix.file_entries import entry, portions
from app.work_pool import WorkPool

logger = logging.getLogger(__name__)

_SERVICE = Service("the query API", "Quix__Lakehouse__Query__Url", "Quix__Lakehouse__Query__AuthToken")
_PATIENCE = Patience(connect=5.0, read=5.0, whole=5.0)


class QueryApi:
    """Sends notifications on another thread. If a notification is lost, the catalog still contains the files.

    If ``most_waiting`` notifications wait, new notifications are dropped.
    """

    def __init__(self, target: QuixTarget, most_waiting: int = 100) -> None:
        self._client = RestClient(_SERVICE, target.url, Credentials(target.token))
        self._path = f"/tables/{quote(target.table, safe='')}/files-added"
        self._namespace = target.namespace
        self._doing = f"notifying the query API at {target.url} of new files of table {target.namespace}.{target.table}"
        self._pool = WorkPool("files-added")
        self._most_waiting = most_waiting
        self._is_failing = False

    def files_added(self, files: Sequence[DataFile]) -> None:
        """Put a notification about these files into the queue, without waiting. A full queue drops notifications."""
        if self._pool.waiting < self._most_waiting:
            self._pool.submit(self._send, files)
        else:
            self._log_failure(f"{self._doing}: the queue is full")

    def close(self, seconds: float) -> None:
        self._pool.join(seconds)

    def _send(self, files: Sequence[DataFile]) -> None:
        for portion in portions(files, entry):
            body = {"namespace": self._namespace, "files": [entry(file) for file in portion]}
            try:
                answer = self._client.ask("POST", self._path, self._doing, body, patience=_PATIENCE)
            except ConnectorError as error:
                self._log_failure(str(error))
                continue
            if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
                self._log_failure(f"{self._doing}: {answer.summary}")
            elif self._is_failing:
                self._is_failing = False
                logger.info("%s: it works again", self._doing)

    def _log_failure(self, message: str) -> None:
        """Log a warning for the first failure. Do not warn again until a notification succeeds."""
        logger.log(
            logging.DEBUG if self._is_failing else logging.WARNING,
            "%s. The files are in the lake and in the catalog; queries find them a little later",
            message.rstrip("."),
        )
        self._is_failing = True
