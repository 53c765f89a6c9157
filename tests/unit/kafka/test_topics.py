"""Brokers that cannot be reached, and topics that are not there; brokers that can are for the integration tests."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import pytest
from quixstreams.kafka import ConnectionConfig

from app.errors import ConfigError, FatalError, RetryableError
from app.kafka.topics import find_topics, missing_topic, unreadable_topic
from tests.support.waiting import PATIENCE


@contextmanager
def plain_server() -> Iterator[str]:
    """A server that answers anything with words no Kafka client and no TLS knows."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.recv(1_000)
                    client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def topics_at(
    address: str,
    *,
    wait_seconds: float = 0.0,
    stop: threading.Event | None = None,
    protocol: str = "plaintext",
    on_failure: Callable[[RetryableError], None] = lambda _: None,
) -> list[str]:
    """The topics, by a clock that goes on by a second each time it is looked at."""
    connection = ConnectionConfig.from_librdkafka_dict({"bootstrap.servers": address, "security.protocol": protocol})
    return find_topics(
        connection,
        wait_seconds=wait_seconds,
        stop=stop or threading.Event(),
        clock=map(float, count()).__next__,
        answer_seconds=1.0,
        on_failure=on_failure,
    )


# --- the broker -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "cause"),
    [
        ("127.0.0.1:1", "Connection refused"),
        ("no-such-host.invalid:9092", "Failed to resolve 'no-such-host.invalid:9092'"),
    ],
)
def test_an_absent_broker_is_waited_for_until_a_stop_and_its_error_has_address_and_reason(
    address: str, cause: str
) -> None:
    stop = threading.Event()

    def stop_once_it_is_known(failure: RetryableError) -> None:
        if cause in failure.cause:
            stop.set()

    with pytest.raises(RetryableError) as caught:
        topics_at(address, wait_seconds=PATIENCE, stop=stop, on_failure=stop_once_it_is_known)
    assert str(caught.value).startswith(f"connecting to Kafka at {address}: ")
    assert cause in caught.value.cause
    assert "KAFKA_BOOTSTRAP_SERVERS" in caught.value.hint


def test_tls_with_a_broker_that_speaks_none_is_a_mistake_in_the_settings() -> None:
    with plain_server() as address, pytest.raises(ConfigError) as caught:
        topics_at(address, wait_seconds=1e9, protocol="ssl")
    assert "SSL handshake failed" in caught.value.cause
    assert "KAFKA_SECURITY_PROTOCOL" in caught.value.hint


def test_each_try_that_is_repeated_is_reported_and_the_client_logs_none(caplog: pytest.LogCaptureFixture) -> None:
    failures: list[RetryableError] = []
    with pytest.raises(RetryableError):
        topics_at("127.0.0.1:1", wait_seconds=2.0, on_failure=failures.append)
    assert [type(failure) for failure in failures] == [RetryableError, RetryableError]
    assert caplog.messages == []


def test_inside_a_container_localhost_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.container.is_container", lambda: True)
    with pytest.raises(RetryableError) as caught:
        topics_at("127.0.0.1:1")
    assert "127.0.0.1 is this container itself: for a server on its host use host.docker.internal" in caught.value.hint


# --- the topic ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "topics", "cause"),
    [
        ("sensor-data", ["sensordata", "clicks"], "it does not exist; similar: sensordata"),
        ("SENSOR-DATA", ["sensor-data", "clicks"], "it does not exist; similar: sensor-data"),
        ("sensor-data", ["orders", "clicks"], "it does not exist; there are: clicks, orders"),
        ("sensor-data", list("fedcba"), "it does not exist; there are: a, b, c, d, e, …"),
        ("sensor-data", [], "it does not exist, and the broker shows us no topics at all"),
        ("sensor-data", ["__consumer_offsets"], "it does not exist, and the broker shows us no topics at all"),
    ],
)
def test_the_error_of_a_missing_topic_names_similar_ones(name: str, topics: list[str], cause: str) -> None:
    error = missing_topic(name, topics)
    assert type(error) is ConfigError
    assert str(error) == (
        f"finding the input topic '{name}': {cause}. Create it, or set the variable input to its name"
    )


def test_the_error_of_a_topic_without_rights_names_those_it_needs() -> None:
    error = unreadable_topic("sensor-data", PermissionError("Topic authorization failed"))
    assert type(error) is FatalError
    assert str(error) == (
        "reading the settings of topic 'sensor-data': Topic authorization failed. "
        "The user needs Describe and Read rights on it"
    )
