"""What ``check`` says is wrong is what the connector ends with at its start, word for word."""

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException
from confluent_kafka.admin import AclOperation
from quixstreams.models.topics import TopicConfig

from app.config.settings import Settings
from app.delivery.runtime import Runtime
from app.errors import ConnectorError
from app.kafka.group import Writes
from app.monitoring.metrics import Metrics
from app.service.process import Process
from app.service.run import consume
from app.spark.writer import SparkWriter
from app.table.schema import TableSchema
from app.timings import Timings
from tests.fakes.canned_server import Answer, CannedServer
from tests.fakes.catalog_server import CatalogServer
from tests.fakes.ready_writer import ReadyWriter
from tests.support.commands import run_command
from tests.support.environment import local_settings


class Kafka:
    """What brokers answer to the clients."""

    topics: tuple[str, ...] = ("events", "readings")
    members: tuple[Any, ...] = ()  # of the consumer group
    refusal: KafkaError | None = None  # of the login
    allowed: Any = None  # the user's operations; None from brokers that do not say

    def admin(self, config: Mapping[str, Any]) -> Any:
        def list_topics(**_: object) -> Any:
            if self.refusal:
                config["error_cb"](self.refusal)
                raise KafkaException(self.refusal)
            return SimpleNamespace(topics=dict.fromkeys(self.topics))

        def described(names: Any, **_: object) -> Any:
            answer: Future[Any] = Future()
            group = {"members": [], "state": ConsumerGroupState.STABLE}
            answer.set_result(SimpleNamespace(authorized_operations=self.allowed, **group))
            return dict.fromkeys(getattr(names, "topic_names", names), answer)

        return SimpleNamespace(
            poll=lambda _: None,
            list_topics=list_topics,
            describe_topics=described,
            describe_consumer_groups=described,
            list_groups=lambda *_, **__: [SimpleNamespace(error=None, members=self.members)],
        )

    def inspect(self, names: list[str]) -> dict[str, TopicConfig | None]:
        return {name: TopicConfig(1, 1) if name in self.topics else None for name in names}


@dataclass
class World:
    """All is well, but for what a test changes; ``variables`` are the settings."""

    folder: Path
    kafka: Kafka
    ends: ExitStack
    monkeypatch: pytest.MonkeyPatch
    variables: dict[str, str]

    @property
    def settings(self) -> Settings:
        return local_settings(self.folder / "lake", **self.variables)

    def start_error(self) -> str:
        timings = Timings(start_patience_seconds=0.0)
        runtime, spark = Runtime(self.folder, Metrics(timings=timings), timings), ReadyWriter()
        with pytest.raises(ConnectorError) as caught:
            consume(self.settings, runtime, cast(SparkWriter, spark), Process(lambda: None, self.ends))
        return str(caught.value)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    kafka = Kafka()
    monkeypatch.setattr("app.kafka.topics.AdminClient", kafka.admin)
    monkeypatch.setattr("app.kafka.topics._Admin.inspect_topics", lambda _, names, *__, **___: kafka.inspect(names))
    (tmp_path / "lake").mkdir()
    with ExitStack() as ends:
        yield World(tmp_path, kafka, ends, monkeypatch, {"HTTP_PORT": "0"})


def on_platform(world: World) -> None:
    document = {"bootstrap.servers": "localhost:9092", "sasl.password": "hush"}
    server = world.ends.enter_context(CannedServer(Answer(body=json.dumps(document).encode())))
    world.monkeypatch.setenv("Quix__Workspace__Id", "acme-prod")
    world.variables |= {"KAFKA_BOOTSTRAP_SERVERS": "", "Quix__Workspace__Id": "acme-prod"}
    world.variables |= {"Quix__Sdk__Token": "t", "Quix__Portal__Api": server.url}


def port(world: World) -> None:
    taken = world.ends.enter_context(socket.create_server(("127.0.0.1", 0)))
    world.variables |= {"HTTP_PORT": str(taken.getsockname()[1]), "HTTP_HOST": "127.0.0.1"}


def catalog(world: World) -> None:
    server = world.ends.enter_context(CatalogServer())
    world.variables |= {"CATALOG_URL": server.url, "CATALOG_AUTH_TOKEN": "wrong"}


def broker(world: World) -> None:
    world.kafka.refusal = KafkaError(KafkaError._AUTHENTICATION, "no such user")


def topic(world: World) -> None:
    world.variables |= {"input": "raedings"}


def topic_of_the_platform_by_another_name(world: World) -> None:
    on_platform(world)
    world.kafka.topics = ("acme-prod-readings-2",)


def silence(world: World) -> None:
    world.variables |= {"STREAM_TIMEOUT_MS": "1000", "STREAM_TIMEOUT_TOPIC": "evnts"}


def silence_without_hook(world: World) -> None:
    world.variables |= {"STREAM_TIMEOUT_MS": "1000"}


def group(world: World) -> None:
    other = Writes("readings", "s3://elsewhere/readings").client_id
    world.kafka.members = (SimpleNamespace(client_id=other, client_host="/10.0.0.7", assignment=b""),)


def group_without_right(world: World) -> None:
    world.kafka.allowed = [AclOperation.DESCRIBE]


def transform(world: World) -> None:
    world.monkeypatch.setattr("app.transform.transform", lambda sdf: sdf.aply(print))


def registry(world: World) -> None:
    server = world.ends.enter_context(CannedServer(Answer(401)))
    world.variables |= {"KAFKA_VALUE_DESERIALIZER": "avro", "SCHEMA_REGISTRY_URL": server.url}


def store(world: World) -> None:
    (world.folder / "lake").rmdir()
    (world.folder / "lake").write_text("no folder")


def table(world: World) -> None:
    schema = world.folder / "lake/data/readings/_journal/schema.json"
    schema.parent.mkdir(parents=True)
    schema.write_text(json.dumps(TableSchema({"speed": pa.string()}).to_document()))
    world.variables |= {"COLUMN_TYPES": "speed:double"}


WRONG = [
    *(port, catalog, broker, topic, topic_of_the_platform_by_another_name, silence, silence_without_hook),
    *(group, group_without_right, transform, registry, store, table),
]


def name_of(wrong: Callable[[World], None]) -> str:
    return wrong.__name__.partition("_")[0]


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return {(line := json.loads(each))["check"]: line for each in capsys.readouterr().out.splitlines()}


@pytest.mark.parametrize("wrong", WRONG)
def test_check_reports_what_ends_the_start(
    world: World, capsys: pytest.CaptureFixture[str], wrong: Callable[[World], None]
) -> None:
    wrong(world)
    without = ["spark", "registry"][: 1 if wrong is registry else 2]
    assert run_command(world.settings, "check", "--without", *without, "--json") == 1
    failed = {name: line["detail"] for name, line in told(capsys).items() if line["state"] == "failed"}
    assert failed == {name_of(wrong): world.start_error()}


def test_a_mistake_in_transform_ends_the_start_before_anybody_is_asked(world: World) -> None:
    for wrong in (transform, broker, catalog, store):
        wrong(world)
    assert "no attribute 'aply'" in world.start_error()


def test_nothing_that_check_tries_is_missing_above(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (port, catalog, topic, silence, registry):
        wrong(world)
    run_command(world.settings, "check", "--without", "spark", "--json")
    assert told(capsys).keys() == {*map(name_of, WRONG), "plan"}


def test_names_that_an_expression_misses_lack_what_the_platform_puts_before(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    on_platform(world)
    world.kafka.topics, world.variables["input"] = ("acme-prod-readings",), "^orders"
    run_command(world.settings, "check", "--without", "spark", "--json")
    assert "it does not exist; there are: readings. " in told(capsys)["topics"]["detail"]


def test_a_hook_that_the_start_says_is_never_called_is_told(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.monkeypatch.setattr("app.transform.on_stream_timeout", print)
    assert run_command(world.settings, "check", "--without", "broker", "spark", "--json") == 0
    [warning] = told(capsys)["transform"]["warnings"]
    assert "is never called: STREAM_TIMEOUT_MS is not set" in warning
