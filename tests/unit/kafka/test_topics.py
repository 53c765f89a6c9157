"""Brokers that cannot be reached, and topics that are not there; brokers that can are for the integration tests."""

from collections.abc import Callable

import pytest
from quixstreams.kafka import ConnectionConfig

from app.errors import ConfigError, ConnectorError, RetryableError
from app.kafka.topics import listing_topics, missing_topic
from tests.fakes.raw_server import raw_server
from tests.support.waiting import wait_until


def listing(address: str, protocol: str = "plaintext") -> Callable[[], list[str]]:
    connection = ConnectionConfig.from_librdkafka_dict({"bootstrap.servers": address, "security.protocol": protocol})
    return listing_topics(connection, answer_seconds=1.0)


def known(address: str, cause: str, protocol: str = "plaintext") -> ConnectorError:
    """The error once the client knows the cause; it may not in its first answers."""
    ask = listing(address, protocol)
    found: list[ConnectorError] = []

    def is_known() -> bool:
        with pytest.raises(ConnectorError) as caught:
            ask()
        found.append(caught.value)
        return cause in caught.value.cause

    wait_until(is_known, cause)
    return found[-1]


# --- the broker -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "cause"),
    [
        ("127.0.0.1:1", "Connection refused"),
        ("no-such-host.invalid:9092", "Failed to resolve 'no-such-host.invalid:9092'"),
    ],
)
def test_the_error_of_an_absent_broker_has_address_and_reason_and_its_client_logs_nothing(
    address: str, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = known(address, cause)
    assert type(error) is RetryableError
    assert str(error).startswith(f"connecting to Kafka at {address}: ")
    assert "KAFKA_BOOTSTRAP_SERVERS" in error.hint
    assert caplog.messages == []


def test_tls_with_a_broker_that_speaks_none_is_a_mistake_in_the_settings() -> None:
    with raw_server(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        error = known(f"127.0.0.1:{port}", "SSL handshake failed", "ssl")
    assert type(error) is ConfigError
    assert "KAFKA_SECURITY_PROTOCOL" in error.hint


def test_inside_a_container_localhost_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.container.is_container", lambda: True)
    with pytest.raises(RetryableError) as caught:
        listing("127.0.0.1:1")()
    assert "127.0.0.1 is this container itself: for a server on its host use host.docker.internal" in caught.value.hint


# --- the topic ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "topics", "cause"),
    [
        ("sensor-data", ["sensordata", "clicks"], "it does not exist; similar: sensordata"),
        ("SENSOR-DATA", ["sensor-data", "clicks"], "it does not exist; similar: sensor-data"),
        ("sensor-data", ["orders", "clicks"], "it does not exist; there are: clicks, orders"),
        ("sensor-data", list("fedcba"), "it does not exist; there are: a, b, c, d, e, …"),
        ("sensor-data", [], "it does not exist, and the broker shows the user no topics"),
        ("sensor-data", ["__consumer_offsets"], "it does not exist, and the broker shows the user no topics"),
    ],
)
def test_the_error_of_a_missing_topic_names_similar_ones(name: str, topics: list[str], cause: str) -> None:
    error = missing_topic(name, topics)
    assert type(error) is ConfigError
    assert str(error) == (
        f"finding the input topic '{name}': {cause}. "
        "Create the topic, let the user describe it, or set the variable input to its name"
    )
