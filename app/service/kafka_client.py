"""Creates the connection to Kafka from the settings: login, quixstreams' application, and the group's offsets."""

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeVar

from confluent_kafka.admin import AdminClient
from quixstreams import Application
from quixstreams.app import ApplicationConfig
from quixstreams.models.topics import Topic
from quixstreams.models.topics.exceptions import TopicNotFoundError
from quixstreams.platforms.quix.env import QUIX_ENVIRONMENT

from app.config.parsers import is_pem
from app.config.settings import Settings
from app.consumer.plain.client import new_client
from app.errors import ConfigError, ConnectorError, RetryableError
from app.kafka.connection import EVERY_CLIENT, KafkaConnection, check_properties, poll_in_background, uses_callback
from app.kafka.group import Writes
from app.kafka.questions import GroupOffsets
from app.kafka.topics import Topics, missing_topic, prefix_of
from app.model import EACH_TOPIC, TopicPartition
from app.parts import MSK_LOGIN
from app.table.existing_table import TableLocation
from app.timings import DEFAULT, Timings

logger = logging.getLogger(__name__)

_Application = TypeVar("_Application", bound=Application)

# This size is half of the client's default. The client counts only values; the number of messages limits keys and
# headers. If fewer messages wait, the client fetches more within this number of ms. The default is a second.
_FETCHED_AHEAD_KB = 32 * 1024
_FETCHED_AHEAD = 100
_FETCH_AGAIN_MS = 2
# A broker fills an answer in the client's order of partitions, which never changes. Later partitions would wait.
# Therefore an answer has parts for this number of partitions. Only the first partition's batch may exceed its part.
_MOST_PARTS = 24
# The client notices new partitions after this time. The client's default is five minutes.
_METADATA_MS = 60_000
# A member notices a rebalance at its next heartbeat. With the client's default, no member would read the partitions of
# a member that left for 3 s.
_HEARTBEAT_MS = 500


def new_application(
    kind: Callable[..., _Application],
    settings: Settings,
    location: TableLocation,
    scratch: Path,
    timings: Timings = DEFAULT,
    **others: Any,
) -> _Application:
    """Create the quixstreams application with ``kind``, without connecting. ``others`` replaces arguments.

    ``scratch`` contains the state of ``transform()`` if the platform sets no other folder. Raises ``ConfigError`` if
    the Kafka client refuses its settings, or if the platform does not return a broker.
    """
    consumer_properties = {
        **EVERY_CLIENT,
        "client.id": what_is_written(settings, location).client_id,
        "session.timeout.ms": int(timings.session_seconds * 1000),
        "heartbeat.interval.ms": _HEARTBEAT_MS,
        "queued.max.messages.kbytes": _FETCHED_AHEAD_KB,
        "queued.min.messages": _FETCHED_AHEAD,
        "fetch.queue.backoff.ms": _FETCH_AGAIN_MS,
        **partition_fetch(settings),
        # The client refuses a smaller size than the largest message that the client may produce.
        "fetch.max.bytes": max(settings.memory.fetched_at_once_bytes, _bytes_in(settings, "message.max.bytes")),
        "message.max.bytes": 1_000,
        "topic.metadata.refresh.interval.ms": _METADATA_MS,
    }
    check_properties(settings.client_properties, consumer_properties)
    connection, creates = kafka_connection(settings), others.get("auto_create_topics", False)
    # Without a connection, quixstreams reads the topics of the platform.
    topics = Topics(connection, settings.consumer_group, creates=creates) if connection else None
    arguments: dict[str, Any] = {
        "broker_address": connection,
        "topic_manager": topics,
        "quix_sdk_token": settings.sdk_token,
        "quix_portal_api": settings.portal_api,
        "consumer_group": settings.consumer_group,
        # Claims choose the first offset. If Kafka loses an offset later, the consumer must not skip records silently.
        "auto_offset_reset": "error",
        "consumer_extra_config": consumer_properties,
        "producer_extra_config": {**EVERY_CLIENT},
        "commit_interval": settings.commit_interval,
        "state_dir": QUIX_ENVIRONMENT.state_dir or scratch / "state",
        "consumer_poll_timeout": 0.25,  # signals are handled between polls
        "auto_create_topics": False,
        "broker_availability_timeout": 0,  # the connector waits for a broker, not quixstreams
        "loglevel": None,  # logging is set up already
    }
    try:
        return kind(**arguments | others)
    except Exception as error:
        if settings.broker_address is None:
            raise _platform_failed(settings, error) from error
        raise ConfigError("setting up the Kafka client", str(error), "Check the KAFKA_ variables") from error


def partition_fetch(settings: Settings, partitions: int = _MOST_PARTS) -> dict[str, int]:
    """Return the client's property that limits the bytes of a partition in a broker's answer."""
    most_bytes = settings.memory.fetched_at_once_bytes
    answer_bytes = min(most_bytes, _bytes_in(settings, "fetch.max.bytes") or most_bytes)
    return {"max.partition.fetch.bytes": answer_bytes // min(partitions, _MOST_PARTS)}


def _bytes_in(settings: Settings, name: str) -> int:
    value = settings.client_properties.get(name, "")
    return int(value) if value.isdecimal() else 0


def what_is_written(settings: Settings, location: TableLocation, prefix: str = "") -> Writes:
    return Writes(EACH_TOPIC if settings.has_several else settings.input_topic, location.uri, prefix)


def open_topic(
    settings: Settings, application: Application, visible: Collection[str], variable: str = "input", **options: Any
) -> Topic:
    """Open the topic of this variable. Raise ``ConfigError`` if the topic is not visible."""
    name = str(settings.by_variable()[variable])
    prefix = prefix_of(application)
    if f"{prefix}{name}" in visible:  # quixstreams would create a missing topic
        with asking_for_topics(settings), suppress(TopicNotFoundError):
            return application.topic(name, **options)
    raise missing_topic(name, [each.removeprefix(prefix) for each in visible], variable)


def open_group(config: ApplicationConfig, admin: AdminClient, topic: str | None, timings: Timings) -> GroupOffsets:
    """Create the group's offsets, and query one offset. A missing right on the group then shows at the start."""
    consumer = new_client(config, {"statistics.interval.ms": 0})  # no code reads statistics, which would fill memory
    if uses_callback(config.broker_address):
        poll_in_background(consumer, admin)
    offsets = GroupOffsets(consumer, admin, timings.kafka_answer_seconds)
    try:
        if topic:
            offsets.of(TopicPartition(topic, 0))
    except RetryableError as error:  # for example before Kafka's first group exists; claims query the offsets again
        logger.debug("%s", error)
    return offsets


def kafka_connection(settings: Settings) -> KafkaConnection | None:
    """Return the broker's address and login; ``None`` if quixstreams reads them with the platform's token."""
    if settings.broker_address is None:
        return None
    properties = {
        "security.protocol": settings.security_protocol,
        **_login(settings),
        **_pem("ssl.ca", settings.ssl_ca),
        **_pem("ssl.certificate", settings.ssl_certificate),
        **_pem("ssl.key", settings.ssl_key),
        "ssl.key.password": settings.ssl_key_password,
        **settings.client_properties,
    }
    return KafkaConnection.to(settings.broker_address, properties)


def _login(settings: Settings) -> dict[str, Any]:
    user, password = settings.sasl_username, settings.sasl_password
    match settings.sasl_mechanism:
        case "OAUTHBEARER":
            return {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": user,
                "sasl.oauthbearer.client.secret": password,
                "sasl.oauthbearer.token.endpoint.url": settings.oauth_token_url,
                "sasl.oauthbearer.scope": settings.oauth_scope,
                "sasl.oauthbearer.extensions": settings.oauth_extensions,
                # The client's default is a file that Debian does not have.
                **_pem("https.ca", settings.oauth_ca or "probe"),
            }
        case "AWS_MSK_IAM":  # brokers also accept the token with OAUTHBEARER, which librdkafka supports
            return {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": resolve_name(MSK_LOGIN)(settings)}
        case mechanism:
            return {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}


def _pem(name: str, value: str | None) -> dict[str, str | None]:
    """Return librdkafka's property: ``<name>.location`` for a file, or ``<name>.pem`` for a text in PEM format."""
    return {f"{name}.{'pem' if value and is_pem(value) else 'location'}": value}


@contextmanager
def asking_for_topics(settings: Settings) -> Iterator[None]:
    """Translate errors in quixstreams' requests to the platform into ``ConfigError``."""
    try:
        yield
    except ConnectorError:
        raise
    except Exception as error:
        if settings.broker_address is not None:
            raise
        raise _platform_failed(settings, error) from error


def _platform_failed(settings: Settings, error: Exception) -> ConfigError:
    """Return the error. For an unreadable answer, omit quixstreams' message, because it may contain a password."""
    is_unreadable = isinstance(error, AttributeError | LookupError | TypeError | ValueError)
    return ConfigError(
        f"asking the Quix API at {settings.portal_api}",
        "the answer is not from the Quix API" if is_unreadable else str(error),
        "Check Quix__Portal__Api, Quix__Sdk__Token and Quix__Workspace__Id",
    )
