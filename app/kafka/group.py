"""Checks the consumer group for members that write a different table, and for other programs."""

import hashlib
import logging
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from app.errors import RetryableError
from app.kafka.questions import ask, unanswered
from app.model import EACH_TOPIC

logger = logging.getLogger(__name__)

_ANSWER_SECONDS = 10.0
_NOT_SHOWN = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_MOST_CHECKS = 3
_PLACE = "\0"  # replaces a topic's name; no table's name contains this character
_ENOUGH_TABLES = 1_000  # only a name such as aaaaaaaaaaaaaaaaaaaa has more
_CLIENT_ID = re.compile(r"ts-datalake-sink-(?P<topic>[0-9a-f]{12})-(?P<table>[0-9a-f]{12})")


@dataclass(frozen=True, slots=True)
class Writes:
    """The topic of a connector, as in the settings, and the address of its table.

    With several topics, topic and address contain ``{topic}``. ``prefix`` is the platform's prefix of topics in Kafka.
    """

    topic: str
    uri: str
    prefix: str = ""

    @property
    def client_id(self) -> str:
        """The client id, which other members see: hashes of topic and table."""
        return f"ts-datalake-sink-{_hash(self.topic)}-{_hash(self.uri)}"

    def of(self, topic: str) -> "Writes":
        """Return the topic and table of one of several topics, by its name in Kafka."""
        name = topic.removeprefix(self.prefix)
        folder, _, table = self.uri.rpartition("/")
        return Writes(name, f"{folder}/{table.replace(EACH_TOPIC, name)}")

    def as_one_of_several(self) -> Sequence["Writes"]:
        """Return the forms in which connectors of several topics may write this table: with ``{topic}`` in the name."""
        topic, (folder, _, table) = self.topic, self.uri.rpartition("/")
        tables, more = set[str](), {table}
        while more and len(tables) < _ENOUGH_TABLES:
            tables |= more
            places = [(each, at) for each in more for at in range(len(each)) if each.startswith(topic, at)]
            more = {f"{each[:at]}{_PLACE}{each[at + len(topic) :]}" for each, at in places}
        return [Writes(EACH_TOPIC, f"{folder}/{each.replace(_PLACE, EACH_TOPIC)}") for each in tables]


def check_members(
    admin: AdminClient, group: str, ours: Writes, topics: Collection[str] = (), *, warns: bool = True
) -> None:
    """Raise ``RetryableError`` if members of the group write a different table from the same topic.

    Kafka assigns each partition to one member of a group, so each table would contain only a part of the rows. These
    members may just be stopping. If Kafka does not answer yet, ``OtherTables`` repeats the query after joining the
    group. Warns of other programs in the group that read the ``topics``.
    """
    try:
        members = _list_members(admin, group)
    except RetryableError as error:
        logger.debug("%s", error)
        return
    for topic in topics if warns else ():
        warn_of_others(group, topic, _list_readers(members, topic))
    if hosts := _hosts_of_others(members, ours, topics):
        raise _shared_group_error(group, hosts, "This connector does not join the group")


@dataclass
class OtherTables:
    """Finds members that write a different table, after this member has joined the group.

    If a member finds a different table's member at its first assignment, it ends before it reads a record. A member
    that earlier found no such member continues, because the other member ends. If the other member is still in the
    group at the next check, both members end. Warns once of each other program that reads the topic.
    """

    admin: AdminClient
    group: str
    topics: Collection[str]
    ours: Writes
    report: Callable[[int, Sequence[str]], None] = lambda *_: None  # number of members with our table; other programs
    _warned: set[tuple[str, str]] = field(init=False, default_factory=set)
    _was_unshared = False
    _checks_left = _MOST_CHECKS
    _seen_before = False

    def at_assignment(self) -> RetryableError | None:
        """Return the error that ends the process. Queries Kafka until no member of a different table was found once."""
        if self._was_unshared or not self._checks_left:
            return None
        try:
            hosts = self._list_hosts()
        except RetryableError:
            self._checks_left -= 1
            if self._checks_left:
                raise
            logger.warning("Kafka does not show whether members of group %s write another table", self.group)
            return None
        return self._refusal(hosts, "This connector leaves the group before it reads a record")

    def later(self) -> RetryableError | None:
        """Return the error that ends the process if members of a different table stay until the next call."""
        hosts = self._list_hosts()
        was_seen, self._seen_before = self._seen_before, bool(hosts)
        if self._was_unshared and not was_seen:
            return None
        return self._refusal(hosts, "They stay, so this connector leaves the group, as they should")

    def _list_hosts(self) -> list[str]:
        members = _list_members(self.admin, self.group)
        programs = set[str]()
        for topic in self.topics:
            readers = _list_readers(members, topic)
            warn_of_others(self.group, topic, readers - self._warned)
            self._warned |= readers
            programs |= {f"{client} at {host}" for client, host in readers if not _CLIENT_ID.fullmatch(client)}
        if not (members or self._was_unshared):
            logger.warning(
                "Kafka shows no member of consumer group %s, as if a program in it has group.protocol=consumer. "
                "Another program may receive records of topic %s",
                *(self.group, ", ".join(self.topics)),
            )
        self.report(sum(member.client_id == self.ours.client_id for member in members), sorted(programs))
        return _hosts_of_others(members, self.ours, self.topics)

    def _refusal(self, hosts: Sequence[str], who: str) -> RetryableError | None:
        if hosts:
            return _shared_group_error(self.group, hosts, who)
        self._was_unshared = True
        return None


def is_member(admin: AdminClient, group: str, member_id: str | None) -> bool:
    """Whether this member is in the group. The coordinator removes a member that was silent for too long.

    With Kafka's eager rebalances, no other member receives the partitions of a member that is in the group and has not
    noticed a revocation. ``False`` if the user may not see the members.
    """
    return bool(member_id) and any(member.id == member_id for member in _list_members(admin, group))


def warn_of_others(group: str, topic: str, readers: Iterable[tuple[str, str]]) -> None:
    """Warn of the readers of the topic (client ids with hosts) that are other programs."""
    for client, host in sorted(readers):
        if not _CLIENT_ID.fullmatch(client):
            logger.warning(
                "another program reads topic %s in consumer group %s: %s at %s. Its records are missing in the table. "
                "Stop it, or set CONSUMER_GROUP to a separate group",
                *(topic, group, client, host),
            )


def _list_readers(members: Iterable[Any], topic: str) -> set[tuple[str, str]]:
    return {(str(each.client_id), str(each.client_host)) for each in members if _reads(each, topic)}


def _reads(member: Any, topic: str) -> bool:
    name = len(topic).to_bytes(2, "big") + topic.encode()  # the format of assignments in Kafka's consumer protocol
    return name in member.assignment


def _hosts_of_others(members: Iterable[Any], ours: Writes, topics: Collection[str]) -> list[str]:
    """Return the hosts of the members that write a different table from one of these topics."""
    same = [ours, *(map(ours.of, topics) if ours.topic == EACH_TOPIC else ours.as_one_of_several())]
    client_ids, our_topics = {each.client_id for each in same}, {_hash(each.topic) for each in same}

    def is_other(member: Any) -> bool:
        theirs = _CLIENT_ID.fullmatch(member.client_id or "")
        if theirs is None or theirs[0] in client_ids:
            return False
        if theirs["topic"] == _hash(EACH_TOPIC):  # only the member's assignment shows its topics
            return any(_reads(member, topic) for topic in topics)
        return theirs["topic"] in our_topics

    return sorted(str(each.client_host) for each in members if is_other(each))


def _list_members(admin: AdminClient, group: str) -> list[Any]:
    """Return the members of the group. If the user may not see the members, return an empty list.

    Queries all brokers with ``list_groups()``. If a broker stops during the call and returns, calls to the coordinator
    and ``describe_consumer_groups()`` abort the process in C (librdkafka's issues 3663 and 4605).
    """
    what = f"the members of group {group}"
    groups = ask(what, lambda: admin.list_groups(group, timeout=_ANSWER_SECONDS))
    for described in groups:
        if described.error is not None and described.error.code() not in _NOT_SHOWN:
            raise unanswered(what, described.error.str())
    return [member for described in groups for member in described.members]


def _shared_group_error(group: str, hosts: Sequence[str], who: str) -> RetryableError:
    error = RetryableError(
        f"joining consumer group {group}",
        f"a member at {', '.join(hosts)} writes the same topic into another table, "
        f"and each table would contain only a part of the rows. {who}",
        "Set a separate CONSUMER_GROUP for each table, or stop the other connector",
    )
    error.ends_all = True
    return error


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
