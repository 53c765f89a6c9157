"""The connection and login of Kafka's clients: properties for librdkafka that no log line shows."""

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

# Without a logger, librdkafka writes to standard error.
_silent = logging.getLogger(f"{__name__}.check")
_silent.setLevel(logging.CRITICAL)

# Properties of each client: consumers, producers and admin clients. KAFKA_CLIENT_CONFIG overrides them.
EVERY_CLIENT: Mapping[str, Any] = {
    # With librdkafka's default, a client with a waiting request reconnects to a dead broker without a pause.
    "enable.sparse.connections": False,
    # Otherwise a query for a deleted topic lets admin clients and producers create it again.
    "allow.auto.create.topics": False,
}
_POLL_SECONDS = 1.0


class KafkaConnection(ConnectionConfig):
    """The brokers, and further properties of librdkafka for all clients: consumers, producers and admin clients.

    quixstreams passes the properties of a connection to each client, after all other properties. The class of
    quixstreams supports only some of librdkafka's properties, and logs a PEM key. This class never shows properties.
    """

    _properties: dict[str, Any] = PrivateAttr(default_factory=dict)

    @classmethod
    def to(cls, brokers: str, properties: Mapping[str, Any]) -> "KafkaConnection":
        """Return a connection to ``brokers`` (``host:port,…``), without the properties that are ``None``."""
        connection = cls(bootstrap_servers=brokers)
        connection._properties = {name: value for name, value in properties.items() if value is not None}
        return connection

    def as_librdkafka_dict(self, plaintext_secrets: bool = True) -> dict[str, Any]:
        """Return all properties. Without ``plaintext_secrets``, return only the brokers."""
        brokers: dict[str, Any] = super().as_librdkafka_dict(plaintext_secrets)
        return brokers | self._properties if plaintext_secrets else brokers


def uses_callback(connection: ConnectionConfig) -> bool:
    """Whether clients must be polled for the login, because a callback creates the tokens."""
    return "oauth_cb" in connection.as_librdkafka_dict()


def token_failure(connection: ConnectionConfig) -> tuple[str, str] | None:
    """Return why the login's callback failed to create a token, and the hint; ``None`` without a failure."""
    callback = connection.as_librdkafka_dict().get("oauth_cb")
    return (callback.failure, callback.hint) if callback and callback.failure else None


def check_properties(properties: Mapping[str, str], of_consumer: Mapping[str, Any]) -> None:
    """Check that librdkafka accepts these properties of ``KAFKA_CLIENT_CONFIG``, for a consumer and for a producer.

    ``of_consumer`` contains the connector's own properties for its consumer. No client connects or logs in.
    """
    if not properties:
        return
    try:
        Producer({**properties, "logger": _silent})
        Consumer({**of_consumer, **properties, "group.id": "check", "logger": _silent}).close()
    except (KafkaException, TypeError, ValueError) as error:
        raise ConfigError("reading KAFKA_CLIENT_CONFIG", client_words(error), "Check KAFKA_CLIENT_CONFIG") from None


def client_words(error: Exception) -> str:
    """Return librdkafka's message about a client that could not be created."""
    cause = error.args[0].str() if isinstance(error, KafkaException) else str(error)
    return one_line(re.sub(r"^Failed to create [a-z ]+: ", "", cause))


def poll_in_background(*clients: Any) -> None:
    """Poll these clients every second until the process ends, if no other thread polls the clients."""

    def poll() -> None:
        with contextlib.suppress(RuntimeError):  # a closed client: the process ends
            while True:
                for client in clients:
                    client.poll(0)
                time.sleep(_POLL_SECONDS)

    for client in clients:
        client.poll(0)  # on this thread, because quixstreams creates the client at its first use
    threading.Thread(target=poll, name="kafka-login", daemon=True).start()
