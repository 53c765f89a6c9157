"""The least rights of the Kafka user, at a Kafka with ACLs: with them all works, and without one its name is told."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from dev.broker import ADMIN_TIMEOUT
from dev.connector import REPO, customised, environment
from dev.kafka import LocalKafka
from tests.e2e.records import records
from tests.e2e.scenario import Scenario, tree_of
from tests.services.main_process import run_main
from tests.services.secured_kafka import PASSWORD

_USERS: Final = tuple(f"user-{number}" for number in range(20))
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_LISTENER = "listener.name.password."

Right = tuple[ResourceType, str, AclOperation]
"""A resource, its name or what its name begins with and ``*``, and what is allowed."""


class GuardedKafka(LocalKafka):
    """Its users may do what is granted to them, once, and nothing else; its own address asks for no login."""

    def __init__(self) -> None:
        passwords = " ".join(f'user_{user}="{PASSWORD}"' for user in _USERS)
        super().__init__(
            listeners={"PASSWORD": "SASL_PLAINTEXT"},
            settings={
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                f"{_LISTENER}sasl.enabled.mechanisms": "PLAIN",
                f"{_LISTENER}plain.sasl.jaas.config": f"{_PLAIN} required {passwords};",
            },
        )
        self._free = iter(_USERS)

    def login(self, *rights: Right, user: str = "") -> dict[str, str]:
        """The settings of the connector for a new user who has these rights alone, or of ``user`` with more rights."""
        user = user or next(self._free)
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        bindings = [
            AclBinding(
                kind,
                name.rstrip("*") or "*",
                ResourcePatternType.PREFIXED if name[-1] == "*" and name != "*" else ResourcePatternType.LITERAL,
                f"User:{user}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for kind, name, operation in rights
        ]
        for done in admin.create_acls(bindings).values() if bindings else ():
            done.result(ADMIN_TIMEOUT)
        return {
            "KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{self.ports['PASSWORD']}",
            "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "KAFKA_SASL_MECHANISM": "PLAIN",
            "KAFKA_SASL_USERNAME": user,
            "KAFKA_SASL_PASSWORD": PASSWORD,
        }


STATE = """
def count(value, state):
    state.set("n", value["n"])
    return value


def transform(sdf):
    return sdf.apply(count, stateful=True)
"""
GROUPED = "def transform(sdf):\n    return sdf.group_by('n')\n"
JOINED = "def transform(sdf, app):\n    return sdf.concat(app.dataframe(app.topic('OUT')))\n"
SENT = "def transform(sdf, app):\n    return sdf.to_topic(app.topic('OUT'))\n"


@pytest.fixture(scope="module")
def guarded() -> Iterator[GuardedKafka]:
    with GuardedKafka() as kafka:
        yield kafka


@pytest.fixture
def scenario(guarded: GuardedKafka, tmp_path: Path) -> Iterator[Scenario]:
    with closing(Scenario(guarded, tmp_path, partitions=2)) as made:
        made.produce(records(100, partitions=2))
        yield made


def of_topic(name: str, *operations: str) -> list[Right]:
    return [(ResourceType.TOPIC, name, AclOperation[operation]) for operation in operations]


def of_reader(scenario: Scenario) -> list[Right]:
    return [*of_topic(scenario.topic, "READ"), (ResourceType.GROUP, scenario.group, AclOperation.READ)]


def checked(scenario: Scenario, login: dict[str, str], root: Path = REPO, others: dict[str, str] | None = None) -> str:
    lake = scenario.local_store | {"CONSUMER_GROUP": scenario.group, "input": scenario.topic, "HTTP_PORT": "0"}
    done = run_main(
        *("check", "--without", "spark"),
        environment=environment({**lake, **login, **(others or {})}),
        main=[str(root / "main.py")],
        folder=root,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("lane", ["plain", "framework"])
def test_to_read_the_topic_and_the_group_is_enough(guarded: GuardedKafka, scenario: Scenario, lane: str) -> None:
    """On both lanes, for ``check`` and for ``try --topic``."""
    login, tree = guarded.login(*of_reader(scenario)), tree_of(lane, scenario.folder)
    connector = scenario.connector(scenario.local_store, login, root=tree)
    scenario.finish(connector, 100)
    assert connector.complaints() == []
    assert sorted(scenario.lake.numbers()) == list(range(100))

    assert "nothing failed" in checked(scenario, login, tree)
    if lane == "plain":
        settings = {"input": scenario.topic, "CONSUMER_GROUP": scenario.group, "S3_BUCKET": "lake-bucket"}
        planned = run_main("try", "--topic", environment=environment(settings | login), main=[str(REPO / "main.py")])
        assert "100 of the newest: 100 rows" in planned.stdout, planned.stderr


def needs(transform: str, scenario: Scenario) -> list[Right]:
    """The rights that it needs beside those of a reader."""
    if transform == JOINED:
        return of_topic(f"out-{scenario.topic}", "READ")
    if transform == SENT:
        return of_topic(f"out-{scenario.topic}", "WRITE")
    kind = "changelog" if transform == STATE else "repartition"
    internal = of_topic(f"{kind}__{scenario.group}--*", "CREATE", "READ", "WRITE")
    return [*of_topic(scenario.topic, "DESCRIBE_CONFIGS"), *internal]


@pytest.mark.parametrize(
    ("transform", "missing"),
    [
        pytest.param(JOINED, None, id="reads another topic", marks=pytest.mark.night),
        pytest.param(JOINED, "Read", id="reads another topic, without Read", marks=pytest.mark.night),
        pytest.param(SENT, None, id="sends", marks=pytest.mark.night),
        pytest.param(SENT, "Write", id="sends, without Write"),
        pytest.param(STATE, None, id="state", marks=pytest.mark.night),
        pytest.param(STATE, "DescribeConfigs", id="state, without DescribeConfigs"),
        pytest.param(STATE, "Create", id="state, without Create", marks=pytest.mark.night),
        pytest.param(GROUPED, None, id="group_by", marks=pytest.mark.night),
        pytest.param(GROUPED, "Write", id="group_by, without Write", marks=pytest.mark.night),
    ],
)
def test_what_transform_sends_and_keeps_needs_more(
    guarded: GuardedKafka, scenario: Scenario, transform: str, missing: str | None
) -> None:
    """In place of the missing right the user may describe: else the topics would not exist for it."""
    guarded.create_topic(f"out-{scenario.topic}")
    tree = customised(scenario.folder / "tree", transform.replace("OUT", f"out-{scenario.topic}"))
    rights = needs(transform, scenario)
    operation = missing and AclOperation["DESCRIBE_CONFIGS" if missing == "DescribeConfigs" else missing.upper()]
    given = [(kind, name, AclOperation.DESCRIBE if allowed == operation else allowed) for kind, name, allowed in rights]
    login = guarded.login(*of_reader(scenario), *given)
    if missing and missing != "Create":  # which Kafka does not tell of a topic that is not there
        assert f"Allow {missing} on " in checked(scenario, login, tree)
    connector = scenario.connector(scenario.local_store, login, root=tree)
    if missing:
        assert connector.wait() == 1
        assert f" {missing} on " in connector.complaints()[-1]
    else:
        assert "nothing failed" in checked(scenario, login, tree)
        scenario.finish(connector, 100)
        assert sorted(scenario.lake.numbers()) == list(range(100))


@pytest.mark.parametrize("may_write", [True, pytest.param(False, marks=pytest.mark.night)])
def test_events_that_may_not_be_sent_do_not_end_the_connector(
    guarded: GuardedKafka, scenario: Scenario, *, may_write: bool
) -> None:
    events = f"out-{scenario.topic}"
    guarded.create_topic(events)
    login = guarded.login(*of_reader(scenario), *of_topic(events, "WRITE" if may_write else "DESCRIBE"))
    settings = {"STREAM_TIMEOUT_MS": "500", "STREAM_TIMEOUT_TOPIC": events}
    told = checked(scenario, login, others=settings)
    assert ("nothing failed" if may_write else f"Allow Write on topic {events}") in told
    connector = scenario.connector(scenario.local_store, login, settings)
    if may_write:
        connector.wait_until(lambda: guarded.count(events) > 0, "an event")
    else:
        connector.wait_for_log(f"an event for topic {events} is lost")
    assert connector.stop() == 0


def test_batch_events_go_on_once_the_right_is_granted(guarded: GuardedKafka, scenario: Scenario) -> None:
    topic = f"batches-{scenario.topic}"
    guarded.create_topic(topic)
    login = guarded.login(*of_reader(scenario), *of_topic(topic, "DESCRIBE"))
    connector = scenario.connector(scenario.local_store, login, BATCH_TOPIC=topic)
    scenario.wait_until_committed(100, by=connector)
    connector.wait_for_log("authorization failed. Events are merged or left out")
    guarded.login(*of_topic(topic, "WRITE"), user=login["KAFKA_SASL_USERNAME"])
    connector.wait_until(lambda: guarded.count(topic) > 0, "an event")
    assert connector.stop() == 0
