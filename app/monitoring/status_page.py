"""The status page for people, as one HTML document.

It shows the metrics, and the last batches, files and warnings. Text from outside is escaped where it is inserted.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from urllib.parse import quote

from app import formatting
from app.logs import Warned
from app.model import TopicPartition
from app.monitoring import chart
from app.monitoring.history import History
from app.monitoring.metrics import Counts, DeliveredBatch, Identity, Live, Position

_REFRESH_SECONDS = 5
_POINTS = 120  # of a picture: three of its pixels each
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

    ``python_bytes`` and ``java_bytes`` are the memory that the two processes hold, where the system tells.
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
    """The page."""
    live, identity = view.live, view.identity
    tone = _TONES.get(live.state, "bad")
    state = live.state.capitalize()
    return "".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="refresh" content="{_REFRESH_SECONDS}">',
            f"<title>{state}: {escape(identity.topic)}</title>",
            f'<link rel="icon" href="{_icon(_COLOURS[tone])}">',
            f"<style>{_STYLE}</style></head><body><main>",
            "<header><h1>Quix TS Datalake Sink</h1>",
            f'<span class="state {tone}" id="state">{state}</span></header>',
            f'<p class="detail" id="detail">{escape(live.detail)}</p>' if live.detail else "",
            f'<p class="place">Topic <b>{escape(identity.topic)}</b> to <b>{escape(identity.table)}</b>, ',
            f"group <b>{escape(identity.group)}</b>, up <b>{formatting.duration(view.uptime)}</b></p>",
            _tiles(view),
            _pictures(view),
            _warnings(view),
            _partitions(view),
            _batches(view),
            _files(view),
            _footer(view),
            "</main></body></html>\n",
        ]
    )


def _tiles(view: View) -> str:
    counts, live = view.counts, view.live
    recent = view.history.rate(view.monotonic, _RATE_SECONDS)
    python, java = view.python_bytes, view.java_bytes
    memory = formatting.size(python + (java or 0)) if python is not None else _UNKNOWN
    of_memory = f"Python {formatting.size(python)}" if python is not None else ""
    of_memory += f", Java {formatting.size(java)}" if java is not None else ""
    tiles = [
        _tile("Rows in the lake", "rows", f"{counts.rows:,}", "since the start"),
        _tile("Rows a second", "rate", formatting.rate(recent), "over the last minute"),
        _tile("Lag", "lag", _UNKNOWN if counts.lag is None else f"{counts.lag:,}", "messages not committed"),
        _tile(
            "Last commit",
            "commit",
            _ago(view.now, counts.last_commit),
            f"{formatting.counted(live.under_way, 'batch', 'batches')} under way",
        ),
        _tile(
            "Files",
            "files",
            f"{counts.files:,}",
            f"{formatting.size(counts.size)} in {formatting.counted(counts.batches, 'batch', 'batches')}",
        ),
        _tile("Buffer", "buffer", formatting.size(live.buffered), f"of {formatting.size(live.buffer_limit)}"),
        _tile("Memory", "memory", memory, of_memory),
        _tile("Dead letters", "dead-letters", f"{counts.dead_letters:,}", _odd(counts, live)),
    ]
    return f'<dl class="tiles">{"".join(tiles)}</dl>'


def _odd(counts: Counts, live: Live) -> str:
    words = [f"{formatting.counted(counts.rescued, 'value')} rescued"]
    words += [f"{formatting.counted(live.skipped, 'record')} skipped"] if live.skipped else []
    words += [formatting.counted(sum(counts.retries.values()), "retry", "retries")] if counts.retries else []
    return ", ".join(words)


def _tile(title: str, name: str, value: str, more: str) -> str:
    return f'<div><dt>{title}</dt><dd id="{name}">{value}</dd><dd>{more}</dd></div>'


def _pictures(view: View) -> str:
    seconds = chart.window(view.history.span(view.monotonic))
    width = seconds / _POINTS
    rates = chart.draw(view.history.rates(view.monotonic, width), seconds, "Rows a second, over time", "rows")
    lags = chart.draw(view.history.lags(view.monotonic, width), seconds, "Lag in messages, over time", "lag")
    return (
        f'<div class="pair"><section><h2>Into the lake <small>rows a second</small></h2>{rates}</section>'
        f"<section><h2>Lag <small>messages not committed</small></h2>{lags}</section></div>"
    )


def _partitions(view: View) -> str:
    positions = sorted(view.counts.positions.items())
    rows = [_partition(tp, position, view.now) for tp, position in positions[:_MOST_PARTITIONS]]
    heads = ["Partition", "#Lag", "#Committed offset", "#End offset", "Committed"]
    left_out = len(positions) - len(rows)
    more = f'<p class="none">and {left_out:,} more</p>' if left_out else ""
    return _section("Partitions", f"{len(positions):,} assigned", heads, rows, "none assigned", more)


def _partition(tp: TopicPartition, position: Position, now: float) -> list[str]:
    known = [_UNKNOWN if count is None else f"{count:,}" for count in (position.lag, position.committed, position.end)]
    return [escape(str(tp)), *known, _ago(now, position.committed_at)]


def _batches(view: View) -> str:
    rows = [_batch(batch, view.now) for batch in view.counts.last_batches]
    heads = ["Batch", "In the lake", "Sealed, because", "#Rows", "#Files", "#Size", "#Seconds", "of which"]
    return _section("Last batches", "", heads, rows, "none yet")


def _batch(batch: DeliveredBatch, now: float) -> list[str]:
    slowest = sorted(batch.seconds.items(), key=lambda step: -step[1])[:3]
    return [
        f"{batch.number:,}",
        _ago(now, batch.at),
        escape(batch.reason),
        f"{batch.rows:,}",
        f"{batch.files:,}",
        formatting.size(batch.size),
        f"{sum(batch.seconds.values()):.2f}",
        ", ".join(f"{step} {seconds:.2f}" for step, seconds in slowest),
    ]


def _files(view: View) -> str:
    folder = f"{view.identity.root}/"
    rows = [
        [escape(file.key.removeprefix(folder)), f"{file.rows:,}", formatting.size(file.size)]
        for file in view.counts.last_files
    ]
    return _section("Last files", "of the table", ["@Path", "#Rows", "#Size"], rows, "none yet")


def _warnings(view: View) -> str:
    """A list and no table: messages are long, and on a phone they would be out of sight."""
    lines = [
        f"<li><span>{_moment(each.at)}, {_ago(view.now, each.at)}</span> "
        f'<b class="{"wait" if each.level == "WARNING" else "bad"}">{each.level.capitalize()}</b> '
        f"{escape(each.message)}</li>"
        for each in view.warned
    ]
    listed = f"<ul>{''.join(lines)}</ul>" if lines else '<p class="none">none since the start</p>'
    return f"<section><h2>Last warnings and errors <small>times in UTC</small></h2>{listed}</section>"


def _section(
    title: str, more: str, heads: Sequence[str], rows: Iterable[Sequence[str]], none: str, after: str = ""
) -> str:
    """A table. A head that begins with ``#`` is of a column of numbers, one with ``@`` of one with long names.

    The cells are HTML already.
    """
    kinds = [{"#": "number", "@": "name"}.get(head[:1], "") for head in heads]
    lines = ["".join(_cell("td", kind, cell) for kind, cell in zip(kinds, row, strict=True)) for row in rows]
    heading = f"<h2>{title}" + (f" <small>{more}</small>" if more else "") + "</h2>"
    if not lines:
        return f'<section>{heading}<p class="none">{none}</p></section>'
    head = "".join(_cell("th", kind, name.lstrip("#@")) for kind, name in zip(kinds, heads, strict=True))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<section>{heading}<div class="scroll"><table><tr>{head}</tr>{body}</table></div>{after}</section>'


def _cell(tag: str, kind: str, content: str) -> str:
    return f'<{tag} class="{kind}">{content}</{tag}>' if kind else f"<{tag}>{content}</{tag}>"


def _footer(view: View) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in view.identity.versions.items())
    return (
        f"<footer>{_moment(view.now)} UTC, refreshed every {_REFRESH_SECONDS} seconds. "
        '<a href="/metrics">Metrics</a>, <a href="/health/ready">ready</a>, <a href="/health/live">live</a>. '
        f"{escape(versions)}</footer>"
    )


def _ago(now: float, at: float | None) -> str:
    return _UNKNOWN if at is None else f"{formatting.duration(now - at)} ago"


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"


def _icon(colour: str) -> str:
    """A dot in the colour of the state, for the browser's tab."""
    dot = f'<circle cx="8" cy="8" r="7" fill="{colour}"/>'
    picture = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">{dot}</svg>'
    return f"data:image/svg+xml,{quote(picture)}"
