"""What the status page says, and that nothing from outside becomes part of it."""

import base64
import hashlib
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest

from app.config.parsers import schedule
from app.logs import Warned
from app.model import DataFile, Maintenance, TopicPartition
from app.monitoring.metrics import Counts, Metrics
from app.monitoring.status import STATES, Consumption, Live, StateName
from app.parts.console.history import History
from app.parts.console.shown_status import of_tables
from app.parts.console.status_page import View, policy, render, render_partitions, render_tables
from app.retries import Trouble
from app.table.existing_table import TableLocation
from tests.support.environment import load
from tests.support.status_views import NOW, VIEWS, changed, running, several
from tests.unit.monitoring.test_metrics import batch

HOSTILE = "<script>alert(1)</script>\"'&amp;<img src=x onerror=y>"


def view(counts: Counts | None = None, live: Live | None = None, *warned: Warned, **others: Any) -> View:
    settings = load(input="sensors", TABLE_NAME="t", Quix__Deployment__ReplicaName="lake-sink-2")
    status = {"settings": settings, "found": settings.location, "history": History(), "monotonic": 100.0}
    counts = replace(counts or Counts(), at=NOW)
    others = {"live": live or Live("consuming"), "seconds": 90.0} | status | others
    return changed(running(), counts=counts, warned=warned, **others)


def counted() -> Counts:
    metrics = Metrics(lambda: NOW - 12)
    metrics.begins(TopicPartition("sensors", 0), 100)
    metrics.reaches({TopicPartition("sensors", 0): 12_345})
    metrics.delivered(batch(7, rows=4_200, files=2, spark=1.5, upload=0.25))
    metrics.committed({TopicPartition("sensors", 0): 4_300})
    metrics.failed_try("upload")
    return metrics.counts()


def text(page: str) -> str:
    visible = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", visible)))


def rows(page: str) -> list[list[str]]:
    [table] = re.findall(r"<table>((?:(?!</table>).)*Oldest record.*?)</table>", page, re.DOTALL)
    return [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in table.split("</tr>")[1:-1]]


def by_id(page: str, name: str) -> str:
    found = re.search(rf'id="{name}">([^<]*)<', page)
    assert found, name
    return unescape(found[1])


def test_the_replica_has_the_names_that_the_platform_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "host-1")
    assert by_id(render(view(settings=load())), "replica") == "host-1"
    assert by_id(render(view()), "replica") == "lake-sink-2"
    assert by_id(render(running()), "replica") == "lake-sink / lake-sink-7d9f5c-2"


def test_the_last_compaction() -> None:
    assert "Compaction" not in text(render(view()))
    settings = load(COMPACT="1d")
    assert by_id(render(view(settings=settings)), "compaction") == "none yet"
    done = Maintenance(NOW - 7_200, NOW - 3_600, 1_200, 40, later=31)
    page = render(view(Counts(maintenance=done), settings=settings))
    assert by_id(page, "compaction") == "1,200 → 40 files"


def test_what_was_too_old() -> None:
    assert 'id="erased"' not in render(view())
    settings = load(KEEP="400d", HIVE_COLUMNS="year")
    assert by_id(render(view(settings=settings)), "erased") == "none yet"
    refused = Maintenance(refused=93.0)
    page = render(view(Counts(maintenance=refused), settings=settings))
    assert by_id(page, "erased") == "none yet"
    done = Maintenance(erased=NOW - 3_600, rows=1_200, left=2)
    page = render(view(Counts(maintenance=done), settings=settings))
    assert by_id(page, "erased") == "1,200"
    assert "erased 1 h ago, 2 folders skipped because of an error, KEEP=400d" in text(page)


def test_the_figures() -> None:
    counts = counted()
    consumption = Consumption(due_in=9.2, oldest=dict.fromkeys(counts.positions, NOW - 12))
    page = render(view(counts, Live("consuming", consumption=consumption)))
    assert by_id(page, "state") == "Consuming"
    assert by_id(page, "rows") == "4,200"
    assert by_id(page, "files") == "2"
    assert by_id(page, "lag") == "8,045"
    assert by_id(page, "next-commit") == "in 9 s"
    assert by_id(page, "freshness") == "12 s"
    assert by_id(page, "complete-to") == "2023-11-14 22:13:08"
    assert by_id(page, "memory") == "1.0 GB"


@pytest.mark.parametrize("state", STATES)
def test_every_state_has_its_name_and_a_headline(state: StateName) -> None:
    page = render(view(live=Live(state)))
    assert by_id(page, "state") == state.capitalize()
    assert f"<title>{by_id(page, 'headline')} | sensors</title>" in page
    assert by_id(page, "since") == "for 1 min 30 s, since 2023-11-14 22:11:50 UTC"


def test_of_very_many_partitions_the_worst_are_on_the_page_and_all_on_another() -> None:
    page, everything = render(VIEWS["500 partitions"]()), render_partitions(VIEWS["500 partitions"]())
    assert [row[0] for row in rows(page)] == ["sensor-data[417]"], "the others are not behind"
    assert '<a href="partitions">All 500 partitions</a>' in page
    assert "Assigned sensor-data 0-499" in text(page)
    assert {row[0] for row in rows(everything)} == {f"sensor-data[{number}]" for number in range(500)}
    assert len(rows(everything)) == 500
    assert rows(everything)[:1] == rows(page)
    assert "24 assigned, none has a problem" in text(render(VIEWS["catching up"]()))


def links(page: str) -> list[str]:
    return re.findall(r'href="table-([^"]*)"', page)


def test_of_very_many_tables_those_that_need_a_look_are_on_the_page_and_all_on_another() -> None:
    page, everything = render(several(60)), render_tables(several(60))
    first = [f"raw_db.public.table_{number:03}" for number in (30, 0, 59)]  # suspended, waiting, the oldest record
    assert links(page)[:3] == links(everything)[:3] == first
    assert (len(links(page)), len(set(links(everything)))) == (10, 60)
    assert '<a href="tables">All 60 tables</a>' in page
    assert "table_009 0-1; and 50 more topics" in text(page)
    assert by_id(page, "headline") == "1 table suspended: raw_db.public.table_030"
    assert by_id(page, "reason") == "Opening the table: speed is a double in COLUMN_TYPES and text in the table."
    assert by_id(page, "next") == "The connector retries in 4 min, after 3 tries. Other tables continue."
    assert by_id(page, "to-do") == "Correct it."
    assert len(render_tables(several(300))) < 150_000
    assert not links(render(view(counted()))), "one topic has no tables"


def test_the_page_of_one_of_several_tables_tells_of_it_alone() -> None:
    whole = several(60)
    maintained = {"keep": "400d", "compact": schedule("1h")}
    whole = changed(whole, settings=whole.status.settings.model_copy(update=maintained))
    pages = [render(replace(whole, status=each, is_of_table=True)) for each in of_tables(whole.status)]
    suspended, waiting, late, fresh = pages[:4]
    assert [by_id(each, "state") for each in pages[:4]] == ["Waiting", "Waiting", "Consuming", "Consuming"]
    assert by_id(suspended, "headline") == by_id(render(whole), "headline")
    assert "Suspended db.public.table_030 0-1" in text(suspended)
    assert by_id(waiting, "reason") == "Adding 3 files to the catalog: 503 Service Unavailable."
    assert [row[0] for row in rows(late)] == ["db.public.table_059[1]", "db.public.table_059[0]"], "the worst first"
    assert "in db.public.table_059[1]" in by_id(late, "reason")
    assert by_id(fresh, "headline") == "Running: the table is up to date"
    assert (by_id(fresh, "rows"), by_id(fresh, "lag"), by_id(fresh, "dead-letters")) == ("4,000", "89", "1")
    assert "to s3://my-lake/data/raw_db.public.table_001 , group" in text(fresh)
    assert "s3://my-lake/data/_dead_letter/raw_db.public.table_001" in text(fresh)
    assert "replay --dry-run --table raw_db.public.table_001" in text(fresh)
    assert "FROM 's3://my-lake/data/raw_db.public.table_001/year=2023/" in text(fresh)
    assert not {"compaction", "erased"} & set(re.findall(r'id="(\w+)"', fresh)), "they are told of all tables together"
    assert not [each for each in pages[3:] if "table_000" in each or "table_059" in each]


def test_partitions_that_are_not_read_come_first() -> None:
    fenced, unclaimed = TopicPartition("sensors", 8), TopicPartition("sensors", 9)
    metrics = Metrics(lambda: NOW - 12)
    for number in range(9):
        metrics.begins(TopicPartition("sensors", number), 0)
    metrics.reaches({TopicPartition("sensors", number): 10 * number for number in range(9)})
    live = Live("waiting", consumption=Consumption(fenced={fenced: "taken over"}, unclaimed=frozenset({unclaimed})))
    page = render(view(metrics.counts(), live))
    assert [row[0] for row in rows(page)] == ["sensors[8]", "sensors[9]"]
    assert "Assigned sensors 0-9 Taken over sensors 8 Being claimed sensors 9" in text(page)


def test_what_a_browser_does_not_show_is_written_out() -> None:
    """Text in another direction could make a topic's name, or what a catalog answers, read as something else."""
    live = Live("failing", failure=Trouble("catalog", "asking\x1b[31m", "\u202eno\u2066\x9b\ud800"))
    shown = view(counted(), live, Warned(NOW, "ERROR", "line\nanother\u2028"))
    page = render(changed(shown, settings=load(input="t\u202egpj.exe", TABLE_NAME="t")))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\ud800]", page)
    assert by_id(page, "reason") == "asking\\u001b[31m: \\u202eno\\u2066\\u009b\\ud800."
    assert "line\\u000aanother\\u2028" in page
    assert "Topic <b>t\\u202egpj.exe</b>" in page


class Tags(HTMLParser):
    """Which tags and attributes there are, and whether each that is opened is closed."""

    VOID = frozenset({"meta", "link", "line", "path", "circle", "rect"})

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
    file = DataFile(f"data/{HOSTILE}.parquet", {}, 1, 1)
    metrics.delivered(replace(batch(), reason=HOSTILE, last_files=[file]))

    def failing(text: str) -> Live:
        return Live("failing", failure=Trouble("store", text, text, text, exit_code=1))

    def page(text: str, counts: Counts) -> str:
        settings = load(input=text, TABLE_NAME="t", CONSUMER_GROUP=text, Quix__Deployment__Name=text)
        status = {"settings": settings, "located": TableLocation(text, text)}  # the table's address is the catalog's
        return render(view(counts, failing(text), Warned(NOW, "ERROR", text), **status))

    hostile = page(HOSTILE, metrics.counts())
    harmless, found = Tags(page("x", counted())), Tags(hostile)
    assert found.open == []
    assert (found.tags, found.attributes) == (harmless.tags, harmless.attributes)
    assert unescape(hostile).count(HOSTILE) == 14


def test_the_page_needs_nothing_but_itself() -> None:
    page = render(view(counted()))
    tags = Tags(page)
    assert not tags.tags & {"script", "img", "iframe", "form", "input", "button", "object", "embed"}
    assert not {name for name in tags.attributes if name.startswith("on") or name in {"src", "style"}}
    assert set(re.findall(r'href="(docs/|[^"]{1,15})', page)) == {
        "data:image/svg+",
        "docs/",
        "./",
        "partitions",
        "metrics",
        "health/ready",
        "health/live",
    }
    assert "url(" not in page
    assert "@import" not in page


def test_the_policy_allows_this_style_sheet_and_no_other() -> None:
    [style] = re.findall(r"<style>(.*?)</style>", render(view()), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    allowed = policy(load())["Content-Security-Policy"]
    assert f"style-src 'sha256-{digest}';" in allowed
    assert "unsafe" not in allowed
    assert allowed.startswith("default-src 'none'")


def test_no_page_may_show_it_in_a_frame_but_those_that_are_named() -> None:
    alone = policy(load())
    assert alone["Content-Security-Policy"].endswith("; frame-ancestors 'none'")
    assert alone["X-Frame-Options"] == "DENY"
    shown = policy(load(HTTP_FRAME_ANCESTORS="https://a.example,https://*.b.example"))
    assert shown["Content-Security-Policy"].endswith("; frame-ancestors https://a.example https://*.b.example")
    assert "X-Frame-Options" not in shown
