"""Every kind of login, at a Kafka that asks for it: what works, and what is said of what does not."""

import logging
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from quixstreams import Application

from app.config.environment import load_settings
from app.config.settings import Settings
from app.consumer.plain.client import BrokerPresence, new_client
from app.errors import ConfigError, ConnectorError, RetryableError
from app.kafka.topics import listing_topics, new_admin
from app.model import TopicPartition as OurPartition
from app.retries import Request, Waits
from app.service.kafka_client import kafka_connection, new_application, open_group
from app.service.lake import new_location, new_store
from app.timings import Timings
from tests.fakes.token_server import CLIENT, SCOPE, SECRET, unsigned_token
from tests.services.secured_kafka import KEY_PASSWORD, PASSWORD, USER, SecuredKafka, secured_kafka
from tests.support.waiting import PATIENCE, wait_until

TOPIC = "readings"

Environment = dict[str, str]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as kafka:
        kafka.kafka.create_topic(TOPIC)
        yield kafka


class Signer:
    """In place of AWS' signer: its tokens have no signature, and this broker asks for none.

    The client asks for another one when 80 % of ``seconds`` are over. To the broker all are good for an hour.
    """

    def __init__(self) -> None:
        self.regions: list[str] = []
        self.threads: list[str] = []
        self.seconds = 600
        self.failure: Exception | None = None
        self.token: str | None = None

    def __call__(self, region: str) -> tuple[str, int]:
        self.regions.append(region)
        self.threads.append(threading.current_thread().name)
        if self.failure:
            raise self.failure
        return self.token or unsigned_token(3600), int((time.time() + self.seconds) * 1000)


@pytest.fixture
def signer(monkeypatch: pytest.MonkeyPatch) -> Signer:
    made = Signer()
    module = types.ModuleType("aws_msk_iam_sasl_signer.MSKAuthTokenProvider")
    module.generate_auth_token = made  # type: ignore[attr-defined]
    package = module.__name__.partition(".")[0]
    monkeypatch.setitem(sys.modules, package, types.ModuleType(package))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return made


def certificates(kafka: SecuredKafka, key: str = "client") -> Environment:
    return {
        "KAFKA_SSL_CERTIFICATE": str(kafka.folder / "client.pem"),
        "KAFKA_SSL_KEY": str(kafka.folder / f"{key}.key"),
    }


def mtls(kafka: SecuredKafka, **others: str) -> Environment:
    return {
        "KAFKA_BOOTSTRAP_SERVERS": kafka.address("MTLS"),
        "KAFKA_SECURITY_PROTOCOL": "SSL",
        "KAFKA_SSL_CA_LOCATION": str(kafka.folder / "ca.pem"),
        **others,
    }


def sasl(kafka: SecuredKafka, listener: str, mechanism: str, **others: str) -> Environment:
    return {
        "KAFKA_BOOTSTRAP_SERVERS": kafka.address(listener),
        "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "KAFKA_SASL_MECHANISM": mechanism,
        **others,
    }


def password(kafka: SecuredKafka, **others: str) -> Environment:
    login = {"KAFKA_SASL_USERNAME": USER, "KAFKA_SASL_PASSWORD": PASSWORD}
    return sasl(kafka, "PASSWORD", "PLAIN", **login) | others


def oidc(kafka: SecuredKafka, **others: str) -> Environment:
    login = {
        "KAFKA_SASL_USERNAME": CLIENT,
        "KAFKA_SASL_PASSWORD": SECRET,
        "KAFKA_OAUTH_TOKEN_URL": kafka.tokens.url,
        "KAFKA_OAUTH_SCOPE": SCOPE,
        "KAFKA_OAUTH_CA_LOCATION": str(kafka.folder / "ca.pem"),
    }
    return sasl(kafka, "OIDC", "OAUTHBEARER", **login) | others


def msk(kafka: SecuredKafka, **others: str) -> Environment:
    return sasl(kafka, "UNSIGNED", "AWS_MSK_IAM", AWS_REGION="eu-west-1") | others


def settings_of(environment: Mapping[str, str], folder: Path) -> Settings:
    lake = {"STORAGE_URL": folder.as_uri(), "input": TOPIC, "HTTP_PORT": "0"}
    with patch.dict("os.environ", lake | dict(environment), clear=True):
        return load_settings()


def application_of(settings: Settings, folder: Path) -> Application:
    return new_application(Application, settings, new_location(settings, new_store(settings), None), folder)


def topics_of(environment: Mapping[str, str], folder: Path, *, tries_again: bool = True) -> list[str]:
    """Ask a broker that answers or refuses in some try; one that is away is asked once."""
    connection = kafka_connection(settings_of(environment, folder))
    assert connection is not None
    wait_seconds, answer_seconds = (PATIENCE, 2.0) if tries_again else (0.0, 20.0)
    return Waits().retry(Request("Kafka"), listing_topics(connection, answer_seconds), give_up_seconds=wait_seconds)


# --- right ones -------------------------------------------------------------------------------------------------------

RIGHT: dict[str, Callable[[SecuredKafka], Environment]] = {
    "encrypted key": lambda kafka: mtls(
        kafka, **certificates(kafka, key="client-encrypted"), KAFKA_SSL_KEY_PASSWORD=KEY_PASSWORD
    ),
    "scram": lambda kafka: password(kafka, KAFKA_SASL_MECHANISM="SCRAM-SHA-512"),
    "oidc": lambda kafka: oidc(kafka, KAFKA_OAUTH_EXTENSIONS="logicalCluster=lkc-1,identityPoolId=p-1"),
    "msk": msk,
    "texts in PEM": lambda kafka: mtls(
        kafka,
        KAFKA_SSL_CA_LOCATION=(kafka.folder / "ca.pem").read_text(),
        KAFKA_SSL_CERTIFICATE=(kafka.folder / "client.pem").read_text().replace("\n", "\\n"),
        KAFKA_SSL_KEY=(kafka.folder / "client.key").read_text(),
    ),
}


@pytest.mark.parametrize("login", RIGHT.values(), ids=RIGHT)
def test_all_clients_log_in(
    secured: SecuredKafka, signer: Signer, tmp_path: Path, login: Callable[[SecuredKafka], Environment]
) -> None:
    secured.tokens.scopes.clear()
    application = application_of(settings_of(login(secured), tmp_path), tmp_path)
    value = f"{time.time_ns()}".encode()

    with application.get_producer() as producer:
        producer.produce(TOPIC, value)
    with application.get_consumer(auto_commit_enable=False) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        wait_until(lambda: polled(consumer) == value, "the record", pause=0)
    assert application.topic(TOPIC).broker_config.num_partitions == 1
    assert TOPIC in new_admin(application.config.broker_address).list_topics(timeout=30).topics
    assert set(secured.tokens.scopes) == ({SCOPE} if login is RIGHT["oidc"] else set())
    assert set(signer.regions) == ({"eu-west-1"} if login is msk else set())


def polled(consumer: Any) -> bytes | None:
    message = consumer.poll(0.5)
    return message.value() if message and not message.error() else None


# --- wrong ones -------------------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[Callable[[SecuredKafka], Environment], type[ConnectorError], str, str]] = {
    "no certificate": (mtls, ConfigError, "certificate required", "KAFKA_SSL_CERTIFICATE and KAFKA_SSL_KEY"),
    "another host": (
        lambda kafka: mtls(kafka, KAFKA_BOOTSTRAP_SERVERS=kafka.address("MTLS").replace("127.0.0.1", "localhost")),
        ConfigError,
        "certificate verify failed",
        "KAFKA_BOOTSTRAP_SERVERS contains the host names",
    ),
    "no TLS": (
        lambda kafka: {"KAFKA_BOOTSTRAP_SERVERS": kafka.address("MTLS")},
        RetryableError,
        "",
        "set KAFKA_SECURITY_PROTOCOL",
    ),
    "password": (
        lambda kafka: password(kafka, KAFKA_SASL_PASSWORD="wrong"),
        ConfigError,
        "Invalid username or password",
        "Check KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD",
    ),
    "mechanism": (
        lambda kafka: password(kafka, KAFKA_SASL_MECHANISM="SCRAM-SHA-256"),
        ConfigError,
        "supported mechanisms: PLAIN",
        "Set KAFKA_SASL_MECHANISM to one that the brokers support",
    ),
    "client secret": (
        lambda kafka: oidc(kafka, KAFKA_SASL_PASSWORD="wrong"),
        ConfigError,
        "invalid_client",
        "Check KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD: the server of KAFKA_OAUTH_TOKEN_URL refuses them",
    ),
    "authority of the server of tokens": (
        lambda kafka: oidc(kafka, KAFKA_OAUTH_CA_LOCATION=str(kafka.folder / "other-ca.pem")),
        ConfigError,
        "certificate",
        "KAFKA_OAUTH_CA_LOCATION",
    ),
}


@pytest.mark.parametrize(("login", "kind", "cause", "hint"), WRONG.values(), ids=WRONG)
def test_a_wrong_login_names_its_variable(
    secured: SecuredKafka,
    tmp_path: Path,
    login: Callable[[SecuredKafka], Environment],
    kind: type[ConnectorError],
    cause: str,
    hint: str,
) -> None:
    with pytest.raises(kind) as caught:
        topics_of(login(secured), tmp_path, tries_again=kind is ConfigError)

    assert cause in caught.value.cause
    assert hint in caught.value.hint
    assert "wrong" not in str(caught.value).replace("is wrong", ""), "the password is not told"


def test_a_token_of_another_key_is_refused(secured: SecuredKafka, signer: Signer, tmp_path: Path) -> None:
    signer.token = "x" * 40
    with pytest.raises(ConfigError, match=r"invalid_token.*The brokers refuse the token\. Check KAFKA_OAUTH_SCOPE"):
        topics_of(msk(secured), tmp_path)


def test_missing_credentials_of_aws_are_named(secured: SecuredKafka, signer: Signer, tmp_path: Path) -> None:
    signer.failure = AttributeError("'NoneType' object has no attribute 'access_key'")
    with pytest.raises(
        ConfigError, match=r"no token for the login: no AWS credentials were found\. Check the connector's role"
    ):
        topics_of(msk(secured), tmp_path)


def test_kerberos_says_that_this_client_is_built_without(secured: SecuredKafka, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="KAFKA_SASL_MECHANISM=GSSAPI needs a librdkafka built with Kerberos"):
        topics_of(sasl(secured, "PASSWORD", "GSSAPI"), tmp_path)


# --- after a while ----------------------------------------------------------------------------------------------------


def test_clients_that_are_only_asked_get_new_tokens_too(secured: SecuredKafka, signer: Signer, tmp_path: Path) -> None:
    signer.seconds = 10
    application = application_of(settings_of(msk(secured), tmp_path), tmp_path)
    offsets = open_group(application.config, new_admin(application.config.broker_address), TOPIC, Timings())
    before = offsets.of(OurPartition(TOPIC, 0))
    wait_until(lambda: signer.threads.count("kafka-login") >= 2, "another token for the consumer and the admin client")
    assert offsets.of(OurPartition(TOPIC, 0)) == before


@pytest.mark.night
def test_a_login_that_is_refused_later_is_told_and_loses_nothing(
    secured: SecuredKafka, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secured.tokens, "seconds", 10)  # renewed after 8; the broker takes it for an hour
    application = application_of(settings_of(oidc(secured), tmp_path), tmp_path)
    consumer = new_client(application.config, BrokerPresence().properties)
    values: list[bytes | None] = []

    def poll_until(happened: Callable[[], bool], what: str) -> None:
        def polled_and_happened() -> bool:
            values.append(polled(consumer))
            return happened()

        wait_until(polled_and_happened, what, pause=0)

    with closing(consumer), caplog.at_level(logging.ERROR, "app.consumer.plain.client"):
        consumer.assign([TopicPartition(TOPIC, 0, secured.kafka.count(TOPIC))])
        assert polled(consumer) is None

        monkeypatch.setattr(secured.tokens, "secret", "another")
        secured.kafka.produce(TOPIC, [(None, b"late", None, None)])
        poll_until(lambda: "logging in to Kafka" in caplog.text, "the refusal")
        monkeypatch.setattr(secured.tokens, "secret", SECRET)
        poll_until(lambda: b"late" in values, "the record")

    assert "Check KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD" in caplog.text
    assert "No record is lost" in caplog.text
    assert values.count(b"late") == 1
