"""Serves probes, metrics and the status page over HTTP, and samples the running connector for them."""

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from app.errors import ConnectorError
from app.logs import RecentWarnings
from app.model import TopicPartition
from app.monitoring import documents
from app.monitoring.exposition import Exposition
from app.monitoring.history import History, Sample
from app.monitoring.http_server import AllowedHosts, Pages, kept, listen, serve
from app.monitoring.metrics import Metrics
from app.monitoring.sentences import headline
from app.monitoring.status import Health, Identity, Live, Probe, Status
from app.monitoring.tables import of_tables
from app.monitoring.waits import OUTAGE_SECONDS

logger = logging.getLogger(__name__)

_SAMPLE_SECONDS = 5.0
_SAMPLES_PER_QUESTION = 2  # about end offsets, to Kafka; without an answer each sample asks again

Ends = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]
"""The partitions' end offsets; raises ``ConnectorError`` if Kafka is away. See ``app.kafka.questions``."""


class Monitor:
    """Starts no thread before ``serve()``; ``live`` samples the connector's state until ``started`` replaces it.

    ``frame_ancestors`` are the origins that may show the status page in a frame.
    """

    def __init__(
        self,
        identity: Identity,
        metrics: Metrics,
        health: Health,
        live: Callable[[], Live],
        clock: Callable[[], float] = time.monotonic,
        frame_ancestors: Collection[str] = (),
    ) -> None:
        self._identity = identity
        self._metrics = metrics
        self._health = health
        self._live = live
        self._frame_ancestors = frame_ancestors
        self._ends: Ends | None = None
        self._history = History()
        self._warned = RecentWarnings()
        self._clock = clock
        self._begin = self._answered_at = clock()
        self._since = _Since(self._begin)
        self._tables = kept(lambda: {each.identity.name: each for each in of_tables(self._status())})
        self._told_unanswered: frozenset[str] = frozenset()

    def found(self, table: str, root: str, dead_letter: str) -> None:
        """Shows this table and dead letter; the catalog may have other addresses than the settings."""
        self._identity = replace(self._identity, table=table, root=root, dead_letter=dead_letter, is_found=True)

    def serve(self, host: str, port: int, allowed_hosts: Collection[str]) -> None:
        """Opens the port, and answers on a thread; ``allowed_hosts`` as in ``AllowedHosts``.

        Raises:
            ConfigError: the port cannot be opened.
        """
        metrics, several = Exposition(self._metrics.registry, self._status), self._identity.has_tables
        pages: Pages = {
            "/": self._page,
            "/partitions": partial(self._page, "render_partitions"),
            **({"/tables": partial(self._page, "render_tables"), "/table-{table}": self._table} if several else {}),
            "/metrics": lambda: Response(metrics.text(), media_type="text/plain; version=0.0.4"),
            "/docs": partial(RedirectResponse, "docs/"),  # relative: a proxy may have put a path before it
            **{path: partial(self._document, path) for path in documents.paths()},
        }
        probes: Pages = {
            "/health/live": lambda: _probed(self._health.live()),
            "/health/ready": kept(lambda: _probed(self._live().ready)),
        }
        serve(listen(host, port), pages, probes, AllowedHosts(allowed_hosts))
        logging.getLogger().addHandler(self._warned)
        threading.Thread(target=self._watch, name="monitor", daemon=True).start()

    def started(self, live: Callable[[], Live], ends: Ends) -> None:
        """Samples the running parts with ``live`` and the end offsets with ``ends``, from the start of consuming on."""
        self._live = live
        self._answered_at = self._clock()
        self._ends = ends
        self._metrics.consuming()

    # --- on a thread of its own -------------------------------------------------------------------------------------

    def _watch(self) -> None:
        is_answered, samples = False, 0
        while True:
            if self._ends and not (is_answered and samples % _SAMPLES_PER_QUESTION):
                is_answered = self._ask(self._ends)
            self.sample()
            time.sleep(_SAMPLE_SECONDS)
            samples += 1

    def sample(self) -> None:
        status = self._status()
        live, counts = status.live, status.counts
        is_outage = any(wait.seconds >= OUTAGE_SECONDS for wait in live.waits)
        totals = counts.totals
        self._history.add(Sample(status.monotonic, totals.rows, counts.lag, totals.size, is_outage, status.age))
        self._since.note(status)
        self._tell_unanswered(live)

    def _tell_unanswered(self, live: Live) -> None:
        """Logs a missing answer once: without an error nothing else logs it."""
        unanswered = {wait.doing: wait for wait in live.waits if wait.is_unanswered}
        for doing in unanswered.keys() - self._told_unanswered:
            wait = unanswered[doing]
            system = "Kafka" if wait.system == "Kafka" else f"the {wait.system}"
            logger.warning("%s: %s has not answered for %.0f s. Still waiting", doing, system, wait.seconds)
        for doing in self._told_unanswered - unanswered.keys():
            logger.info("%s: it goes on", doing)
        self._told_unanswered = frozenset(unanswered)

    def _ask(self, ends: Ends) -> bool:
        """Asks Kafka for end offsets; returns whether it has answered."""
        waits = self._metrics.waits
        try:
            found = ends(self._metrics.counts().positions.keys())
        except ConnectorError as error:
            waits.failed(error, since=self._answered_at)
            return False
        except Exception:
            logger.debug("asking Kafka how far the partitions go", exc_info=True)
            return False
        self._answered_at = self._clock()
        waits.over()
        self._metrics.reaches(found)
        return True

    # --- on the thread of the server ---------------------------------------------------------------------------------

    def _status(self) -> Status:
        return Status(self._identity, self._live(), self._metrics.counts(), self._history, self._clock())

    def _table(self, table: str) -> Response | None:
        status = self._tables().get(table)
        return self._page(of_table=status) if status else None  # it may be of another replica now

    def _page(self, name: str = "render", of_table: Status | None = None) -> Response:
        from app.monitoring import status_page  # noqa: PLC0415 - loaded at the first view

        status = self._status()
        java = status.live.java_pid
        view = status_page.View(
            of_table or status,
            warned=self._warned.newest_first(),
            uptime=status.monotonic - self._begin,
            seconds=status.monotonic - self._since.note(status),
            python_bytes=resident_bytes(os.getpid()),
            java_bytes=resident_bytes(java) if java else None,
            is_of_table=of_table is not None,
        )
        return HTMLResponse(getattr(status_page, name)(view), headers=status_page.policy(self._frame_ancestors))

    def _document(self, path: str) -> Response:
        from app.monitoring import status_page  # noqa: PLC0415

        content, kind = documents.read(path)
        shown = content if isinstance(content, bytes) else status_page.render_document(path, content)
        return Response(shown, media_type=kind, headers=status_page.policy(self._frame_ancestors))


class _Since:
    """Knows since when the connector is as it is now, in monotonic seconds."""

    def __init__(self, now: float) -> None:
        self._begin = self._well_at = now
        self._like_this = ""

    def note(self, status: Status) -> float:
        """Returns when this state began. The table is behind since it last had all records in time."""
        state, now = status.live.state, status.monotonic
        is_behind = state in ("consuming", "paused") and headline(status).tone == "wait"
        like_this = "behind" if is_behind else state
        if like_this != self._like_this:
            self._like_this, self._begin = like_this, self._well_at if is_behind else now
        if not is_behind:
            self._well_at = now - (status.age or 0.0) if status.is_up_to_date else now
        return self._begin


def _probed(probe: Probe) -> Response:
    return JSONResponse({"ok": probe.ok, "detail": probe.detail}, 200 if probe.ok else 503)


def resident_bytes(pid: int) -> int | None:
    """Returns the memory of the process in bytes; ``None`` if it has ended, or without ``/proc``."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
