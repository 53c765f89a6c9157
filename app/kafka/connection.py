"""How Kafka's clients connect and log in: properties for librdkafka that no log line shows."""

import contextlib
import logging
import re
import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from pydantic import PrivateAttr
from quixstreams.kafka import ConnectionConfig

from app.errors import ConfigError, one_line

# librdkafka writes to standard error what no logger takes.
_silent = logging.getLogger(f"{__name__}.check")
_silent.setLevel(logging.CRITICAL)

# Of each client: consumers, producers and admin clients. KAFKA_CLIENT_CONFIG overrides them.
EVERY_CLIENT: Mapping[str, Any] = {
    # With librdkafka's default, a client with a waiting request reconnects to a dead broker without any pause.
    "enable.sparse.connections": False,
    # Asked for a topic that is gone, admin clients and producers would create it again.
    "allow.auto.create.topics": False,
}
_POLL_SECONDS = 1.0


class KafkaConnection(ConnectionConfig):
    """The brokers, and further properties of librdkafka for all clients: consumers, producers and admin clients.

    quixstreams gives the properties of a connection to each client that it makes, after all others. Its own class knows
    a part of librdkafka's properties, and logs a key in PEM as it is. This one keeps them where nothing shows them.
    """

    _properties: dict[str, Any] = PrivateAttr(default_factory=dict)

    @classmethod
    def to(cls, brokers: str, properties: Mapping[str, Any]) -> "KafkaConnection":
        """A connection to ``brokers`` (``host:port,…``); properties that are ``None`` are left out."""
        connection = cls(bootstrap_servers=brokers)
        connection._properties = {name: value for name, value in properties.items() if value is not None}
        return connection

    def as_librdkafka_dict(self, plaintext_secrets: bool = True) -> dict[str, Any]:
        """All properties; without secrets, the brokers alone."""
        brokers: dict[str, Any] = super().as_librdkafka_dict(plaintext_secrets)
        return brokers | self._properties if plaintext_secrets else brokers


def uses_callback(connection: ConnectionConfig) -> bool:
    """Whether the login needs clients to be polled, because a callback makes its tokens."""
    return "oauth_cb" in connection.as_librdkafka_dict()


def token_failure(connection: ConnectionConfig) -> tuple[str, str] | None:
    """Why the callback of the login has made no token, and the hint; ``None`` if it did, or if the login has none."""
    callback = connection.as_librdkafka_dict().get("oauth_cb")
    return (callback.failure, callback.hint) if callback and callback.failure else None


def check_properties(properties: Mapping[str, str], of_consumer: Mapping[str, Any]) -> None:
    """Check that librdkafka takes these properties of ``KAFKA_CLIENT_CONFIG``, for a consumer and for a producer.

    ``of_consumer`` is what the connector sets for its consumer. Nothing is connected, so no login is tried.
    """
    if not properties:
        return
    try:
        Producer({**properties, "logger": _silent})
        Consumer({**of_consumer, **properties, "group.id": "check", "logger": _silent}).close()
    except (KafkaException, TypeError, ValueError) as error:
        raise ConfigError("reading KAFKA_CLIENT_CONFIG", client_words(error), "Check KAFKA_CLIENT_CONFIG") from None


def client_words(error: Exception) -> str:
    """Why a client of Kafka could not be made, as librdkafka says it."""
    cause = error.args[0].str() if isinstance(error, KafkaException) else str(error)
    return one_line(re.sub(r"^Failed to create [a-z ]+: ", "", cause))


def poll_in_background(*clients: Any) -> None:
    """Poll clients that nothing else polls, every second, as long as the process lives."""

    def poll() -> None:
        with contextlib.suppress(RuntimeError):  # closed: the process ends
            while True:
                for client in clients:
                    client.poll(0)
                time.sleep(_POLL_SECONDS)

    for client in clients:
        client.poll(0)  # here, for quixstreams makes the client at its first use
    threading.Thread(target=poll, name="kafka-login", daemon=True).start()
