"""The tables of a process of ``stepped_member``: members that do one step at a time, and what opens and closes them."""

from collections.abc import Callable, Collection
from typing import Any

from app.delivery.assignment import Assignment
from app.delivery.member import Member
from app.delivery.topic import NewTable, Open
from app.errors import ConnectorError, FatalError, RetryableError
from app.model import TopicPartition
from app.retries import Stopped
from app.table.layout import schema_key
from tests.faults.lanes import Lane, LanePool
from tests.faults.memory_lake import MemoryStore, root_of


class WatchedMember(Member):
    """Looks at the stored log whenever it finds out that another member has closed it."""

    def __init__(self, name: str, store: MemoryStore, *parts: Any) -> None:
        super().__init__(store, *parts)
        self.delivering = Lane(f"{name}: deliver {self.flow.table}")
        self._watched = store
        self._begun: list[Assignment] = []

    def begin(self, tps: Collection[TopicPartition], closed: str | None = None) -> Assignment:
        self._begun.append(super().begin(tps, closed))
        return self._begun[-1]

    def check_fences(self) -> None:
        for own in (each.log for each in self._begun if each.log.fence):
            log = self._watched.log_of(self.flow.table, own.token)
            if log is not None and not log.closed:
                self._watched.violations.append(f"{own.token} was fenced though its log is open: {own.fence}")

    def prepare(self) -> None:
        """Steps 1 to 3 of what was taken, as far as they go before a batch is delivered."""
        has_come = True
        while has_come and self.flow.failure is None and self.flow.written.is_empty:
            has_come = self.pipeline.gathering.step(0.0)
            while not self.flow.staged.is_empty:
                self.pipeline.write_next()
        self.begin_delivery()

    def begin_delivery(self) -> None:
        if self.delivering.is_idle and self.flow.failure is None and not self.flow.written.is_empty:
            self.delivering.begin(self._deliver)

    def _deliver(self) -> None:
        """Steps 4 to 7 of what is prepared by then."""
        try:
            while not self.flow.written.is_empty:
                self.pipeline.delivery.step()
        except Stopped:
            pass
        except ConnectorError as error:
            self.flow.fail(error)


class Tables:
    """Opens and closes tables on threads of the process; ``made`` has all that ever were."""

    def __init__(
        self,
        store: MemoryStore,
        background: LanePool,
        new_member: Callable[[str], WatchedMember],
        broken: Collection[str],
    ) -> None:
        self.made: list[WatchedMember] = []
        self._store = store
        self._background = background
        self._new_member = new_member
        self._broken = broken

    def make(self, topic: str) -> WatchedMember:
        self.made.append(self._new_member(topic))
        return self.made[-1]

    def open(self, topic: str, _: bool) -> NewTable:
        opened = NewTable()

        def work() -> None:
            while not opened.done():
                try:
                    self._store.find(schema_key(root_of(topic)))
                    if topic in self._broken:
                        opened.set_exception(FatalError("opening a table", "it cannot be"))
                    else:
                        member = self.make(topic)
                        opened.set_result(Open(member, member.stop))
                except FatalError as error:
                    opened.set_exception(error)
                except RetryableError:
                    continue

        self._background.submit(work)
        return opened
