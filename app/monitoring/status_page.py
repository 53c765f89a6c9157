"""The values of the status page for people: the headline, figures, partitions, and the last batches and warnings.

``status_page.html`` is the page, and ``partitions.html`` the one with all partitions. Jinja2 escapes all that it
inserts there, and ``escape_control`` what a browser would not show or would show in another order.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from app import formatting
from app.monitoring.history import History, lay_out, window
from app.monitoring.metrics import Counts, Identity, Live
from app.monitoring.plain_words import plain
from app.monitoring.progress import STEP_NAMES, PartitionRow, Progress, listed, progress, worst_first
from app.monitoring.recent_warnings import Warned
from app.monitoring.sentences import TOO_LONG_SECONDS, Situation, Tone, headline, remarks

_REFRESH_SECONDS = 5
_REFRESH_LIST_SECONDS = 30  # of the list of all partitions: somebody reads it
_POINTS = 120  # of a chart: three of its pixels each
_WORST_PARTITIONS = 10
_RATE_SECONDS = 60.0
_UNKNOWN = "\N{EN DASH}"
_COLOURS: dict[Tone, str] = {"good": "#1a9950", "quiet": "#7d8894", "wait": "#d68a00", "bad": "#d93636"}

_STYLE = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
# This very style sheet, and pictures that are in the page itself, such as its icon. No script, nothing from elsewhere.
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True, slots=True)
class View:
    """All that the page shows.

    Attributes:
        now: in seconds since the epoch; ``monotonic`` and all others are seconds too.
        seconds: for how long the connector has been like this.
        python_bytes, java_bytes: memory of the two processes, ``None`` where it is unknown.
    """

    identity: Identity
    live: Live
    counts: Counts
    history: History
    warned: Sequence[Warned]
    now: float
    monotonic: float
    uptime: float
    seconds: float
    python_bytes: int | None
    java_bytes: int | None


def render(view: View) -> str:
    """Renders the page, as an HTML document that loads nothing else."""
    history, width_of = view.history, window(view.history.span(view.monotonic))
    width = width_of / _POINTS
    rows, situation, values = _values(view, _REFRESH_SECONDS)
    is_held_up = view.live.state != "consuming"
    return _STATUS.render(
        **values,
        warned=view.warned,
        uptime=view.uptime,
        systems=_systems(view),
        remarks=remarks(situation),
        rate=history.rate(view.monotonic, _RATE_SECONDS),
        byte_rate=history.byte_rate(view.monotonic, _RATE_SECONDS),
        rates=lay_out(history.rates(view.monotonic, width), width_of),
        lags=lay_out(history.lags(view.monotonic, width), width_of),
        memory=_memory(view),
        memory_parts=_memory_parts(view),
        catch_up=_catch_up(situation.progress, is_held_up=is_held_up),
        shrinks=_shrinks(situation.progress, is_held_up=is_held_up),
        due=_due(view.live),
        rows=rows[:_WORST_PARTITIONS],
    )


def render_partitions(view: View) -> str:
    rows, _, values = _values(view, _REFRESH_LIST_SECONDS)
    return _PARTITIONS.render(**values, rows=rows)


def _values(view: View, refresh_seconds: int) -> tuple[list[PartitionRow], Situation, dict[str, Any]]:
    """Returns all partitions, the worst first; the situation; the values that both pages show."""
    live, counts = view.live, view.counts
    rows = worst_first(counts, live, view.now)
    done = progress(counts, rows, view.history, view.monotonic, view.identity.commit_interval)
    situation = Situation(view.identity, live, counts, done)
    top = headline(situation)
    return (
        rows,
        situation,
        {
            "identity": view.identity,
            "live": live,
            "counts": counts,
            "progress": done,
            "top": top,
            "seconds": view.seconds if top.seconds is None else top.seconds,
            "colour": _COLOURS[top.tone],
            "now": view.now,
            "ago": partial(_ago, view.now),
            "refresh_seconds": refresh_seconds,
            "assigned": len(rows),
            "groups": _groups(rows),
        },
    )


def _groups(rows: Sequence[PartitionRow]) -> list[tuple[str, str]]:
    """Returns names of groups of partitions, and the partitions as ranges; leaves out groups without any."""
    groups = {"Assigned": rows}
    groups |= {
        formatting.sentence(hindrance): [row for row in rows if row.hindrance == hindrance]
        for hindrance in ("taken over", "being claimed", "paused")
    }
    return [(name, listed(row.tp for row in members)) for name, members in groups.items() if members]


def _systems(view: View) -> list[tuple[str, Tone, str]]:
    """Returns name, colour and state of each system that the connector works with."""
    live, identity = view.live, view.identity
    starts = live.state == "starting"
    waits = {wait.system: wait.seconds for wait in reversed(live.waits)}

    def state_of(system: str, *, is_reached: bool) -> tuple[Tone, str]:
        seconds = waits.get(system)  # type: ignore[call-overload] # one of its names
        if seconds is not None:
            return "bad" if seconds >= TOO_LONG_SECONDS else "wait", f"not available for {formatting.duration(seconds)}"
        return ("good", "available") if is_reached else ("quiet", "not reached yet")

    catalog: tuple[Tone, str] = ("quiet", "not used")
    if identity.has_catalog:
        catalog = state_of("catalog", is_reached=identity.is_found)
    spark: dict[str, tuple[Tone, str]] = {
        "running": ("good", "running"),
        "starting": ("quiet", "starting"),
        "gone": ("bad", "gone"),
    }
    return [
        ("Kafka", *state_of("Kafka", is_reached=not starts)),
        ("Store", *state_of("store", is_reached=identity.is_found)),
        ("Catalog", *catalog),
        ("Spark", *spark[live.spark]),
    ]


def _memory(view: View) -> str:
    return _UNKNOWN if view.python_bytes is None else formatting.size(view.python_bytes + (view.java_bytes or 0))


def _memory_parts(view: View) -> str:
    sizes = {"Python": view.python_bytes, "Java": view.java_bytes}
    return ", ".join(f"{name} {formatting.size(size)}" for name, size in sizes.items() if size is not None)


def _catch_up(done: Progress, *, is_held_up: bool) -> str:
    if done.lag is None:
        return _UNKNOWN
    if done.is_up_to_date and not (done.lag and is_held_up):
        return "up to date"
    if is_held_up:
        return "unknown"
    return "unknown" if done.catch_up_seconds is None else formatting.duration(done.catch_up_seconds)


def _shrinks(done: Progress, *, is_held_up: bool) -> str:
    if done.is_up_to_date and not (done.lag and is_held_up):
        return "no record waits longer than a commit takes"
    if done.shrinks_by is None:
        return "the lag's change is not known yet"
    if done.shrinks_by > 0:
        return f"the lag shrinks by {formatting.rate(done.shrinks_by)} a second"
    return f"the lag grows by {formatting.rate(-done.shrinks_by)} a second" if done.shrinks_by else "the lag stays"


def _due(live: Live) -> str:
    if live.commit_due_in is None:
        return _UNKNOWN
    seconds = formatting.duration(abs(live.commit_due_in))
    return f"in {seconds}" if live.commit_due_in >= 0 else f"late by {seconds}"


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


def _visible(value: object) -> object:
    """Escapes what a browser would not show, in all but the templates' own text."""
    return formatting.escape_control(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"style": _STYLE}
    environment.filters |= {
        "age": _age,
        "counted": formatting.counted,
        "duration": formatting.duration,
        "moment": _moment,
        "number": _number,
        "plain": plain,
        "rate": formatting.rate,
        "sentence": formatting.sentence,
        "size": formatting.size,
        "step": lambda name: STEP_NAMES.get(name, name),
    }
    return environment


_ENVIRONMENT = _environment()
_STATUS = _ENVIRONMENT.get_template("status_page.html")
_PARTITIONS = _ENVIRONMENT.get_template("partitions.html")
