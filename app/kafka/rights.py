"""Looks whether the user has the rights that are needed; passes where the broker does not say."""

import logging
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient

from app.errors import FatalError

logger = logging.getLogger(__name__)

ASKED: Final[dict[str, Any]] = {"include_authorized_operations": True, "request_timeout": 10.0}
_REFUSED: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})


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
        if error.args[0].code() in _REFUSED:
            raise refused from None
        logger.debug("the rights on %s are not known: %s", what, error.args[0].str())
        return None
    allowed = described.authorized_operations
    if allowed and not {AclOperation[right.upper()], AclOperation.ALL}.intersection(allowed):
        raise refused
    return described
