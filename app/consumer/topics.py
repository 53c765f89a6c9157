"""Opening a topic at start, with errors that say what to do."""

from collections.abc import Collection
from typing import Any

from quixstreams.models.topics import Topic
from quixstreams.models.topics.exceptions import TopicNotFoundError, TopicPermissionError

from app.consumer.application import LakeApplication
from app.consumer.broker import missing_topic, unreadable_topic


def open_topic(
    application: LakeApplication, name: str, visible: Collection[str], *, variable: str, right: str, **options: Any
) -> Topic:
    """A topic that is there.

    Args:
        application: knows how the platform calls it.
        name: as the user knows it.
        visible: the names that Kafka shows us.
        variable: the setting that names it.
        right: what the user needs to be allowed on it.
        options: further ones of ``quixstreams.Application.topic``.

    Raises:
        ConfigError: it does not exist.
        FatalError: it does, and cannot be described.
    """
    try:
        return application.topic(name, **options)
    except TopicNotFoundError:
        prefix = f"{application.config.consumer_group_prefix}-" if application.is_quix_app else ""
        raise missing_topic(name, [found.removeprefix(prefix) for found in visible], variable) from None
    except TopicPermissionError as error:
        raise unreadable_topic(name, error, right) from None
