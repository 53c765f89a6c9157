"""Finds the broker and the topics at start, and the rights on them, with errors that say what to do."""

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
_COUNTS = " (after "  # what librdkafka puts behind a cause: milliseconds, and how often it has seen it


# The client logs each failed try in its own words; whoever looks for the broker reports the failure.
_client_logger = logging.getLogger(f"{__name__}.client")
_client_logger.addFilter(lambda _: logger.isEnabledFor(logging.DEBUG))


def new_admin(connection: ConnectionConfig, **options: Any) -> AdminClient:
    """A client for questions to the broker, with a logger: without one it writes to standard error."""
    try:
        client = AdminClient({**EVERY_CLIENT, **connection.as_librdkafka_dict(), "logger": logger, **options})
    except (KafkaException, TypeError, ValueError) as error:
        cause = client_words(error)
        raise ConfigError("setting up the Kafka client", cause, login_hint(cause)) from None
    client.poll(0)  # a login by callback makes its first token in here
    return client


def listing_topics(connection: ConnectionConfig, answer_seconds: float = 5.0) -> Callable[[], list[str]]:
    """Returns a function that asks for the names of the topics that the broker shows us; one client asks each time."""
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
    return f"{hint}. If it asks for TLS or a login, set KAFKA_SECURITY_PROTOCOL"


def check_topic_rights(admin: AdminClient, *topics: str, right: str = "Read") -> None:
    """Raise ``FatalError`` without this right on a topic; asks for all at once."""
    described = cache(lambda: admin.describe_topics(TopicCollection([*topics]), **ASKED))
    for topic in topics:
        describe_with_right(partial(lambda name: described()[name], topic), right, f"topic {topic}")


def describe_with_right(describe: Callable[[], Any], right: str, what: str) -> Any:
    """Returns the description, ``None`` where the broker gives none; raises ``FatalError`` without this right."""
    doing, cause = f"asking for the rights on {what}", f"the user has no right to {right.lower()} it"
    refused = FatalError(doing, cause, f"Allow {right} on {what}")
    try:
        described = describe().result()
    except KafkaException as error:
        if error.args[0].code() in REFUSED:
            raise refused from None
        logger.debug("the rights on %s are not known: %s", what, error.args[0].str())
        return None
    allowed = described.authorized_operations
    if allowed and not {AclOperation[right.upper()], AclOperation.ALL}.intersection(allowed):
        raise refused
    return described


class Topics(TopicManager):
    """What an application knows of topics: their settings too, where the user may read them."""

    def __init__(self, connection: ConnectionConfig, group: str, *, creates: bool) -> None:
        # That of quixstreams is idempotent, as producers are, for which the user needs a right.
        admin = _Admin(connection, extra_config=dict(EVERY_CLIENT))
        super().__init__(admin, group, auto_create_topics=creates)

    @classmethod
    def derive_topic_config(cls, topics: Iterable[Topic]) -> TopicConfig:
        """The settings of a topic for state or ``group_by()``: it keeps its records as long as these topics do."""
        for topic in topics:
            if "retention.ms" not in topic.broker_config.extra_config:
                cause = "the user has no right to read them, and a topic for state or group_by() gets the same"
                hint = f"Allow DescribeConfigs on topic {topic.name}"
                raise FatalError(f"reading the settings of topic {topic.name!r}", cause, hint)
        return super().derive_topic_config(topics)


class _Admin(TopicAdmin):
    def inspect_topics(self, topic_names: list[str], timeout: float = 30) -> dict[str, TopicConfig | None]:
        """Without the right to read their settings, what the metadata has: partitions and replicas."""
        try:
            return super().inspect_topics(topic_names, timeout)
        except TopicPermissionError:
            known = {name: topic.partitions for name, topic in self.list_topics(timeout).items()}
        return {
            name: TopicConfig(len(known[name]), len(known[name][0].replicas), {}) if name in known else None
            for name in topic_names
        }


def prefix_of(application: Application) -> str:
    """What the platform puts before each topic's name."""
    return f"{application.config.consumer_group_prefix}-" if application.is_quix_app else ""


def missing_topic(name: str, topics: Collection[str], variable: str = "input") -> ConfigError:
    """The error for a topic that does not exist, with similar names; ``variable`` is the setting that names it."""
    visible = sorted(topic for topic in topics if not topic.startswith("__"))
    by_folded = {topic.casefold(): topic for topic in visible}
    alike = [by_folded[match] for match in difflib.get_close_matches(name.casefold(), by_folded, n=_SHOWN_TOPICS)]
    if alike:
        cause = f"it does not exist; similar: {', '.join(alike)}"
    elif visible:
        more = ", …" if len(visible) > _SHOWN_TOPICS else ""
        cause = f"it does not exist; there are: {', '.join(visible[:_SHOWN_TOPICS])}{more}"
    else:
        cause = "it does not exist, and the broker shows us no topics at all"
    of = "the input topic" if variable == "input" else f"the topic of {variable},"
    hint = f"Create it, let the user describe it, or set the variable {variable} to its name"
    return ConfigError(f"finding {of} {name!r}", cause, hint)
