"""Opens the tables where each of several topics has a table of its own, and settings for it."""

import shutil
from collections.abc import Callable, Collection
from concurrent.futures import wait
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

from app.delivery.buffer import Buffer
from app.delivery.claimer import Group
from app.delivery.member import Member
from app.delivery.members import Members
from app.delivery.topic import NewTable, Open, Opening
from app.service.connector import Connector
from app.service.lake import check_journals, open_lake
from app.service.table_admission import TableAdmission
from app.work_pool import WorkPool

_OPENED_AT_ONCE = 16
_START_SECONDS = 20.0  # a table that is not open then is opened while others are written


class Tables:
    """``new_member`` builds the member of a table; ``prefix`` is before the name of each topic."""

    def __init__(self, connector: Connector, group: Group, prefix: str, new_member: Callable[..., Member]) -> None:
        self._connector = connector
        self._group = group
        self._prefix = prefix
        self._new_member = new_member
        self._runtime = connector.runtime
        self._buffer = Buffer(connector.limits, connector.runtime.threads, is_shared=True)
        self._pool = WorkPool("open", _OPENED_AT_ONCE)
        self._again = WorkPool("open-again", _OPENED_AT_ONCE)
        self._admission = TableAdmission(connector.settings, connector.store, group.name, prefix)

    def members(self, topics: Collection[str]) -> Members:
        """Begins to open the tables of these topics; waits a while, and raises an error that all of them have."""
        self._runtime.metrics.waits.at_start("store", partial(self._admission.count_noted, topics))
        opening = {topic: Opening(self.open(topic, False)) for topic in topics}
        done, _ = wait([each.table for each in opening.values()], _START_SECONDS)
        failures = [error for each in done if (error := each.exception())]
        if failures and len(failures) == len(opening):
            raise failures[0]
        return Members(self._group, self._buffer, self._runtime, opening, self.open)

    def open(self, topic: str, is_again: bool) -> NewTable:
        """Begins to open the table of this topic, or finds out why it has none."""
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
