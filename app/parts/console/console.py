"""Serves the web pages: the status page, the pages of partitions and tables, and the documentation."""

import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from starlette.responses import HTMLResponse, RedirectResponse, Response

from app.logs import RecentWarnings
from app.monitoring.http_server import Pages, kept
from app.monitoring.status import Status
from app.parts.console import documents
from app.parts.console.history import History, Sample
from app.parts.console.sentences import headline
from app.parts.console.shown_status import ShownStatus, of_tables
from app.retries import OUTAGE_SECONDS


class Console:
    def __init__(self, status: Callable[[], Status], clock: Callable[[], float]) -> None:
        self._status = status
        self._clock = clock
        self._history = History()
        self._warned = RecentWarnings()
        self._begin = clock()
        self._since = _Since(self._begin)
        self._tables = kept(lambda: {table.location.name: table for table in of_tables(self._shown(status()))})

    def open(self, pages: Pages) -> Pages:
        """Return these pages and the console's pages. Begin to collect warnings for the status page."""
        logging.getLogger().addHandler(self._warned)
        several = self._status().settings.has_tables
        return {
            "/": self.page,
            "/partitions": partial(self.page, "render_partitions"),
            **({"/tables": partial(self.page, "render_tables"), "/table-{table}": self._table} if several else {}),
            **pages,
            "/docs": partial(RedirectResponse, "docs/"),  # relative, because a proxy may add a path
            **{path: partial(self._document, path) for path in documents.paths()},
        }

    def sample(self, status: Status) -> None:
        shown, counts, totals = self._shown(status), status.counts, status.counts.totals
        is_outage = any(wait.seconds >= OUTAGE_SECONDS for wait in status.live.waits)
        self._history.add(Sample(shown.monotonic, totals.rows, counts.lag, totals.size, is_outage, shown.age))
        self._since.note(shown)

    # --- on the thread of the server ---------------------------------------------------------------------------------

    def _shown(self, status: Status) -> ShownStatus:
        return ShownStatus(status.settings, status.located, status.live, status.counts, self._history, self._clock())

    def _table(self, table: str) -> Response | None:
        status = self._tables().get(table)
        return self.page(of_table=status) if status else None  # another replica may write the table now

    def page(self, name: str = "render", of_table: ShownStatus | None = None) -> Response:
        from app.parts.console import status_page  # noqa: PLC0415 - loaded at the first view

        status = self._shown(self._status())
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
        return HTMLResponse(getattr(status_page, name)(view), headers=status_page.policy(status.settings))

    def _document(self, path: str) -> Response:
        from app.parts.console import status_page  # noqa: PLC0415

        content, kind = documents.read(path)
        shown = content if isinstance(content, bytes) else status_page.render_document(path, content)
        return Response(shown, media_type=kind, headers=status_page.policy(self._status().settings))


class _Since:
    """Stores the time when the connector's present state began, in monotonic seconds."""

    def __init__(self, now: float) -> None:
        self._begin = self._up_to_date_at = now
        self._state = ""

    def note(self, status: ShownStatus) -> float:
        """Return the time when this state began. If a table is late, return the time when it was last up to date."""
        state, now = status.live.state, status.monotonic
        is_behind = state in ("consuming", "paused") and headline(status).tone == "wait"
        shown_state = "behind" if is_behind else state
        if shown_state != self._state:
            self._state, self._begin = shown_state, self._up_to_date_at if is_behind else now
        if not is_behind:
            self._up_to_date_at = now - (status.age or 0.0) if status.is_up_to_date else now
        return self._begin


def resident_bytes(pid: int) -> int | None:
    """Return the memory of a process in bytes; ``None`` if the process has ended or ``/proc`` is missing."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
