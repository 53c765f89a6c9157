"""Settings of several topics, and of one of their tables."""

from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from app.config.environment import SettingsError
from app.errors import ConfigError
from app.journal.entry import group_folder
from app.journal.first_offsets import noted_topics
from app.parts import commands
from app.service.lake import new_store
from tests.support.commands import run_command
from tests.support.environment import load


@pytest.mark.parametrize(
    ("read", "topics", "others"),
    [
        ("orders", ["orders"], ["orders2", "order"]),
        ("orders, payments,orders", ["orders", "payments"], ["orders,payments", ""]),
        ("^db[.]public[.].*", ["db.public.a", "db.public."], ["db_public.a", "x.db.public.a"]),
        ("^a{1,2}", ["a", "aa"], ["2}"]),
        ("^a|b", ["a", "ab", "b"], ["xb"]),
        ("^.*", ["orders"], ["__consumer_offsets"]),
    ],
)
def test_topics_that_are_read(read: str, topics: list[str], others: list[str]) -> None:
    settings = load(input=read)
    assert [topic for topic in topics + others if settings.reads(topic)] == topics
    assert settings.has_several == (read != "orders")


@pytest.mark.parametrize(
    ("template", "table"), [("", "orders"), ("{topic}", "orders"), ("raw_{topic}.v1", "raw_orders.v1")]
)
def test_the_table_of_a_topic(template: str, table: str) -> None:
    of_several = load(input="orders,payments", TABLE_NAME=template).of_topic("orders")
    assert of_several.table == load(input="orders", TABLE_NAME=template).table == table
    assert of_several.input_topic == "orders"
    assert not of_several.has_several


def test_without_the_topic_in_its_name_there_is_one_table() -> None:
    settings = load(input="orders,payments", TABLE_NAME="all")
    assert (settings.table, settings.has_several, settings.has_tables) == ("all", True, False)
    assert settings.of_table(None) is settings


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({"TABLE_NAME": "{topic}/x"}, "TABLE_NAME"),
        ({"input": "^a("}, "input"),
        ({"input": r"^orders\d"}, "input"),
        ({"input": "^(?!pay).*"}, "input"),
        ({"input": r"^db[\-_]orders"}, "input"),  # Kafka's client reads a range from the backslash on
        ({"input": "^db[[:alpha:]]+"}, "input"),  # Python reads no class of letters
        ({"input": "orders,^pay.*"}, "input"),
        ({"input": "orders,_odd"}, "TABLE_NAME"),
        ({"input": "^s", "STREAM_TIMEOUT_MS": "1000", "STREAM_TIMEOUT_TOPIC": "silent"}, "STREAM_TIMEOUT_TOPIC"),
        (
            {"input": "orders,silent", "STREAM_TIMEOUT_MS": "1000", "STREAM_TIMEOUT_TOPIC": "silent"},
            "STREAM_TIMEOUT_TOPIC",
        ),
    ],
)
def test_what_several_topics_cannot_have(variables: dict[str, str], problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(**{"input": "orders,payments", **variables})
    assert [line.partition("=")[0].partition(":")[0] for line in caught.value.problems] == [problem]


class TestTheTableOfACommand:
    @pytest.fixture
    def told(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        found: list[Any] = []

        def work(settings: Any, _: Any) -> int:
            found.append(settings)
            if settings.input_topic == "refused":
                raise ConfigError("erasing", "most of it would go")
            return int(settings.input_topic == "payments")

        monkeypatch.setattr("pkgutil.resolve_name", lambda _: work)
        monkeypatch.setattr("signal.signal", lambda *_: None)
        return found

    @pytest.mark.parametrize(
        ("variables", "table", "topic"),
        [
            ({"input": "orders,payments"}, "payments", "payments"),
            ({"input": "^db[.].*", "TABLE_NAME": "raw_{topic}"}, "raw_db.a", "db.a"),
            ({"input": "orders", "TABLE_NAME": "lake"}, "lake", "orders"),
            ({"input": "orders"}, None, "orders"),
        ],
    )
    def test_it_is_chosen(self, told: list[Any], variables: dict[str, str], table: str | None, topic: str) -> None:
        arguments = Namespace(command="audit", tables="each", work="audit", table=table and [table], ends=ExitStack())
        assert commands.run(load(**variables), arguments) == int(topic == "payments")
        assert told[0].input_topic == topic
        assert told[0].table == (table or topic)

    def test_without_a_name_all_that_the_group_has_written_have_their_turn_whatever_becomes_of_others(
        self, told: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        variables = {"input": "^.*", "TABLE_NAME": "raw_{topic}", "STORAGE_URL": tmp_path.as_uri(), "S3_BUCKET": ""}
        settings = load(**variables, CONSUMER_GROUP="ours")
        store = new_store(settings)
        store.connect("data/")
        for topic, group in (("payments", "ours"), ("refused", "ours"), ("orders", "ours"), ("secrets", "theirs")):
            store.overwrite(f"{noted_topics('data', group)}{topic}", b"{}")
            store.overwrite(f"{group_folder(f'data/raw_{topic}', group)}{topic}/0.claim", b"{}")
        for forged in ("secrets", "a b"):  # by who may write into the bucket
            store.overwrite(f"{noted_topics('data', 'ours')}{forged}", b"{}")
        assert run_command(settings, "erase", "--where", "device = 'x'") == 2
        assert [each.table for each in told] == ["raw_orders", "raw_payments", "raw_refused"]
        printed = capsys.readouterr()
        assert printed.out.splitlines() == [f"-- table {each.table}" for each in told]
        assert printed.err == "ERROR! table raw_refused: erasing: most of it would go\n"
        told.clear()
        arguments = ("--table=raw_payments", "--table=raw_orders", "--json")
        assert run_command(settings, "audit", *arguments) == 1
        assert [each.table for each in told] == ["raw_payments", "raw_orders"]
        assert not capsys.readouterr().out

    @pytest.mark.parametrize(
        ("variables", "table"),
        [
            ({"input": "orders,payments", "STORAGE_URL": Path(__file__).parent.as_uri(), "S3_BUCKET": ""}, None),
            ({"input": "orders,payments"}, "order"),
            ({"input": "orders,payments", "TABLE_NAME": "raw_{topic}"}, "orders"),
            ({"input": "orders"}, "payments"),
            ({"input": "^.*"}, "../other"),
        ],
    )
    def test_one_that_is_not_there_is_refused(
        self, told: list[Any], variables: dict[str, str], table: str | None, capsys: pytest.CaptureFixture[str]
    ) -> None:
        arguments = Namespace(command="audit", tables="each", work="audit", table=table and [table], ends=ExitStack())
        assert commands.run(load(**variables), arguments) == 2
        assert not told
        assert "--table" in capsys.readouterr().err
