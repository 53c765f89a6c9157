"""Opens the tables where each of several topics has a table of its own, and settings for it."""

import logging
import shutil
from collections.abc import Callable, Collection
from concurrent.futures import Future, wait
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock, Thread

from app.config.fields import checked
from app.config.parsers import name
from app.config.settings import Settings
from app.delivery.buffer import Buffer
from app.delivery.claimer import Group
from app.delivery.member import Member
from app.delivery.members import Members
from app.journal.entry import topic_folder
from app.journal.first_offsets import noted_topics, owner_of_table
from app.kafka.topics import missing_topic
from app.model import EACH_TOPIC
from app.service.connector import Connector
from app.service.lake import Lake, check_journals, open_lake
from app.storage.base import ObjectStore
from app.work_pool import WorkPool

logger = logging.getLogger(__name__)

_OPENED_AT_ONCE = 16
_START_SECONDS = 20.0  # a table that is not open then is opened while others are written
_CLOSING_SECONDS = 1.0


class Tables:
    """``new_member`` builds the member of a table; ``prefix`` is before the name of each topic."""

    def __init__(self, connector: Connector, group: Group, prefix: str, new_member: Callable[..., Member]) -> None:
        self._connector = connector
        self._group = group
        self._prefix = prefix
        self._new_member = new_member
        self._runtime = connector.runtime
        self._buffer = Buffer(connector.limits, connector.runtime.threads)
        self._pool = WorkPool("open", _OPENED_AT_ONCE)
        self._again = WorkPool("open-again", _OPENED_AT_ONCE)
        self._begun: set[str] = set()
        self._limit = _TableLimit(connector.settings, connector.store, group.name)
        self._ends: dict[str, ExitStack] = {}  # of open tables, by topic
        self.reopens = connector.settings.until is None

    @property
    def _settings(self) -> Settings:
        return self._connector.settings

    def members(self, topics: Collection[str]) -> Members:
        """Begins to open the tables of these topics; waits a while, and raises an error that all of them have."""
        noted = partial(self._limit.note, [topic.removeprefix(self._prefix) for topic in topics])
        self._runtime.metrics.waits.at_start("store", noted)
        opening = {topic: self.open(topic) for topic in topics}
        done, _ = wait(opening.values(), _START_SECONDS)
        failures = [error for each in done if (error := each.exception())]
        if failures and len(failures) == len(opening):
            raise failures[0]
        return Members(self._group, self._buffer, self._runtime, {}, self, opening)

    def open(self, topic: str) -> Future[Member | str]:
        """Begins to open the table of this topic, or finds out why it has none."""
        pool = self._again if topic in self._begun else self._pool
        self._begun.add(topic)
        return pool.submit(self._open, topic)

    def close(self, topic: str) -> None:
        Thread(target=self._ends.pop(topic).close, name="close", daemon=True).start()

    def stop(self) -> None:
        for pool in (self._pool, self._again):
            pool.shutdown(wait=False, cancel_futures=True)
        for ends in tuple(self._ends.values()):
            ends.close()

    def _open(self, topic: str) -> Member | str:
        plain = topic.removeprefix(self._prefix)
        if not self._settings.reads(plain):  # Kafka's client may read an expression otherwise
            return ""
        settings = self._settings.of_topic(plain)
        for _, problem in checked("TABLE_NAME", name, settings.table):
            logger.warning("topic %s is passed over: its table's name %s: %s", topic, settings.table, problem)
            return f"its table's name {settings.table}: {problem}"
        if refusal := self._runtime.metrics.waits.at_start("store", partial(self._limit.refusal, plain)):
            return refusal
        with ExitStack() as ends:
            scratch = Path(mkdtemp(prefix="table-", dir=self._runtime.scratch))
            runtime = replace(self._runtime, scratch=scratch, metrics=self._runtime.metrics.of_table(settings.table))
            ends.callback(shutil.rmtree, runtime.scratch, ignore_errors=True)
            lake = open_lake(settings, runtime.metrics.waits, self._connector.store, ends, _CLOSING_SECONDS)
            at_start, group = partial(runtime.metrics.waits.at_start, "store"), self._group.name
            at_start(partial(check_journals, lake, group))
            owner = at_start(partial(self._owner, lake, topic))
            if owner != topic:
                reason = f"its table {lake.location.uri} is that of topic {owner}"
                logger.warning("topic %s is passed over: %s", topic, reason)
                return reason
            at_start(partial(lake.store.overwrite, f"{noted_topics(settings.root, group)}{plain}", b"{}"))
            member = self._new_member(settings, lake, self._group, runtime, self._buffer)
            ends.callback(member.stop)
            self._ends[topic] = ends.pop_all()
        return member

    def _owner(self, lake: Lake, topic: str) -> str:
        """Returns the topic whose table this is: a catalog that folds names has one table for Orders and orders.

        One without a note is of before. It stays that of the topic after which its folder is named, if that has claims.
        """
        root, group = lake.location.root, self._group.name
        before, _, after = self._settings.table.partition(EACH_TOPIC)
        namesake = self._prefix + root.rpartition("/")[2].removeprefix(before).removesuffix(after)
        is_namesakes = any(True for _ in lake.store.list(topic_folder(root, group, namesake)))
        return owner_of_table(lake.store, root, group, namesake if is_namesakes else topic)


class _TableLimit:
    """Bounds the tables of a group with an expression, for others may create topics. Tables that it has come first."""

    def __init__(self, settings: Settings, store: ObjectStore, group: str) -> None:
        self._settings = settings
        self._store = store
        self._folder = noted_topics(settings.root, group)
        self._topics: set[str] = set()
        self._lock = Lock()

    def note(self, topics: Collection[str]) -> None:
        """Count the tables that the group has of these topics."""
        noted = {each.key for each in self._store.list(self._folder)} if self._settings.is_expression else ()
        self._topics |= {topic for topic in topics if f"{self._folder}{topic}" in noted}

    def refusal(self, topic: str) -> str | None:
        """Why the topic gets no table; else it is counted. Another member may have opened its table."""
        most, is_new = self._settings.table_limit, topic not in self._topics
        if self._settings.is_expression and is_new and len(self._topics) >= most:
            self.note([topic])
        with self._lock:
            if not self._settings.is_expression or topic in self._topics or len(self._topics) < most:
                self._topics.add(topic)
                return None
        return f"the group has TABLE_LIMIT={most} tables. Raise it, or let input match fewer topics"


def topics_among(settings: Settings, visible: Collection[str], prefix: str) -> list[str]:
    """Those of the visible topics that have a table, as Kafka has them: with the platform's ``prefix``.

    Warns of names without a topic; raises ``ConfigError`` for one where the run has an end.
    """
    plain = {topic: topic.removeprefix(prefix) for topic in visible if topic.startswith(prefix)}
    found = [topic for topic, its in plain.items() if settings.has_table(its)]
    if settings.is_expression and len(found) > settings.table_limit:
        text = "%d topics match input, and TABLE_LIMIT is %d: those without a table are not written"
        logger.warning(text, len(found), settings.table_limit)
    known = {plain[each] for each in found} | ({settings.input_topic} if found else set())
    for missing in (each for each in settings.topics if each not in known):
        error = missing_topic(missing, plain.values())
        if settings.until is not None and not settings.is_expression:
            raise error
        logger.warning("%s: %s. It is read once it is there", error.doing, error.cause)
    return found
