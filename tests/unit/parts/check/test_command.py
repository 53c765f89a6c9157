"""``python main.py check`` of what needs no system: this machine, and what the settings say."""

import json
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, TopicPartition

from app.monitoring.http_server import AllowedHosts, listen, serve
from tests.support.commands import run_command
from tests.support.environment import local_settings

ALONE = ("--without", "broker", "registry", "catalog", "store", "spark")


def test_programs_read_warnings_beside_the_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = local_settings(tmp_path, HIVE_COLUMNS="Year,Month", HTTP_PORT="0")
    assert run_command(settings, "check", *ALONE, "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    warnings = [warning for line in lines for warning in line["warnings"]]
    assert len(warnings) == 2
    assert "Did you mean year?" in warnings[0]
    assert "Did you mean month?" in warnings[1]


def test_programs_read_of_another_program_in_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    partitions = [TopicPartition("readings", 0)]
    member = SimpleNamespace(
        client_id="old-sink", host="/10.0.0.7", assignment=SimpleNamespace(topic_partitions=partitions)
    )
    described: Future[Any] = Future()
    described.set_result(SimpleNamespace(authorized_operations=None, members=[member], state=ConsumerGroupState.STABLE))
    admin = SimpleNamespace(
        describe_topics=lambda *_, **__: {"readings": described},
        describe_consumer_groups=lambda groups, **__: dict.fromkeys(groups, described),
        list_groups=lambda *_, **__: [],
    )
    topic = SimpleNamespace(name="readings", broker_config=SimpleNamespace(num_partitions=2))
    for name, made in (("listing_topics", lambda: ["readings"]), ("open_topic", topic), ("new_admin", admin)):
        monkeypatch.setattr(f"app.parts.check.command.{name}", lambda *_, made=made, **__: made)
    settings = local_settings(tmp_path, HTTP_PORT="0")
    assert run_command(settings, "check", "--without", "registry", "catalog", "store", "spark", "--json") == 0
    warnings = {(line := json.loads(each))["check"]: line["warnings"] for each in capsys.readouterr().out.splitlines()}
    assert warnings.pop("group")[0].startswith("another program reads topic readings in consumer group ")
    assert not any(warnings.values())


def test_a_port_that_a_running_connector_has_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listener = listen("127.0.0.1", 0)
    serve(listener, {}, {}, AllowedHosts())
    port = str(listener.getsockname()[1])
    assert run_command(local_settings(tmp_path, HTTP_PORT=port), "check", *ALONE) == 0
    assert "is used by a connector that runs here" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["raw_{topic}", "all"])
def test_without_a_broker_each_table_that_the_settings_name_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    settings = local_settings(tmp_path, input="orders,payments", TABLE_NAME=name, HTTP_PORT="0")
    assert run_command(settings, "check", "--without", "broker", "registry", "spark", "--json") == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    tables = {each["subject"] for each in told if each["check"] == "table"}
    assert tables == {name.format(topic=topic) for topic in ("orders", "payments")}
    assert len([each for each in told if each["check"] == "store"]) == 1
    assert not [*tmp_path.glob("data/*")]
