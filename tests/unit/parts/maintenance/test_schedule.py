"""COMPACT and KEEP: one member at each time, and what the others know of it."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from app.errors import RetryableError
from app.journal.entry import group_folder
from app.journal.first_offsets import noted_topics
from app.model import Maintenance
from app.monitoring.metrics import Metrics
from app.parts.maintenance.record import keep_maintenance, last_maintenance
from app.parts.maintenance.schedule import SelfMaintenance
from app.storage.local.store import LocalStore
from app.table.existing_table import TableLocation
from app.time_texts import duration
from tests.support.environment import local_settings
from tests.support.waiting import wait_until

ROOT = "data/readings"
DAY = 86_400.0
MERGED = {"ended": 3_700.0, "before": 40, "after": 2, "later": 3}
RESULT = Maintenance(begun=3_600.0, ended=3_700.0, before=40, after=2, later=3)


class Table:
    """Members that write one table, at a time that the test sets; compaction is due once an hour."""

    def __init__(self, folder: Path, ends: ExitStack) -> None:
        self.folder = folder
        (folder / "lake").mkdir()
        self.store = LocalStore(folder / "lake")
        self.now = 3_590.0
        self.lakes: dict[str, Any] = {}
        self.open("readings")
        self.runs: list[Any] = []
        self.tables: list[Any] = []  # of each run
        self.code = 0
        self._ends = ends

    def open(self, table: str) -> None:
        self.lakes[table] = SimpleNamespace(store=self.store, location=TableLocation(self.store.uri, f"data/{table}"))

    def member(self, **variables: str) -> Metrics:
        settings = local_settings(self.folder, HIVE_COLUMNS="year", **(variables or {"COMPACT": "1h"}))
        metrics = Metrics(lambda: self.now)
        scratch = self.folder / f"scratch-{id(metrics)}"
        scratch.mkdir()
        runtime = SimpleNamespace(metrics=metrics, scratch=scratch)
        connector: Any = SimpleNamespace(settings=settings, store=self.store, lakes=self.lakes, runtime=runtime)
        lane: Any = None
        self._ends.enter_context(SelfMaintenance(connector, lane, lambda: self.now))
        return metrics

    def run(self, arguments: Any, variables: Any, stop: Event, say: Callable[[str], None]) -> int:
        say("2 folders: 40 files became 2")
        tables = [f"data/{each.removeprefix('--table=')}" for each in arguments if each.startswith("--table=")]
        arguments = tuple(each for each in arguments if not each.startswith("--table="))
        for root in tables if not self.code else ():
            if arguments[0] == "compact":
                keep_maintenance(self.store, root, begun=self.now, **MERGED)
            else:
                age = duration(arguments[arguments.index("--older-than") + 1]).total_seconds()
                keep_maintenance(self.store, root, erased=self.now, age=age, rows=7)
        self.tables.append(tables)
        self.runs.append((arguments, variables))  # the last, so that nothing else changes behind it
        return self.code

    def has_run(self, times: int) -> bool:
        return len(self.runs) == times

    @property
    def commands(self) -> list[tuple[str, ...]]:
        return [arguments for arguments, _ in self.runs]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    with ExitStack() as ends:
        made = Table(tmp_path, ends)
        monkeypatch.setattr("app.parts.maintenance.schedule.run_in_background", made.run)
        monkeypatch.setattr("app.parts.maintenance.schedule._LOOK_SECONDS", 0.01)
        yield made


def test_one_of_all_members_compacts_when_it_is_due_and_all_know_what_it_did(table: Table) -> None:
    members = [table.member() for _ in range(4)]
    table.now = 3_601.0
    known = replace(RESULT, begun=3_601.0)
    wait_until(lambda: all(member.counts().maintenance == known for member in members), "all know the result")
    [(arguments, variables)] = table.runs
    assert arguments == ("compact", "--when-cold", "60m")
    assert not Path(variables["TMPDIR"]).exists()
    table.now = 7_201.0
    wait_until(lambda: len(table.runs) == 2, "the next one")


def test_none_compacts_where_somebody_has_begun_since_it_was_due(table: Table) -> None:
    metrics = table.member()
    keep_maintenance(table.store, ROOT, begun=3_600.0, **MERGED)
    wait_until(lambda: metrics.counts().maintenance == RESULT, "the member knows of it")
    table.now = 3_600.0
    other = table.member()
    wait_until(lambda: other.counts().maintenance == RESULT, "a member that begins at that moment")
    assert not table.runs


def test_a_member_whose_clock_was_ahead_keeps_none_from_it(table: Table) -> None:
    keep_maintenance(table.store, ROOT, begun=1e9)
    table.member()
    table.now = 3_601.0
    wait_until(lambda: len(table.runs) == 1, "it compacts")


def test_a_failure_is_told_and_the_next_time_tries_again(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    table.code = 1
    caplog.set_level(logging.INFO)
    table.member()
    table.now = 3_601.0
    wait_until(lambda: "compact ended with code 1" in caplog.text, "it says so")
    assert "compact: 2 folders: 40 files became 2" in caplog.text
    table.now = 7_201.0
    wait_until(lambda: len(table.runs) == 2, "the next one")


def test_a_store_that_is_away_ends_nothing(
    table: Table, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = table.store.read

    def refuse(_: str) -> None:
        raise RetryableError("reading", "no answer")

    monkeypatch.setattr(table.store, "read", refuse)
    table.member()
    wait_until(lambda: "retrying maintenance in" in caplog.text, "it says so")
    monkeypatch.setattr(table.store, "read", read)
    table.now = 3_601.0
    wait_until(lambda: len(table.runs) == 1, "it compacts")


def test_a_damaged_document_names_what_to_do(table: Table) -> None:
    table.store.write(f"{ROOT}/_journal/last-compaction.json", b'{"begun": null}', replaces=None)
    with pytest.raises(Exception, match=r"last-compaction.json.*Delete the object"):
        last_maintenance(table.store, ROOT).read()


# --- KEEP -----------------------------------------------------------------------------------------------------------

GUARDED = ("erase", "--older-than", "400d", "--at-most", "50")
FREE = ("erase", "--older-than", "400d")
COMPACT = ("compact", "--when-cold", "60m")


def test_what_is_too_old_goes_once_a_day_by_one_member_and_first_at_once(table: Table) -> None:
    table.now = 10 * DAY + 5_000
    members = [table.member(KEEP="400d") for _ in range(3)]
    wait_until(lambda: all((known := each.counts().maintenance) and known.rows for each in members), "all know")
    assert table.commands == [GUARDED]
    late = table.member(KEEP="400d")
    wait_until(lambda: late.counts().maintenance is not None, "a restart on that day does it no more")
    table.now = 11 * DAY + 1
    table.member(KEEP="400d")
    wait_until(partial(table.has_run, 2), "the next day")
    assert table.commands == [GUARDED, FREE], "what goes on from yesterday may be most of the table"


def test_with_compaction_it_goes_before_the_first_one_of_a_day(table: Table) -> None:
    for runs, hour in ((2, 22), (3, 23), (5, 24), (6, 25)):
        table.now = 10 * DAY + hour * 3_600 - 10
        table.member(KEEP="400d", COMPACT="1h")  # another one may not know yet when it is due next
        table.now += 11
        wait_until(partial(table.has_run, runs), f"hour {hour}")
    assert table.commands == [GUARDED, COMPACT, COMPACT, FREE, COMPACT, COMPACT]


@pytest.mark.parametrize(
    ("days_ago", "former", "is_guarded"),
    [(1, "400d", False), (1, "30d", False), (1, "401d", True), (3, "400d", True), (-900, "400d", True)],
)
def test_only_what_goes_on_from_a_run_just_now_may_erase_most_of_the_table(
    table: Table, days_ago: int, former: str, is_guarded: bool
) -> None:
    """Not a shorter KEEP, and not a clock that has jumped by years."""
    table.now = 1_000 * DAY
    age = duration(former).total_seconds()
    keep_maintenance(table.store, ROOT, erased=table.now - days_ago * DAY, age=age)
    table.member(KEEP="400d")
    wait_until(lambda: bool(table.runs), "it begins")
    assert table.commands == [GUARDED if is_guarded else FREE]


def test_what_was_refused_waits_until_it_is_confirmed_and_then_goes_at_once(table: Table) -> None:
    table.now = 10 * DAY + 5_000
    keep_maintenance(table.store, ROOT, begun=table.now - 60, refused=93.0)
    others = [table.member(KEEP="400d", KEEP_CONFIRMED="30d"), table.member(KEEP="400d")]
    wait_until(lambda: all(each.counts().maintenance for each in others), "they know of it")
    assert not table.runs
    members = [table.member(KEEP="400d", KEEP_CONFIRMED="400d") for _ in range(2)]
    wait_until(lambda: all((known := each.counts().maintenance) and known.rows for each in members), "all know")
    assert table.commands == [FREE]


def test_a_run_that_fails_is_not_taken_for_done(table: Table) -> None:
    table.now, table.code = 10 * DAY + 5_000, 1
    table.member(KEEP="400d")
    wait_until(lambda: bool(table.runs), "it begins")
    table.now = 11 * DAY + 1
    table.member(KEEP="400d")
    wait_until(partial(table.has_run, 2), "the next day")
    assert table.commands == [GUARDED, GUARDED]


def test_what_a_former_release_has_stored_is_read(table: Table) -> None:
    body = b'{"begun": 3600, "ended": 3700, "before": 40, "after": 2, "later": 3, "failed": 0, "word": "x"}'
    table.store.write(f"{ROOT}/_journal/last-compaction.json", body, replaces=None)
    assert last_maintenance(table.store, ROOT).read() == RESULT


# --- several tables -------------------------------------------------------------------------------------------------


def test_one_process_goes_through_all_tables_that_are_due_and_one_that_comes_later_has_its_turn(table: Table) -> None:
    table.open("payments")
    keep_maintenance(table.store, "data/payments", begun=3_600.0, **MERGED)
    members = [table.member() for _ in range(2)]
    table.now = 3_601.0
    wait_until(partial(table.has_run, 1), "another member has begun the other table")
    assert table.tables == [["data/readings"]]
    table.open("refunds")
    keep_maintenance(table.store, "data/refunds", begun=3_600.0, before=5)
    wait_until(lambda: all((known := each.counts().maintenance) and known.before == 85 for each in members), "told")
    table.now = 7_201.0
    wait_until(lambda: sum(map(len, table.tables)) == 4, "all three, by one member or by two")
    assert sorted(root for run in table.tables[1:] for root in run) == [
        "data/payments",
        "data/readings",
        "data/refunds",
    ]
    assert {*table.commands} == {COMPACT}


def test_tables_that_this_process_has_not_opened_have_their_turn(table: Table) -> None:
    """The topic of one is gone, another one is suspended since the start, and others are those of another group."""
    names = {"gone": "ours", "aside": "ours", "theirs": "other", "other": "ours"}
    for topic, group in names.items():
        table.store.overwrite(f"{noted_topics('data', group)}{topic}", b"{}")
        table.store.overwrite(f"{group_folder(f'data/{topic}', group)}{topic}/0.json", b"{}")
    table.lakes.clear()
    table.now = 10 * DAY + 5_000
    members = [table.member(KEEP="400d", input="^[^o].*", CONSUMER_GROUP="ours") for _ in range(2)]
    wait_until(lambda: all((known := each.counts().maintenance) and known.rows for each in members), "all know")
    assert sorted(root for run in table.tables for root in run) == ["data/aside", "data/gone"]


def test_what_is_told_is_the_oldest_of_all_tables_and_the_worst(table: Table) -> None:
    table.open("payments")
    keep_maintenance(table.store, ROOT, begun=3_000.0, ended=3_100.0, before=40, failed=1, refused=60)
    keep_maintenance(table.store, "data/payments", begun=2_000.0, ended=3_550.0, before=2, refused=93)
    metrics = table.member(COMPACT="1h", input="readings,payments")
    told = Maintenance(begun=2_000.0, ended=3_100.0, before=42, failed=1, refused=93)
    wait_until(lambda: metrics.counts().maintenance == told, "told")
    of_tables = {name: each.maintenance for name, each in metrics.counts().of_tables.items()}
    assert {name: last and last.refused for name, last in of_tables.items()} == {"readings": 60, "payments": 93}


def test_what_is_refused_of_one_table_leaves_the_others_alone(table: Table) -> None:
    table.open("payments")
    table.now = 10 * DAY + 5_000
    age = duration("400d").total_seconds()
    keep_maintenance(table.store, "data/payments", erased=table.now - DAY, age=age)
    table.member(KEEP="400d")
    wait_until(partial(table.has_run, 2), "each with its own guard")
    assert [*zip(table.commands, table.tables, strict=True)] == [
        (GUARDED, ["data/readings"]),
        (FREE, ["data/payments"]),
    ]


def test_a_table_whose_store_is_away_stops_no_other(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    table.store.write("data/orders/_journal/last-compaction.json", b"{", replaces=None)
    table.lakes.clear()
    table.open("orders")
    table.open("readings")
    table.member()
    table.now = 3_601.0
    wait_until(partial(table.has_run, 1), "the other one")
    assert table.tables == [["data/readings"]]
    assert "Delete the object" in caplog.text
