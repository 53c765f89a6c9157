"""The values of the status page for people: metrics, and the last batches, files and warnings.

``status_page.html`` is the page. Jinja2 escapes all that it inserts there.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from app import formatting
from app.logs import Warned
from app.monitoring.chart import lay_out, window
from app.monitoring.history import History
from app.monitoring.metrics import Counts, Identity, Live

_REFRESH_SECONDS = 5
_POINTS = 120  # of a chart: three of its pixels each
_MOST_PARTITIONS = 50
_RATE_SECONDS = 60.0
_UNKNOWN = "\N{EN DASH}"
_TONES = {"consuming": "good", "starting": "quiet", "stopping": "quiet", "waiting": "wait", "paused": "wait"}
_COLOURS = {"good": "#1a9950", "quiet": "#7d8894", "wait": "#d68a00", "bad": "#d93636"}

_STYLE = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
# This very style sheet, and pictures that are in the page itself, such as its icon. No script, nothing from elsewhere.
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True, slots=True)
class View:
    """All that the page shows. ``now`` is in seconds since the epoch, ``monotonic`` and ``uptime`` are in seconds.

    ``python_bytes`` and ``java_bytes`` are the memory of the two processes, ``None`` where it is unknown.
    """

    identity: Identity
    live: Live
    counts: Counts
    history: History
    warned: Sequence[Warned]
    now: float
    monotonic: float
    uptime: float
    python_bytes: int | None
    java_bytes: int | None


def render(view: View) -> str:
    """The page, as an HTML document that loads nothing else."""
    live, history, positions = view.live, view.history, sorted(view.counts.positions.items())
    seconds = window(history.span(view.monotonic))
    width = seconds / _POINTS
    tone = _TONES.get(live.state, "bad")
    return _PAGE.render(
        identity=view.identity,
        live=live,
        counts=view.counts,
        warned=view.warned,
        now=view.now,
        uptime=view.uptime,
        ago=partial(_ago, view.now),
        tone=tone,
        colour=_COLOURS[tone],
        rate=history.rate(view.monotonic, _RATE_SECONDS),
        rates=lay_out(history.rates(view.monotonic, width), seconds),
        lags=lay_out(history.lags(view.monotonic, width), seconds),
        memory=_memory(view),
        memory_parts=_memory_parts(view),
        oddities=_oddities(view.counts, live),
        next_commit=_next_commit(live),
        partitions=[
            (tp, position, _age(position.freshness(view.now, live.oldest.get(tp))))
            for tp, position in positions[:_MOST_PARTITIONS]
        ],
        partitions_left_out=len(positions[_MOST_PARTITIONS:]),
    )


def _memory(view: View) -> str:
    return _UNKNOWN if view.python_bytes is None else formatting.size(view.python_bytes + (view.java_bytes or 0))


def _memory_parts(view: View) -> str:
    sizes = {"Python": view.python_bytes, "Java": view.java_bytes}
    return ", ".join(f"{name} {formatting.size(size)}" for name, size in sizes.items() if size is not None)


def _oddities(counts: Counts, live: Live) -> str:
    words = [formatting.counted(counts.rescued, "value") + " rescued"]
    words += [formatting.counted(live.skipped, "record") + " skipped"] if live.skipped else []
    words += (
        [formatting.counted(sum(counts.retries.values()), "retry", "retries")] if any(counts.retries.values()) else []
    )
    return ", ".join(words)


def _next_commit(live: Live) -> str:
    if live.commit_due_in is None:
        return ""
    seconds = formatting.duration(abs(live.commit_due_in))
    return f"next in {seconds}, " if live.commit_due_in >= 0 else f"next late by {seconds}, "


def _age(seconds: float | None) -> str:
    if seconds is None:
        return _UNKNOWN
    return formatting.duration(seconds) if seconds else "none"


def _ago(now: float, at: float | None) -> str:
    return _UNKNOWN if at is None else f"{formatting.duration(now - at)} ago"


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"


def _number(count: int | None) -> str:
    return _UNKNOWN if count is None else f"{count:,}"


def _page() -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"style": _STYLE, "refresh_seconds": _REFRESH_SECONDS}
    environment.filters |= {
        "counted": formatting.counted,
        "duration": formatting.duration,
        "moment": _moment,
        "number": _number,
        "rate": formatting.rate,
        "size": formatting.size,
    }
    return environment.get_template("status_page.html")


_PAGE = _page()
