"""Which topics may have a table where anybody may create topics."""

from pathlib import Path

import pytest

from app.journal.first_offsets import noted_topics
from app.service.lake import new_store
from app.service.tables import TableAdmission
from app.storage.base import ObjectStore
from tests.support.environment import load


class Bench:
    """A group that reads an expression and may have two tables; the platform puts ``ws-`` before each topic."""

    def __init__(self, folder: Path, topics: str = "^orders.*") -> None:
        variables = {"STORAGE_URL": folder.as_uri(), "S3_BUCKET": "", "CREATE_BUCKET": "true", "TABLE_LIMIT": "2"}
        self.settings = load(input=topics, **variables)
        self.store: ObjectStore = new_store(self.settings)
        self.store.connect("data/")
        self.admission = TableAdmission(self.settings, self.store, "group", "ws-")

    def note(self, topic: str) -> None:
        """A member of the group has opened the table of this topic."""
        self.store.overwrite(f"{noted_topics(self.settings.root, 'group')}{topic}", b"{}")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_there_are_no_more_tables_than_the_limit_and_those_that_were_there_come_first(bench: Bench) -> None:
    for topic in ("orders.new", "orders.gone"):
        bench.note(topic)
    bench.admission.count_noted(["ws-orders.old", "ws-orders.new"])
    assert bench.admission.refusal("ws-orders.old") is None
    assert "TABLE_LIMIT=2" in str(bench.admission.refusal("ws-orders.late"))
    assert bench.admission.refusal("ws-orders.new") is None
    assert bench.admission.refusal("ws-orders.old") is None, "it has its place"


def test_a_table_that_another_member_has_opened_goes_on_beyond_the_limit(bench: Bench) -> None:
    for topic in ("ws-orders.a", "ws-orders.b"):
        assert bench.admission.refusal(topic) is None
    assert bench.admission.refusal("ws-orders.c")
    bench.note("orders.c")
    assert bench.admission.refusal("ws-orders.c") is None


def test_tables_that_another_member_has_opened_count(bench: Bench) -> None:
    bench.note("orders.gone")
    bench.admission.count_noted([])
    for topic in ("orders.a", "orders.b"):
        bench.note(topic)
    assert "TABLE_LIMIT=2" in str(bench.admission.refusal("ws-orders.c"))
    assert bench.admission.refusal("ws-orders.gone") is None, "it is there again, and so is its table"


def test_topics_that_are_named_have_no_limit(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "a,b,c")
    bench.admission.count_noted(["ws-a", "ws-b", "ws-c"])
    assert [bench.admission.refusal(f"ws-{topic}") for topic in "abc"] == [None] * 3


def test_a_topic_that_is_not_read_is_none_of_ours_and_one_whose_name_is_no_table_gets_none(bench: Bench) -> None:
    assert bench.admission.refusal("ws-payments") == ""
    assert "its table's name" in str(bench.admission.refusal("ws-orders/odd"))
