"""Serves probes, metrics and the pages of consoles over HTTP, and reads the connector's status every few seconds."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from pkgutil import resolve_name
from typing import Protocol

from starlette.responses import JSONResponse, Response

from app.config.settings import Settings
from app.errors import ConnectorError
from app.model import TopicPartition
from app.monitoring.http_server import AllowedHosts, Pages, kept, listen, serve
from app.monitoring.metric_families import Exposition
from app.monitoring.metrics import Metrics
from app.monitoring.status import Health, Live, Probe, Status
from app.parts import CONSOLES
from app.table.existing_table import TableLocation

logger = logging.getLogger(__name__)

_SAMPLE_SECONDS = 5.0
_SAMPLES_PER_QUERY = 2  # Kafka is queried for end offsets at every second sample, or at each sample until it answers

Ends = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]
"""Returns the end offsets of partitions. Raises ``ConnectorError`` if Kafka does not answer."""


class Console(Protocol):
    """Shows the connector to users."""

    def open(self, pages: Pages) -> Pages:
        """Returns the connector's ``pages`` and the pages of this console."""

    def sample(self, status: Status) -> None: ...


class Monitor:
    """Samples the connector. ``serve()`` starts the threads. ``live`` returns the state until ``started`` is called."""

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        health: Health,
        live: Callable[[], Live],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._located: TableLocation | None = None
        self._metrics = metrics
        self.health = health
        self._live = live
        self._ends: Ends | None = None
        self._clock = clock
        self._answered_at = clock()
        self._logged_unanswered: frozenset[str] = frozenset()
        self.consoles: list[Console] = [resolve_name(each)(self._status, clock) for each in CONSOLES]

    def found(self, location: TableLocation) -> None:
        """Shows this location from now on. The catalog's location may differ from the location in the settings."""
        self._located = location

    def serve(self, host: str, port: int, allowed_hosts: Collection[str]) -> None:
        """Opens the port, and answers requests on a separate thread. ``AllowedHosts`` describes ``allowed_hosts``.

        Raises:
            ConfigError: The port cannot be opened.
        """
        metrics = Exposition(self._metrics.registry, self._status)
        pages: Pages = {"/metrics": lambda: Response(metrics.text(), media_type="text/plain; version=0.0.4")}
        for console in self.consoles:
            pages = console.open(pages)
        probes: Pages = {
            "/health/live": lambda: _to_response(self.health.live()),
            "/health/ready": kept(lambda: _to_response(self._live().ready)),
        }
        serve(listen(host, port), pages, probes, AllowedHosts(allowed_hosts))
        threading.Thread(target=self._watch, name="monitor", daemon=True).start()

    def started(self, live: Callable[[], Live], ends: Ends) -> None:
        """Notes that consuming begins. From now on, ``live`` returns the state, and ``ends`` returns end offsets."""
        self._live = live
        self._answered_at = self._clock()
        self._ends = ends
        self._metrics.consuming()

    # --- on the monitor's thread ------------------------------------------------------------------------------------

    def _watch(self) -> None:
        is_answered, samples = False, 0
        while True:
            if self._ends and not (is_answered and samples % _SAMPLES_PER_QUERY):
                is_answered = self._query_ends(self._ends)
            self.sample()
            time.sleep(_SAMPLE_SECONDS)
            samples += 1

    def sample(self) -> None:
        status = self._status()
        for console in self.consoles:
            console.sample(status)
        self._log_unanswered(status.live)

    def _log_unanswered(self, live: Live) -> None:
        """Logs a missing answer once. No other code logs a missing answer, because no error is raised."""
        unanswered = {wait.doing: wait for wait in live.waits if wait.is_unanswered}
        for doing in unanswered.keys() - self._logged_unanswered:
            wait = unanswered[doing]
            system = "Kafka" if wait.system == "Kafka" else f"the {wait.system}"
            logger.warning("%s: %s has not answered for %.0f s. Still waiting", doing, system, wait.seconds)
        for doing in self._logged_unanswered - unanswered.keys():
            logger.info("%s: continuing", doing)
        self._logged_unanswered = frozenset(unanswered)

    def _query_ends(self, ends: Ends) -> bool:
        """Queries Kafka for end offsets; returns whether it has answered."""
        waits = self._metrics.waits
        try:
            offsets = ends(self._metrics.counts().positions.keys())
        except ConnectorError as error:
            waits.failed(error, since=self._answered_at)
            return False
        except Exception:
            logger.debug("asking Kafka for the ends of the partitions", exc_info=True)
            return False
        self._answered_at = self._clock()
        waits.over()
        self._metrics.reaches(offsets)
        return True

    # --- on the thread of the server ---------------------------------------------------------------------------------

    def _status(self) -> Status:
        return Status(self._settings, self._located, self._live(), self._metrics.counts())


def _to_response(probe: Probe) -> Response:
    return JSONResponse({"ok": probe.ok, "detail": probe.detail}, 200 if probe.ok else 503)
