"""COMPACT: one member at each time, and what the others know of it."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from app.config.parsers import schedule
from app.errors import RetryableError
from app.model import Compaction
from app.monitoring.metrics import Metrics
from app.service.self_compaction import SelfCompaction
from app.storage.local.store import LocalStore
from app.table.last_compaction import keep_compaction, last_compaction
from tests.support.waiting import wait_until

ROOT = "data/readings"
RESULT = Compaction(begun=3_600.0, ended=3_700.0, before=40, after=2, later=3)


class Table:
    """Members that write one table, at a time that the test sets; each is due once an hour."""

    def __init__(self, folder: Path, ends: ExitStack) -> None:
        self.folder = folder
        (folder / "lake").mkdir()
        self.store = LocalStore(folder / "lake")
        self.now = 3_590.0
        self.runs: list[Any] = []
        self.code = 0
        self._ends = ends

    def member(self) -> Metrics:
        metrics = Metrics(lambda: self.now)
        scratch = self.folder / f"scratch-{id(metrics)}"
        scratch.mkdir()
        made = SelfCompaction(schedule("1h"), self.store, ROOT, metrics, scratch, lambda: self.now)
        made.start()
        self._ends.callback(made.stop)
        return metrics

    def run(self, arguments: Any, variables: Any, stop: Event, say: Callable[[str], None]) -> int:
        self.runs.append((arguments, variables))
        say("2 folders: 40 files became 2")
        if not self.code:
            keep_compaction(self.store, ROOT, replace(RESULT, begun=self.now))
        return self.code


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    with ExitStack() as ends:
        made = Table(tmp_path, ends)
        monkeypatch.setattr("app.service.self_compaction.run_in_background", made.run)
        monkeypatch.setattr("app.service.self_compaction._LOOK_SECONDS", 0.01)
        yield made


def test_one_of_all_members_compacts_when_it_is_due_and_all_know_what_it_did(table: Table) -> None:
    members = [table.member() for _ in range(4)]
    table.now = 3_601.0
    known = replace(RESULT, begun=3_601.0)
    wait_until(lambda: all(member.counts().compaction == known for member in members), "all know the result")
    [(arguments, variables)] = table.runs
    assert arguments == ("compact", "--when-cold", "60m")
    assert not Path(variables["TMPDIR"]).exists()
    table.now = 7_201.0
    wait_until(lambda: len(table.runs) == 2, "the next one")


def test_none_compacts_where_somebody_has_begun_since_it_was_due(table: Table) -> None:
    metrics = table.member()
    keep_compaction(table.store, ROOT, RESULT)
    wait_until(lambda: metrics.counts().compaction == RESULT, "the member knows of it")
    table.now = 3_600.0
    other = table.member()
    wait_until(lambda: other.counts().compaction == RESULT, "a member that begins at that moment")
    assert not table.runs


def test_a_member_whose_clock_was_ahead_keeps_none_from_it(table: Table) -> None:
    keep_compaction(table.store, ROOT, replace(RESULT, begun=1e9))
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
    wait_until(lambda: "compaction is tried again in" in caplog.text, "it says so")
    monkeypatch.setattr(table.store, "read", read)
    table.now = 3_601.0
    wait_until(lambda: len(table.runs) == 1, "it compacts")


def test_a_damaged_document_names_what_to_do(table: Table) -> None:
    table.store.write(f"{ROOT}/_journal/last-compaction.json", b"{}", replaces=None)
    with pytest.raises(Exception, match=r"last-compaction.json.*Delete the object"):
        last_compaction(table.store, ROOT).read()
