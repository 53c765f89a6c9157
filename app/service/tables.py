"""Decides which of several topics have a table, and opens these tables with their settings."""

import logging
import shutil
from collections.abc import Callable, Collection
from concurrent.futures import wait
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock

from app.config.fields import checked
from app.config.parsers import name
from app.config.settings import Settings
from app.delivery.claimer import Group
from app.delivery.member import Member
from app.delivery.members import Members
from app.delivery.runtime import Buffer
from app.delivery.topic import NewTable, Open, Opening
from app.journal.entry import topic_folder
from app.journal.first_offsets import noted_topics, owner_of_table
from app.kafka.topics import missing_topic
from app.model import EACH_TOPIC
from app.service.connector import Connector
from app.service.lake import Lake, check_journals, open_lake
from app.storage.base import ObjectStore
from app.work_pool import WorkPool

logger = logging.getLogger(__name__)

_OPEN_WORKERS = 16
_START_SECONDS = 20.0  # slower tables are opened while other tables are written


class Tables:
    """Opens tables. ``new_member`` creates the member of a table. ``prefix`` is the platform's prefix of topics."""

    def __init__(self, connector: Connector, group: Group, prefix: str, new_member: Callable[..., Member]) -> None:
        self._connector = connector
        self._group = group
        self._prefix = prefix
        self._new_member = new_member
        self._runtime = connector.runtime
        self._buffer = Buffer(connector.records.limits, connector.runtime.threads, is_shared=True)
        self._pool = WorkPool("open", _OPEN_WORKERS)
        self._again = WorkPool("open-again", _OPEN_WORKERS)
        self._admission = TableAdmission(connector.settings, connector.store, group.name, prefix)

    def members(self, topics: Collection[str]) -> Members:
        """Begin to open the tables of these topics, and wait for some time. Raise an error if all tables fail."""
        self._runtime.metrics.waits.at_start("store", partial(self._admission.count_noted, topics))
        opening = {topic: Opening(self.open(topic, False)) for topic in topics}
        done, _ = wait([state.table for state in opening.values()], _START_SECONDS)
        failures = [error for table in done if (error := table.exception())]
        if failures and len(failures) == len(opening):
            raise failures[0]
        return Members(self._group, self._buffer, self._runtime, opening, self.open)

    def open(self, topic: str, is_again: bool) -> NewTable:
        """Begin to open the table of this topic, or to find out why the topic has no table."""
        return (self._again if is_again else self._pool).submit(self._open, topic)

    def stop(self) -> None:
        for pool in (self._pool, self._again):
            pool.shutdown(wait=False, cancel_futures=True)

    def _open(self, topic: str) -> Open | str:
        refusal = self._runtime.metrics.waits.at_start("store", partial(self._admission.refusal, topic))
        if refusal is not None:
            return refusal
        settings = self._connector.settings.of_topic(topic.removeprefix(self._prefix))
        with ExitStack() as ends:
            scratch = Path(mkdtemp(prefix="table-", dir=self._runtime.scratch))
            runtime = replace(self._runtime, scratch=scratch, metrics=self._runtime.metrics.of_table(settings.table))
            ends.callback(shutil.rmtree, runtime.scratch, ignore_errors=True)
            lake = open_lake(settings, runtime.metrics.waits, self._connector.store, ends)
            at_start = partial(runtime.metrics.waits.at_start, "store")
            at_start(partial(check_journals, lake, self._group.name))
            if refusal := at_start(partial(self._admission.take, lake, topic)):
                return refusal
            member = self._new_member(settings, lake, self._group, runtime, self._buffer)
            ends.callback(member.stop)
            return Open(member, ends.pop_all().close)


class TableAdmission:
    """Limits the number of a group's tables, because other users may create topics. Existing tables come first.

    Topics have the names that Kafka uses, with the platform's ``prefix``.
    """

    def __init__(self, settings: Settings, store: ObjectStore, group: str, prefix: str) -> None:
        self._settings = settings
        self._store = store
        self._group = group
        self._prefix = prefix
        self._most = settings.table_limit if settings.is_expression else inf
        self._notes = noted_topics(settings.root, group)
        self._topics: set[str] = set()
        self._deleted: set[str] = set()
        self._lock = Lock()

    def count_noted(self, topics: Collection[str]) -> None:
        """Count the group's tables of these topics. Tables of deleted topics are not counted."""
        noted = self._list_noted()
        self._topics |= noted.intersection(topics)
        self._deleted = noted.difference(topics)

    def refusal(self, topic: str) -> str | None:
        """Return why the topic has no table (empty if the settings exclude it); ``None`` if it is now counted."""
        plain = topic.removeprefix(self._prefix)
        if not self._settings.reads(plain):  # Kafka's client may match an expression differently
            return ""
        table = self._settings.of_topic(plain).table
        for _, problem in checked("TABLE_NAME", name, table):
            logger.warning("topic %s is skipped: its table's name %s: %s", topic, table, problem)
            return f"its table's name {table}: {problem}"
        noted = set[str]() if topic in self._topics else self._list_noted()  # another member may have opened tables
        with self._lock:
            self._topics |= noted - (self._deleted - {topic})
            if topic in self._topics or len(self._topics) < self._most:
                self._topics.add(topic)
                return None
        return f"the group has TABLE_LIMIT={self._most} tables. Raise it, or let input match fewer topics"

    def take(self, lake: Lake, topic: str) -> str | None:
        """Return why the topic may not have this table. Otherwise store the topic as the owner, and return ``None``.

        If a catalog ignores case, Orders and orders have the same table. If no owner is stored, an older release
        created the table. The table then belongs to the topic with the folder's name, if this topic has claims.
        """
        root = lake.location.root
        before, _, after = self._settings.table.partition(EACH_TOPIC)
        namesake = self._prefix + root.rpartition("/")[2].removeprefix(before).removesuffix(after)
        is_namesakes = any(True for _ in lake.store.list(topic_folder(root, self._group, namesake)))
        owner = owner_of_table(lake.store, root, self._group, namesake if is_namesakes else topic)
        if owner != topic:
            reason = f"its table {lake.location.uri} belongs to topic {owner}"
            logger.warning("topic %s is skipped: %s", topic, reason)
            return reason
        lake.store.overwrite(f"{self._notes}{topic.removeprefix(self._prefix)}", b"{}")
        return None

    def _list_noted(self) -> set[str]:
        """Return the topics whose tables the group has opened. Without a limit for tables, return no topic."""
        notes = self._store.list(self._notes) if self._most < inf else ()
        return {f"{self._prefix}{note.key.removeprefix(self._notes)}" for note in notes}


def topics_among(settings: Settings, visible: Collection[str], prefix: str, *, needs_all: bool = False) -> list[str]:
    """Return the names of visible topics that have a table. Names in Kafka contain the platform's ``prefix``.

    Warns of names without a topic. If ``needs_all``, or if the run has an end, raises ``ConfigError`` instead.
    """
    names = {topic: topic.removeprefix(prefix) for topic in visible if topic.startswith(prefix)}
    topics = [topic for topic, plain in names.items() if settings.has_table(plain)]
    if settings.is_expression and len(topics) > settings.table_limit:
        text = "%d topics match input, and TABLE_LIMIT is %d: topics without a table are not written"
        logger.warning(text, len(topics), settings.table_limit)
    existing = {names[topic] for topic in topics} | ({settings.input_topic} if topics else set())
    for missing in (topic for topic in settings.topics if topic not in existing):
        error = missing_topic(missing, names.values())
        if (needs_all or settings.until is not None) and not settings.is_expression:
            raise error
        logger.warning("%s: %s. The connector reads the topic once it exists", error.doing, error.cause)
    return topics
