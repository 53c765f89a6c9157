"""Finds the broker and the topics at the start, and checks the rights on them, with errors that say what to do."""

import difflib
import logging
from collections.abc import Callable, Collection, Iterable
from functools import cache, partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient
from quixstreams import Application
from quixstreams.kafka import ConnectionConfig
from quixstreams.models.topics import Topic, TopicAdmin, TopicConfig, TopicManager
from quixstreams.models.topics.exceptions import TopicPermissionError

from app.container import with_own_address
from app.errors import ConfigError, FatalError, RetryableError
from app.kafka.connection import EVERY_CLIENT, client_words, token_failure
from app.kafka.errors import REFUSED
from app.kafka.login_errors import is_refused, login_hint

logger = logging.getLogger(__name__)

_SHOWN_TOPICS = 5
ASKED: Final[dict[str, Any]] = {"include_authorized_operations": True, "request_timeout": 10.0}
_COUNTS = " (after "  # librdkafka adds milliseconds and a count after a cause

# The client logs each failed attempt, but the caller reports the failure.
_client_logger = logging.getLogger(f"{__name__}.client")
_client_logger.addFilter(lambda _: logger.isEnabledFor(logging.DEBUG))


def new_admin(connection: ConnectionConfig, **options: Any) -> AdminClient:
    """Return a client for queries. The client has a logger, because otherwise it would write to standard error."""
    try:
        client = AdminClient({**EVERY_CLIENT, **connection.as_librdkafka_dict(), "logger": logger, **options})
    except (KafkaException, TypeError, ValueError) as error:
        cause = client_words(error)
        raise ConfigError("setting up the Kafka client", cause, login_hint(cause)) from None
    client.poll(0)  # a login by callback creates its first token here
    return client


def listing_topics(connection: ConnectionConfig, answer_seconds: float = 5.0) -> Callable[[], list[str]]:
    """Return a function that lists the names of the visible topics, each time with the same client."""
    errors: list[KafkaError] = []
    client = new_admin(connection, error_cb=errors.append, logger=_client_logger)
    doing = f"connecting to Kafka at {connection.bootstrap_servers}"

    def topics() -> list[str]:
        try:
            return sorted(client.list_topics(timeout=answer_seconds).topics)
        except KafkaException as error:
            client.poll(0)  # the client reports the causes only here, through ``error_cb``
            refused = next((seen for seen in errors if is_refused(seen)), None)
            if refused is not None and (failure := token_failure(connection)) is not None:
                raise ConfigError(doing, f"no token for the login: {failure[0]}", failure[1]) from None
            if refused is not None:
                raise ConfigError(doing, refused.str(), login_hint(refused.str())) from None
            specific = [seen for seen in errors if seen.code() != KafkaError._ALL_BROKERS_DOWN]
            cause = (specific[-1] if specific else error.args[0]).str().partition(_COUNTS)[0].replace("Local: ", "")
        hint = with_own_address(_outage_hint(connection, cause), f"{connection.bootstrap_servers} {cause}")
        raise RetryableError(doing, cause, hint)

    return topics


def _outage_hint(connection: ConnectionConfig, cause: str) -> str:
    if "OAUTHBEARER token" in cause or "PLAINTEXT broker listener" in cause:
        return login_hint(cause)
    hint = "Check KAFKA_BOOTSTRAP_SERVERS, the network and that the broker is up"
    if "security.protocol" in connection.as_librdkafka_dict():
        return hint
    return f"{hint}. If it requires TLS or a login, set KAFKA_SECURITY_PROTOCOL"


def check_topic_rights(admin: AdminClient, *topics: str, right: str = "Read") -> None:
    """Raise ``FatalError`` if this right on a topic is missing. All topics are queried in one request."""
    described = cache(lambda: admin.describe_topics(TopicCollection([*topics]), **ASKED))
    for topic in topics:
        describe_with_right(partial(lambda name: described()[name], topic), right, f"topic {topic}")


def describe_with_right(describe: Callable[[], Any], right: str, what: str) -> Any:
    """Return the description; ``None`` if the broker has none. Raise ``FatalError`` if the right is missing."""
    doing, cause = f"asking for the rights on {what}", f"the user has no right to {right.lower()} it"
    refused = FatalError(doing, cause, f"Allow {right} on {what}")
    try:
        described = describe().result()
    except KafkaException as error:
        if error.args[0].code() in REFUSED:
            raise refused from None
        logger.debug("the rights on %s are unknown: %s", what, error.args[0].str())
        return None
    allowed = described.authorized_operations
    if allowed and not {AclOperation[right.upper()], AclOperation.ALL}.intersection(allowed):
        raise refused
    return described


class Topics(TopicManager):
    """The topics of an application, with the topics' settings if the user may read them."""

    def __init__(self, connection: ConnectionConfig, group: str, *, creates: bool) -> None:
        # The client of quixstreams is idempotent, as producers are, and the user needs a right for that.
        admin = _Admin(connection, extra_config=dict(EVERY_CLIENT))
        super().__init__(admin, group, auto_create_topics=creates)

    @classmethod
    def derive_topic_config(cls, topics: Iterable[Topic]) -> TopicConfig:
        """Return the settings of a topic for state or ``group_by()``, with the retention of these topics."""
        for topic in topics:
            if "retention.ms" not in topic.broker_config.extra_config:
                cause = "the user has no right to read them, and a topic for state or group_by() needs the same"
                hint = f"Allow DescribeConfigs on topic {topic.name}"
                raise FatalError(f"reading the settings of topic {topic.name!r}", cause, hint)
        return super().derive_topic_config(topics)


class _Admin(TopicAdmin):
    def inspect_topics(self, topic_names: list[str], timeout: float = 30) -> dict[str, TopicConfig | None]:
        """Return the settings of topics. Without the right to read settings, return only partitions and replicas."""
        try:
            return super().inspect_topics(topic_names, timeout)
        except TopicPermissionError:
            partitions = {name: topic.partitions for name, topic in self.list_topics(timeout).items()}
        return {
            name: TopicConfig(len(partitions[name]), len(partitions[name][0].replicas), {})
            if name in partitions
            else None
            for name in topic_names
        }


def prefix_of(application: Application) -> str:
    """Return the platform's prefix of each topic's name."""
    return f"{application.config.consumer_group_prefix}-" if application.is_quix_app else ""


def missing_topic(name: str, topics: Collection[str], variable: str = "input") -> ConfigError:
    """Return the error for a missing topic, with similar names. ``variable`` is the setting with the topic's name."""
    visible = sorted(topic for topic in topics if not topic.startswith("__"))
    by_folded = {topic.casefold(): topic for topic in visible}
    similar = [by_folded[match] for match in difflib.get_close_matches(name.casefold(), by_folded, n=_SHOWN_TOPICS)]
    if similar:
        cause = f"it does not exist; similar: {', '.join(similar)}"
    elif visible:
        more = ", …" if len(visible) > _SHOWN_TOPICS else ""
        cause = f"it does not exist; there are: {', '.join(visible[:_SHOWN_TOPICS])}{more}"
    else:
        cause = "it does not exist, and the broker shows the user no topics"
    what = "the input topic" if variable == "input" else f"the topic of {variable},"
    hint = f"Create the topic, let the user describe it, or set the variable {variable} to its name"
    return ConfigError(f"finding {what} {name!r}", cause, hint)
