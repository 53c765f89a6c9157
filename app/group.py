"""Who else uses the consumer group, and who else writes the table: what no journal can see by itself."""

import hashlib
import logging
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient

from app.errors import FatalError, RetryableError
from app.journal_entry import group_folder, journal_folder
from app.storage.base import ObjectStore

logger = logging.getLogger(__name__)

_ANSWER_SECONDS = 10.0
_READ = frozenset({AclOperation.READ, AclOperation.ALL})
_CLIENT_ID = re.compile(r"ts-datalake-sink-(?P<topic>[0-9a-f]{12})-(?P<table>[0-9a-f]{12})")


def client_id(topic: str, table_uri: str) -> str:
    """What the broker shows of a connector: which topic it writes into which table, both as hashes."""
    return f"ts-datalake-sink-{_hash(topic)}-{_hash(table_uri)}"


def check_members(admin: AdminClient, group: str, own_client_id: str) -> None:
    """Refuse a consumer group whose members write another table from the same topic.

    Kafka gives each partition to one member of a group: either table would get some of the rows only.

    Raises:
        RetryableError: there are such members. They may just be stopping, as after TABLE_NAME was changed.
    """
    try:
        described = admin.describe_consumer_groups([group], request_timeout=_ANSWER_SECONDS)[group].result()
    except KafkaException as error:
        logger.debug("the members of group %s are not known: %s", group, error.args[0].str())
        return
    own = _CLIENT_ID.fullmatch(own_client_id)
    for member in described.members:
        theirs = _CLIENT_ID.fullmatch(member.client_id or "")
        if own and theirs and theirs["topic"] == own["topic"] and theirs["table"] != own["table"]:
            raise RetryableError(
                f"joining consumer group {group}",
                f"a member of it at {member.host} writes the same topic into another table, "
                "and either table would get a part of the rows only",
                "Give each table a CONSUMER_GROUP of its own, or stop the other connector",
            )


def check_rights(admin: AdminClient, topic: str, group: str) -> None:
    """Ask which operations are allowed: a consumer without a right would wait for ever and not say for what.

    A broker that does not tell leaves it open.

    Raises:
        FatalError: a right is missing.
    """
    told = {"include_authorized_operations": True, "request_timeout": _ANSWER_SECONDS}
    _require_read(lambda: admin.describe_topics(TopicCollection([topic]), **told)[topic], f"topic {topic}")
    _require_read(lambda: admin.describe_consumer_groups([group], **told)[group], f"consumer group {group}")


def warn_of_other_groups(store: ObjectStore, table_root: str, group: str) -> None:
    """Tell of journals of other consumer groups in the table: each group writes every row once.

    Raises:
        ConnectorError: of the store.
    """
    root, own = journal_folder(table_root), group_folder(table_root, group)
    others = {
        key.removeprefix(root).split("/")[0]
        for key in (found.key for found in store.list(root))
        if key.endswith(".json") and not key.startswith(own) and "/" in key.removeprefix(root)
    }
    if others:
        logger.warning(
            "the table was written by other consumer groups too (%s): rows of topics that both consume are in it once "
            "for each group. If CONSUMER_GROUP was changed, records that the former group wrote come again; to avoid "
            "that, name the former group",
            ", ".join(sorted(unquote(name) for name in others)),
        )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _require_read(describe: Callable[[], Any], what: str) -> None:
    refused = FatalError(
        f"asking for the rights on {what}", "the user has no right to read it", f"Allow Read on {what}"
    )
    try:
        allowed = describe().result().authorized_operations
    except KafkaException as error:
        code = error.args[0].code()
        if code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED):
            raise refused from None
        logger.debug("the rights on %s are not known: %s", what, error.args[0].str())
        return
    if allowed and not _READ.intersection(allowed):
        raise refused
