"""Renders the status page: the headline, figures, partitions, the last batches, and warnings.

``status_page.html`` is the template for the process or a table, ``partitions.html`` for the lists of partitions and
tables, and ``document.html`` for the documentation. Jinja2 escapes HTML in all values. ``escape_control`` escapes
characters that a browser would not show, or would show in another order.
"""

import base64
import hashlib
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from app import DOCUMENTS, __version__, formatting
from app.config.settings import Settings
from app.errors import System
from app.logs import Warned
from app.monitoring.metrics import DeliveredBatch
from app.monitoring.status import VERSIONS, SparkState
from app.parts.console.documents import Document
from app.parts.console.history import lay_out, window
from app.parts.console.sentences import STEPS, TOO_LONG_SECONDS, Tone, headline, remarks
from app.parts.console.shown_status import HINDRANCES, ShownStatus, listed, of_tables

_REFRESH_SECONDS = 5
_REFRESH_LIST_SECONDS = 30  # for the list of all partitions, because reading it needs longer
_POINTS = 120  # number of points in a chart, three pixels apart
_WORST = 10  # maximum number of partitions or tables on the status page
_RATE_SECONDS = 60.0
_BAR = 300
_UNKNOWN = "\N{EN DASH}"
_COLOURS: dict[Tone, str] = {"good": "#1a9950", "quiet": "#7d8894", "wait": "#d68a00", "bad": "#d93636"}

_STYLE = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
# Allows only this style sheet and the connector's pictures, no scripts, and no content of other servers.
_POLICY = f"default-src 'none'; style-src 'sha256-{_DIGEST}'; img-src 'self' data:; base-uri 'none'; form-action 'none'"


@dataclass(frozen=True, slots=True)
class View:
    """The values that the status page shows.

    Attributes:
        uptime: The number of seconds since the start.
        seconds: The number of seconds since the connector's present state began.
        python_bytes, java_bytes: The memory of the Python process and the Java process; ``None`` if unknown.
        is_of_table: Whether ``status`` describes one of several tables. The other values describe the process.
    """

    status: ShownStatus
    warned: Sequence[Warned]
    uptime: float
    seconds: float
    python_bytes: int | None
    java_bytes: int | None
    is_of_table: bool = False


def policy(settings: Settings) -> dict[str, str]:
    """Return the HTTP headers that limit the page's content, and the sites that may show the page in a frame."""
    if origins := settings.http_frame_ancestors:
        return {"Content-Security-Policy": f"{_POLICY}; frame-ancestors {' '.join(origins)}"}
    return {"Content-Security-Policy": f"{_POLICY}; frame-ancestors 'none'", "X-Frame-Options": "DENY"}


def render(view: View) -> str:
    status, history, now = view.status, view.status.history, view.status.monotonic
    seconds = window(history.span(now))
    step, outages = seconds / _POINTS, history.outages(now)
    rate, byte_rate = history.rate(now, _RATE_SECONDS)
    sizes = {"Python": view.python_bytes, "Java": view.java_bytes}
    memory = {name: size for name, size in sizes.items() if size is not None}
    tables = [] if view.is_of_table else of_tables(status)
    return _STATUS.render(
        **_values(view, _REFRESH_SECONDS),
        warned=view.warned,
        uptime=view.uptime,
        systems=_systems(status),
        tables=tables[:_WORST],
        all_tables=len(tables),
        remarks=list(remarks(status)),
        rate=rate,
        byte_rate=byte_rate,
        rates=lay_out(history.rates(now, step), seconds, outages),
        ages=lay_out(history.series(now, step, "age"), seconds, outages),
        lags=lay_out(history.series(now, step, "lag"), seconds, outages),
        memory=formatting.size(sum(memory.values())) if memory else _UNKNOWN,
        memory_parts=", ".join(f"{name} {formatting.size(size)}" for name, size in memory.items()),
        catching_up=_catching_up(status),
        due=_if_known(_due)(status.live.consumption.due_in),
        rows=status.rows if view.is_of_table else status.outstanding[:_WORST],
        batches=list(zip(status.counts.last_batches, _bars(status.counts.last_batches), strict=True)),
        steps=list(STEPS),
        query=_query(status),
        compaction=_compaction(status),
    )


def render_partitions(view: View) -> str:
    return _PARTITIONS.render(**_values(view, _REFRESH_LIST_SECONDS), rows=view.status.rows, tables=[])


def render_tables(view: View) -> str:
    return _PARTITIONS.render(**_values(view, _REFRESH_LIST_SECONDS), rows=[], tables=of_tables(view.status))


def render_document(path: str, document: Document) -> str:
    """Return the HTML of a page of the documentation. ``path`` is the served path."""
    return _DOCUMENT.render(root="./" + "../" * (path.count("/") - 1), document=document, version=__version__)


def _values(view: View, refresh_seconds: int) -> dict[str, Any]:
    status, top = view.status, headline(view.status)
    names = (status.settings.deployment_name, status.settings.replica_name)
    groups = {"Assigned": [row.tp for row in status.rows]}
    for hindrance in HINDRANCES[:-1]:
        groups[formatting.sentence(hindrance)] = [row.tp for row in status.rows if row.hindrance == hindrance]
    return {
        "settings": status.settings,
        "location": status.location,
        "replica": " / ".join(name for name in names if name) or socket.gethostname(),
        "is_of_table": view.is_of_table,
        "live": status.live,
        "counts": status.counts,
        "age": status.age,
        "complete_to": status.complete_to,
        "top": top,
        "seconds": view.seconds if top.seconds is None else top.seconds,
        "colour": _COLOURS[top.tone],
        "now": status.counts.at,
        "ago": _if_known(partial(_ago, status.counts.at)),
        "refresh_seconds": refresh_seconds,
        "assigned": len(status.rows),
        "groups": {name: listed(tps) for name, tps in groups.items() if tps},
    }


def _systems(status: ShownStatus) -> list[tuple[str, Tone, str]]:
    live, is_found = status.live, status.located is not None
    waits = {wait.system: wait.seconds for wait in reversed(live.waits)}
    tones: dict[SparkState, Tone] = {"running": "good", "starting": "quiet", "gone": "bad"}

    def state_of(system: System, *, is_reached: bool) -> tuple[str, Tone, str]:
        name, seconds = formatting.sentence(system), waits.get(system)
        if seconds is not None:
            tone: Tone = "bad" if seconds >= TOO_LONG_SECONDS else "wait"
            return name, tone, f"not available for {formatting.duration(seconds)}"
        return (name, "good", "available") if is_reached else (name, "quiet", "not reached yet")

    return [
        state_of("Kafka", is_reached=live.state != "starting"),
        state_of("store", is_reached=is_found),
        state_of("catalog", is_reached=is_found) if status.settings.catalog else ("Catalog", "quiet", "not used"),
        ("Spark", tones[live.spark], live.spark),
    ]


def _bars(batches: Sequence[DeliveredBatch]) -> list[list[tuple[str, float, float]]]:
    """Return a bar for each batch. A bar contains each step with the coordinate x and the width, at most ``_BAR``."""
    longest = max((sum(batch.seconds.values()) for batch in batches), default=0.0) or 1.0
    bars = []
    for batch in batches:
        widths = [_BAR * batch.seconds.get(step, 0.0) / longest for step in STEPS]
        begins = accumulate(widths, initial=0.0)
        bars.append(
            [(step, round(x, 1), round(width, 1)) for step, x, width in zip(STEPS, begins, widths, strict=False)]
        )
    return bars


def _query(status: ShownStatus) -> str:
    """Return a DuckDB statement that shows rows of the newest file; empty if no file was written."""
    files = status.counts.last_files
    if not files:
        return ""
    path = f"{status.location.store_uri}/{files[0].key}".replace("'", "''")
    return f"FROM '{path}' LIMIT 20"


def _compaction(status: ShownStatus) -> tuple[str, str] | None:
    """Return the result of the last compaction, and details; ``None`` if COMPACT is not set."""
    if status.compaction_seconds is None:
        return None
    last = status.counts.maintenance
    if last is None:
        return "none yet", f"one each {formatting.duration(status.compaction_seconds)}"
    begun = [f"one began {_ago(status.counts.at, last.begun)}"] if last.begun > last.ended else []
    if not last.ended:
        return "none yet", begun[0]
    more = [f"ended {_ago(status.counts.at, last.ended)}"]
    more += [f"{last.later:,.0f} files in the next run"] if last.later else []
    more += begun
    return f"{last.before:,.0f} → {last.after:,.0f} files", ", ".join(more)


def _catching_up(status: ShownStatus) -> tuple[str, str]:
    """Return texts about the time until the table is up to date, and about the change of the lag."""
    seconds, change, is_consuming = status.catch_up_seconds, status.shrinks_by, status.live.state == "consuming"
    if status.is_up_to_date and (is_consuming or not status.counts.lag):
        caught_up, changes = "up to date", "no record waits longer than a commit"
    else:
        caught_up = "unknown" if seconds is None or not is_consuming else formatting.duration(seconds)
        verb = "shrinks" if (change or 0.0) > 0 else "grows"
        changes = f"the lag {verb} by {formatting.rate(abs(change))} a second" if change else "the lag stays the same"
        if change is None:
            changes = "the change of the lag is not known yet"
    return _UNKNOWN if status.counts.lag is None else caught_up, changes


def _if_known(shown: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return a template filter that formats a value with ``shown``. ``None`` becomes a dash."""
    return lambda value: _UNKNOWN if value is None else shown(value)


def _due(seconds: float) -> str:
    return ("in " if seconds >= 0 else "late by ") + formatting.duration(abs(seconds))


def _ago(now: float, at: float) -> str:
    return f"{formatting.duration(now - at)} ago"


def _page(name: str) -> str:
    """Return the address of a page of the documentation. ``name`` is for example ``operations#memory``."""
    page, mark, heading = name.partition("#")
    return f"{DOCUMENTS}/{page}.md{mark}{heading}"


def _visible(value: object) -> object:
    """Escape characters that a browser would not show. The templates' HTML is not changed."""
    return formatting.escape_control(value) if isinstance(value, str) and not isinstance(value, Markup) else value


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_visible,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.globals |= {"style": _STYLE, "bar_width": _BAR, "versions": VERSIONS}
_ENVIRONMENT.filters |= {
    "age": _if_known(lambda seconds: formatting.duration(seconds) if seconds else "none"),
    "counted": formatting.counted,
    "duration": formatting.duration,
    "headline": headline,
    "moment": _if_known(lambda at: f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"),
    "number": _if_known("{:,}".format),
    "page": _page,
    "rate": formatting.rate,
    "sentence": formatting.sentence,
    "size": formatting.size,
    "step": lambda step: STEPS[step][0],
}
_STATUS = _ENVIRONMENT.get_template("status_page.html")
_PARTITIONS = _ENVIRONMENT.get_template("partitions.html")
_DOCUMENT = _ENVIRONMENT.get_template("document.html")
