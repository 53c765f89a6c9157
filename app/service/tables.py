"""Opens the tables where the process reads several topics: each topic has a table of its own, and settings for it."""

import logging
from collections.abc import Callable, Collection
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp

from app.config.fields import checked
from app.config.parsers import name
from app.config.settings import Settings
from app.delivery.buffer import Buffer
from app.delivery.claimer import Group
from app.delivery.member import Member
from app.delivery.members import Members
from app.delivery.runtime import Runtime
from app.journal.first_topics import first_topics
from app.service.connector import Connector
from app.service.lake import check_journals, open_lake
from app.service.stores import new_store

logger = logging.getLogger(__name__)

_OPENED_AT_ONCE = 8
_SHARED_THREADS = 16  # at least, of each pool
_CLOSING_SECONDS = 1.0


class Tables:
    """``new_member`` builds the member of a table; ``prefix`` is before the name of each topic."""

    def __init__(
        self,
        connector: Connector,
        group: Group,
        topics: Collection[str],
        prefix: str,
        new_member: Callable[..., Member],
    ) -> None:
        self._connector = connector
        self._settings = connector.settings
        self._group = group
        self._prefix = prefix
        self._new_member = new_member
        self._runtime = _shared(connector.runtime)
        self._buffer = Buffer(connector.limits, connector.runtime.threads)
        self._pool = ThreadPoolExecutor(_OPENED_AT_ONCE, thread_name_prefix="open")
        self._store = store = new_store(self._settings)
        at_start = partial(connector.runtime.metrics.waits.at_start, "store")
        at_start(lambda: store.connect(f"{self._settings.root}/"))
        self._first = at_start(lambda: first_topics(store, self._settings.root, group.name, topics))

    def members(self, topics: Collection[str]) -> Members:
        """Opens the tables of these topics, and of others once their partitions are assigned."""
        opening = {topic: self.open(topic) for topic in topics}
        found = {topic: member for topic, future in opening.items() if (member := future.result())}
        return Members(self._group, self._buffer, self._runtime, found, self.open)

    def open(self, topic: str) -> Future[Member | None]:
        """Begins to open the table of this topic; it has none if its name cannot be that of a table."""
        return self._pool.submit(self._open, topic)

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _open(self, topic: str) -> Member | None:
        if not self._settings.reads(
            topic.removeprefix(self._prefix)
        ):  # Kafka's client may read an expression otherwise
            return None
        settings = self._settings.of_topic(topic.removeprefix(self._prefix))
        for _, problem in checked("TABLE_NAME", name, settings.table):
            logger.warning("topic %s is passed over: its table's name %s: %s", topic, settings.table, problem)
            return None
        group, metrics = self._group, self._runtime.metrics.of_table(settings.table)
        runtime = replace(self._runtime, metrics=metrics)
        lake = open_lake(settings, runtime.metrics.waits, self._store)
        runtime.metrics.waits.at_start("store", partial(check_journals, lake, group.name))
        if lake.query_api:
            self._connector.ends.callback(lake.query_api.close, _CLOSING_SECONDS)
        if topic not in self._first:
            logger.info("topic %s was added after the consumer group began: it is read from its first record", topic)
            group = replace(group, wanted=replace(group.wanted, reset="earliest"))
        its = replace(runtime, scratch=Path(mkdtemp(prefix="table-", dir=runtime.scratch)))
        return self._new_member(settings, lake, group, its, self._buffer)


def topics_among(settings: Settings, visible: Collection[str], prefix: str) -> list[str]:
    """Those of the visible topics that have a table, as Kafka has them: with the platform's ``prefix``."""
    plain = {topic: topic.removeprefix(prefix) for topic in visible if topic.startswith(prefix)}
    read = [topic for topic, its in plain.items() if settings.reads(its)]
    return [each for each in read if not [*checked("TABLE_NAME", name, settings.of_topic(plain[each]).table)]]


def _shared(runtime: Runtime) -> Runtime:
    """A runtime of which all tables share the pools of threads."""

    @cache
    def new_pool(name: str, workers: int) -> Executor:
        return runtime.threads.new_pool(name, max(workers, _SHARED_THREADS))

    return replace(runtime, threads=replace(runtime.threads, new_pool=new_pool))
