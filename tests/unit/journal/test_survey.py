"""Objects on their way into a table, or undone, are not of the table: who reads its folders must know them."""

from pathlib import Path

import pytest

from app.errors import FatalError
from app.journal.entry import JournaledFile, journal_key
from app.journal.journal import Intent, Journal
from app.journal.survey import survey
from app.model import TopicPartition
from app.storage.local.store import LocalStore
from tests.unit.journal.journal_bench import whole

ROOT = "data/readings"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "lake")
    store.connect(f"{ROOT}/")
    return store


def journal(store: LocalStore, partition: int, group: str = "group", owner: str = "aaaaaaaa") -> Journal:
    key = journal_key(ROOT, group, TopicPartition("readings", partition))
    return Journal(store, key, owner, roots=(f"{ROOT}/", "data/_dead_letter/readings/"))


def intend(begun: Journal, name: str, also: str) -> None:
    file = JournaledFile(key=f"{ROOT}/{name}.parquet", size=1, rows=1, partition_values={})
    begun.intend(Intent(0, 9, (file,), (f"{ROOT}/.vidx/{also}.parquet",)))


def test_all_journals_of_the_table_are_read(store: LocalStore) -> None:
    for group, partition in (("group", 0), ("group", 1), ("another", 0)):
        begun = journal(store, partition, group)
        begun.begin(-1, "")
        intend(begun, f"{group}-{partition}", f"{group}-{partition}")
    journal(store, 2).begin(4, "")
    store.write(f"{ROOT}/_journal/schema.json", b"{}", replaces=None)

    found = survey(store, ROOT)

    names = {"group-0", "group-1", "another-0"}
    assert found.pending == {f"{ROOT}/{below}{name}.parquet" for name in names for below in ("", ".vidx/")}
    assert not found.rolled_back


def test_what_was_undone_is_revoked(store: LocalStore) -> None:
    first = journal(store, 0)
    first.begin(-1, "")
    intend(first, "never", "never")
    second = journal(store, 0, owner="bbbbbbbb")
    assert second.claim(lambda: True)
    second.recover(lambda _: None, whole)

    found = survey(store, ROOT)

    assert found.rolled_back == {f"{ROOT}/never.parquet", f"{ROOT}/.vidx/never.parquet"}
    assert not found.pending


def test_a_table_without_journals_has_nothing_unfinished(store: LocalStore) -> None:
    found = survey(store, ROOT)
    assert not found.pending | found.rolled_back


def test_a_journal_that_cannot_be_understood_is_refused(store: LocalStore) -> None:
    store.write(f"{ROOT}/_journal/group/readings/0.json", b'{"version": 2}', replaces=None)
    with pytest.raises(FatalError, match=r"reading the journal .*/group/readings/0\.json: version: .*update this one"):
        survey(store, ROOT)
