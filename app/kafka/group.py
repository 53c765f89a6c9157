"""Checks the consumer group: whether other members write another table, or none."""

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
_LOOKS = 3
_PLACE = "\0"  # of a topic's name; no table's name has it
_ENOUGH_TABLES = 1_000  # only a name such as aaaaaaaaaaaaaaaaaaaa has more
_CLIENT_ID = re.compile(r"ts-datalake-sink-(?P<topic>[0-9a-f]{12})-(?P<table>[0-9a-f]{12})")


@dataclass(frozen=True, slots=True)
class Writes:
    """What a connector writes: ``topic`` as the settings have it, and the address of its table.

    Both have ``{topic}`` where there are several topics. ``prefix`` is the platform's, before each topic in Kafka.
    """

    topic: str
    uri: str
    prefix: str = ""

    @property
    def client_id(self) -> str:
        """Which other members see: topic and table, both as hashes."""
        return f"ts-datalake-sink-{_hash(self.topic)}-{_hash(self.uri)}"

    def of(self, topic: str) -> "Writes":
        """Of one of several topics, as Kafka has it, by itself."""
        name = topic.removeprefix(self.prefix)
        folder, _, table = self.uri.rpartition("/")
        return Writes(name, f"{folder}/{table.replace(EACH_TOPIC, name)}")

    def as_one_of_several(self) -> Sequence["Writes"]:
        """As connectors of several topics may name this table: with ``{topic}`` at any places of the topic's name."""
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
    """Raise ``RetryableError`` if members of the group write another table from the same topic, before joining it.

    Kafka gives each partition to one member of a group, so each table would get only a part of the rows. They may just
    be stopping. If Kafka does not answer yet, as before its first group exists, ``OtherTables`` asks again. Warns of
    other programs in the group that read the ``topics``.
    """
    try:
        members = _members(admin, group)
    except RetryableError as error:
        logger.debug("%s", error)
        return
    for topic in topics if warns else ():
        warn_of_others(group, topic, _readers(members, topic))
    if hosts := _hosts_of_others(members, ours, topics):
        raise _shared(group, hosts, "This one does not join it")


@dataclass
class OtherTables:
    """Finds members that write another table, after this one has joined: both may have joined at the same time.

    A member that finds another table's member at its first assignment ends before it reads a record. A member that was
    alone in the group before goes on, because the other one ends. If the other one is still there at the next check,
    both end. Warns once of each other program in the group that reads the topic.
    """

    admin: AdminClient
    group: str
    topics: Collection[str]
    ours: Writes
    tell: Callable[[int, Sequence[str]], None] = lambda *_: None  # how many write our table; other programs
    _warned: set[tuple[str, str]] = field(init=False, default_factory=set)
    _had_it_alone = False
    _looks_left = _LOOKS
    _seen_before = False

    def at_assignment(self) -> RetryableError | None:
        """The error to end with; asks at each call until it has once found no member of another table."""
        if self._had_it_alone or not self._looks_left:
            return None
        try:
            hosts = self._hosts()
        except RetryableError:
            self._looks_left -= 1
            if self._looks_left:
                raise
            logger.warning("Kafka does not say whether members of group %s write another table", self.group)
            return None
        return self._refusal(hosts, "This one leaves it before it has read anything")

    def later(self) -> RetryableError | None:
        """The error to end with if members of another table stay from one call to the next."""
        hosts = self._hosts()
        was_seen, self._seen_before = self._seen_before, bool(hosts)
        if self._had_it_alone and not was_seen:
            return None
        return self._refusal(hosts, "They stay, so this one leaves it, as they should")

    def _hosts(self) -> list[str]:
        members = _members(self.admin, self.group)
        programs = set[str]()
        for topic in self.topics:
            found = _readers(members, topic)
            warn_of_others(self.group, topic, found - self._warned)
            self._warned |= found
            programs |= {f"{client} at {host}" for client, host in found if not _CLIENT_ID.fullmatch(client)}
        if not (members or self._had_it_alone):
            logger.warning(
                "Kafka shows no member of consumer group %s, as where a program in it has group.protocol=consumer. "
                "Another program may get records of topic %s",
                *(self.group, ", ".join(self.topics)),
            )
        self.tell(sum(member.client_id == self.ours.client_id for member in members), sorted(programs))
        return _hosts_of_others(members, self.ours, self.topics)

    def _refusal(self, hosts: Sequence[str], who: str) -> RetryableError | None:
        if hosts:
            return _shared(self.group, hosts, who)
        self._had_it_alone = True
        return None


def is_member(admin: AdminClient, group: str, member_id: str | None) -> bool:
    """Whether the coordinator has this member in the group; it has expelled a member that was silent for too long.

    With Kafka's eager rebalances, the partitions of a member are given to nobody else while it is in the group and has
    not been told of a revocation. ``False`` where the user may not see the members.
    """
    return bool(member_id) and any(member.id == member_id for member in _members(admin, group))


def warn_of_others(group: str, topic: str, readers: Iterable[tuple[str, str]]) -> None:
    """Warn of those among the readers of the topic, client ids with hosts, that are not this connector."""
    for client, host in sorted(readers):
        if not _CLIENT_ID.fullmatch(client):
            logger.warning(
                "another program reads topic %s in consumer group %s: %s at %s. The table lacks what it gets. "
                "Stop it, or set CONSUMER_GROUP to a group of its own",
                *(topic, group, client, host),
            )


def _readers(members: Iterable[Any], topic: str) -> set[tuple[str, str]]:
    return {(str(each.client_id), str(each.client_host)) for each in members if _has(each, topic)}


def _has(member: Any, topic: str) -> bool:
    """Whether partitions of the topic are assigned to the member."""
    name = len(topic).to_bytes(2, "big") + topic.encode()  # as assignments have it, in Kafka's protocol of consumers
    return name in member.assignment


def _hosts_of_others(members: Iterable[Any], ours: Writes, topics: Collection[str]) -> list[str]:
    """Hosts of the members that write another table from one of these topics."""
    same = [ours, *(map(ours.of, topics) if ours.topic == EACH_TOPIC else ours.as_one_of_several())]
    client_ids, our_topics = {each.client_id for each in same}, {_hash(each.topic) for each in same}

    def is_other(member: Any) -> bool:
        theirs = _CLIENT_ID.fullmatch(member.client_id or "")
        if theirs is None or theirs[0] in client_ids:
            return False
        if theirs["topic"] == _hash(EACH_TOPIC):  # only what is assigned tells which topics those are
            return any(_has(member, each) for each in topics)
        return theirs["topic"] in our_topics

    return sorted(str(each.client_host) for each in members if is_other(each))


def _members(admin: AdminClient, group: str) -> list[Any]:
    """The members of the group; none where the user may not see them.

    Asks all brokers with ``list_groups()``. ``describe_consumer_groups()`` aborts the process in C when a broker that
    went away while it waited is back (librdkafka's issues 3663 and 4605). So do all calls that ask the coordinator.
    """
    what = f"the members of group {group}"
    found = ask(what, lambda: admin.list_groups(group, timeout=_ANSWER_SECONDS))
    for described in found:
        if described.error is not None and described.error.code() not in _NOT_SHOWN:
            raise unanswered(what, described.error.str())
    return [member for described in found for member in described.members]


def _shared(group: str, hosts: Sequence[str], who: str) -> RetryableError:
    error = RetryableError(
        f"joining consumer group {group}",
        f"a member of it at {', '.join(hosts)} writes the same topic into another table, "
        f"and either table would get a part of the rows only. {who}",
        "Give each table a CONSUMER_GROUP of its own, or stop the other connector",
    )
    error.ends_all = True
    return error


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
