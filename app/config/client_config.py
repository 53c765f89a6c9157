"""Parses ``KAFKA_CLIENT_CONFIG``: properties of librdkafka beside those that the connector sets itself."""

from collections.abc import Mapping
from typing import Final

from app.config.parsers import json_object

# docs/kafka-logins.md has the reasons.
_NEEDED: Final = frozenset(
    {
        "client.id",
        "enable.auto.commit",
        "auto.commit.enable",
        "enable.auto.offset.store",
        "isolation.level",
        "partition.assignment.strategy",
        "group.protocol",
        "group.remote.assignor",
        "group.instance.id",
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "enable.partition.eof",
        "max.partition.fetch.bytes",
        "fetch.message.max.bytes",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "acks",
        "request.required.acks",
        "enable.idempotence",
        "delivery.report.only.error",
        "transactional.id",
    }
)
# The begin of the properties that a variable sets.
_VARIABLES: Final[Mapping[str, str]] = {
    "bootstrap.servers": "KAFKA_BOOTSTRAP_SERVERS",
    "metadata.broker.list": "KAFKA_BOOTSTRAP_SERVERS",
    "security.protocol": "KAFKA_SECURITY_PROTOCOL",
    "sasl.mechanism": "KAFKA_SASL_MECHANISM",
    "sasl.username": "KAFKA_SASL_USERNAME",
    "sasl.password": "KAFKA_SASL_PASSWORD",
    "sasl.oauthbearer.method": "KAFKA_OAUTH_TOKEN_URL",
    "sasl.oauthbearer.token.endpoint.url": "KAFKA_OAUTH_TOKEN_URL",
    "sasl.oauthbearer.client.": "KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD",
    "sasl.oauthbearer.scope": "KAFKA_OAUTH_SCOPE",
    "sasl.oauthbearer.extensions": "KAFKA_OAUTH_EXTENSIONS",
    "https.ca.": "KAFKA_OAUTH_CA_LOCATION",
    "ssl.ca.": "KAFKA_SSL_CA_LOCATION",
    "ssl.certificate.": "KAFKA_SSL_CERTIFICATE",
    "ssl.key.": "KAFKA_SSL_KEY",
    "group.id": "CONSUMER_GROUP",
    "auto.offset.reset": "AUTO_OFFSET_RESET",
}


def parse_client_config(text: str) -> dict[str, str]:
    """Parses a JSON object of names and values; numbers and booleans become text, as librdkafka takes them.

    librdkafka checks names and values later, when a client is made. The message of an error has no value.
    """
    properties = {}
    for name, value in json_object(text).items():
        for begin, variable in _VARIABLES.items():
            if name.startswith(begin):
                raise ValueError(f"must not set {name}: it has the variable {variable}")
        if name in _NEEDED:
            raise ValueError(f"must not set {name}: the connector needs its own value")
        if not isinstance(value, str | int | float):
            raise ValueError(f"must give {name} a text, a number, true or false")  # noqa: TRY004
        properties[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return properties
