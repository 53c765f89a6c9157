"""What the status page says, and that nothing from outside becomes part of it."""

import base64
import hashlib
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import pytest

from app.logs import Warned
from app.model import TopicPartition
from app.monitoring.history import History, Sample
from app.monitoring.metrics import STATES, Counts, DeliveredFile, Identity, Live, Metrics, StateName
from app.monitoring.status_page import POLICY, View, render
from tests.unit.monitoring.test_metrics import batch

NOW = 1_700_000_000.0
HOSTILE = "<script>alert(1)</script>\"'&amp;<img src=x onerror=y>"


def view(
    counts: Counts | None = None,
    live: Live | None = None,
    *,
    warned: tuple[Warned, ...] = (),
    history: History | None = None,
) -> View:
    return View(
        identity=Identity("sensors", "group", "s3://lake/data/t", "data/t", {"version": "1.2.3"}, 30.0),
        live=live or Live("consuming", ""),
        counts=counts or Counts(),
        history=history or History(),
        warned=warned,
        now=NOW,
        monotonic=100.0,
        uptime=11_520.0,
        python_bytes=300 * 2**20,
        java_bytes=700 * 2**20,
    )


def counted() -> Counts:
    metrics = Metrics(lambda: NOW - 12)
    metrics.begins(TopicPartition("sensors", 0), 100)
    metrics.reaches({TopicPartition("sensors", 0): 12_345})
    metrics.delivered(batch(7, rows=4_200, files=2, spark=1.5, upload=0.25))
    metrics.committed({TopicPartition("sensors", 0): 4_300})
    metrics.failed_try("upload")
    return metrics.counts()


def text(page: str) -> str:
    """What a person reads, with one space between any two things."""
    visible = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", visible)))


def by_id(page: str, name: str) -> str:
    found = re.search(rf'id="{name}">([^<]*)<', page)
    assert found, name
    return unescape(found[1])


def test_the_figures() -> None:
    page = render(view(counted()))
    assert by_id(page, "state") == "Consuming"
    assert by_id(page, "rows") == "4,200"
    assert by_id(page, "files") == "2"
    assert by_id(page, "lag") == "8,045"
    assert by_id(page, "commit") == "12 s ago"
    assert by_id(page, "memory") == "1.0 GB"
    said = text(page)
    assert "Topic sensors to s3://lake/data/t , group group , up 3 h 12 min" in said
    assert "sensors[0] 8,045 4,300 12,345 12 s ago" in said
    assert "7 12 s ago checkpoint 4,200 2 200 bytes 1.75 spark 1.50, upload 0.25" in said
    assert " 7-1.parquet 2,100 100 bytes" in said
    assert "3 values rescued, 1 retry" in said


def test_what_waits_and_when_the_next_commit_is_due() -> None:
    tp = TopicPartition("sensors", 0)
    page = render(view(counted(), Live("consuming", "", under_way=2, commit_due_in=12.4)))
    assert "12 s ago next in 12 s, 2 batches under way" in text(page)
    page = render(view(counted(), Live("paused", "", oldest={tp: NOW - 7_260}, commit_due_in=-90.0)))
    assert "next late by 1 min 30 s, 0 batches under way" in text(page)
    assert "sensors[0] 8,045 4,300 12,345 12 s ago 2 h 1 min" in text(page)


def test_before_there_is_anything() -> None:
    page = render(view(live=Live()))
    assert by_id(page, "state") == "Starting"
    assert by_id(page, "lag") == by_id(page, "commit") == "\N{EN DASH}"
    assert "Partitions 0 assigned none assigned" in text(page)
    assert "Last warnings and errors times in UTC none since the start" in text(page)


@pytest.mark.parametrize("state", STATES)
def test_every_state_says_why(state: StateName) -> None:
    page = render(view(live=Live(state, "uploading s3://lake/x: no route to host")))
    assert by_id(page, "state") == state.capitalize()
    assert by_id(page, "detail") == "uploading s3://lake/x: no route to host"
    assert f"<title>{state.capitalize()}: sensors</title>" in page


def test_rates_and_lags_are_drawn() -> None:
    history = History()
    for index in range(10):
        history.add(Sample(index * 10.0, index * 100, 50))
    page = render(view(history=history))
    assert page.count('<path class="line" d="M') == 2
    assert 'class="dot"' not in page
    assert 'aria-label="Rows a second, over time"' in page
    assert by_id(page, "rate") == "10.0"


def test_a_single_value_is_drawn_as_a_dot() -> None:
    history = History()
    history.add(Sample(90.0, 100, 50))
    page = render(view(history=history))
    assert '<circle class="dot" cx="380.3" cy="34.3" r="2"/>' in page
    assert "no rows yet" in text(page)
    assert "no lag yet" not in text(page)


def test_of_very_many_partitions_some_are_shown() -> None:
    metrics = Metrics()
    for number in range(80):
        metrics.begins(TopicPartition("sensors", number), 0)
    page = render(view(metrics.counts()))
    assert page.count("sensors[") == 50
    assert "and 30 more" in page


class Tags(HTMLParser):
    """Which tags and attributes there are, and whether each that is opened is closed."""

    VOID = frozenset({"meta", "link", "line", "path", "circle"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_nothing_from_outside_becomes_part_of_the_page() -> None:
    metrics = Metrics()
    metrics.begins(TopicPartition(HOSTILE, 0), 0)
    file = DeliveredFile(f"data/{HOSTILE}.parquet", 1, 1)
    metrics.delivered(replace(batch(), reason=HOSTILE, last_files=[file]))
    shown = view(metrics.counts(), Live("failing", HOSTILE), warned=(Warned(NOW, "ERROR", HOSTILE),))
    identity = Identity(
        HOSTILE, HOSTILE, HOSTILE, HOSTILE, {"version": HOSTILE}, 30.0
    )  # the table's address is the catalog's
    hostile = render(replace(shown, identity=identity))
    harmless = Tags(render(view(counted(), Live("failing", "x"), warned=(Warned(NOW, "ERROR", "x"),))))
    found = Tags(hostile)
    assert found.open == []
    assert (found.tags, found.attributes) == (harmless.tags, harmless.attributes)
    assert unescape(hostile).count(HOSTILE) == 10


def test_the_page_needs_nothing_but_itself() -> None:
    page = render(view(counted()))
    tags = Tags(page)
    assert not tags.tags & {"script", "img", "iframe", "form", "input", "button", "object", "embed"}
    assert not {name for name in tags.attributes if name.startswith("on") or name in {"src", "style"}}
    assert set(re.findall(r'href="([^"]{1,15})', page)) == {
        "data:image/svg+",
        "/metrics",
        "/health/ready",
        "/health/live",
    }
    assert "url(" not in page
    assert "@import" not in page


def test_the_policy_allows_this_style_sheet_and_no_other() -> None:
    [style] = re.findall(r"<style>(.*?)</style>", render(view()), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}';" in POLICY
    assert "unsafe" not in POLICY
    assert POLICY.startswith("default-src 'none'")
