"""The members of this process: one for each table, and each topic belongs to one table.

A partition belongs to one topic, so each offset is in one log: each table keeps the protocol that it has alone.
"""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future

from app.delivery.assignment import Assignment, Partition
from app.delivery.buffer import Buffer
from app.delivery.claimer import Group
from app.delivery.member import Member
from app.delivery.runtime import Runtime
from app.errors import ConnectorError
from app.model import TopicPartition


class Members:
    """For the consumer's thread, but for the properties.

    Args:
        of: the members that are there, by topic.
        open_table: begins to make that of another topic, on a thread; it gives ``None`` for a topic that has no table.

    Attributes:
        waiting: assigned partitions of topics whose tables are being opened.
    """

    def __init__(
        self,
        group: Group,
        buffer: Buffer,
        runtime: Runtime,
        of: Mapping[str, Member],
        open_table: Callable[[str], Future[Member | None]] | None = None,
    ) -> None:
        self.group = group
        self.buffer = buffer
        self.runtime = runtime
        self._of = dict(of)
        self._open_table = open_table
        self._opening: dict[str, Future[Member | None]] = {}
        self.waiting: tuple[TopicPartition, ...] = ()

    @classmethod
    def of_one(cls, topic: str, member: Member) -> "Members":
        return cls(member.group, member.flow.buffer, member.runtime, {topic: member})

    def of(self, topic: str) -> Member | None:
        """The member with the table of this topic, if it is open. From any thread."""
        return self._of.get(topic)

    @property
    def all(self) -> tuple[Member, ...]:
        return tuple(self._of.values())

    @property
    def assignments(self) -> list[Assignment]:
        """The present ones."""
        return [assignment for each in self.all if (assignment := each.assignment) is not None]

    @property
    def claimed(self) -> list[Partition]:
        return [each for assignment in self.assignments for each in assignment.claimed]

    @property
    def failure(self) -> ConnectorError | None:
        return next((each.flow.failure for each in self.all if each.flow.failure), None)

    @property
    def is_in_trouble(self) -> bool:
        """Whether another system is waited for, or all has failed."""
        return any(each.flow.is_in_trouble for each in self.all)

    @property
    def due_in(self) -> float | None:
        """Seconds until the next batch is due, negative where it is late."""
        return min((each.flow.ends.due_in for each in self.all), default=None)

    def check(self) -> None:
        """Raise the error that ends the process, if there is one; called at each turn of the consumer's loop."""
        self.group.watch.raise_found()
        self.raise_failure()

    def raise_failure(self) -> None:
        if failure := self.failure:
            raise failure

    def begin(self, tps: Collection[TopicPartition], closed: str | None = None) -> list[TopicPartition]:
        """Begin an assignment for each table, as ``Member.begin``; returns the partitions of those that have begun.

        Those whose table is not open yet are in ``waiting``, to be given to this again.
        """
        begun: list[TopicPartition] = []
        waiting = [tp for tp in self.waiting if tp not in tps]
        for topic in sorted({tp.topic for tp in tps}):
            its = [tp for tp in tps if tp.topic == topic]
            if not self._is_open(topic):
                waiting += its
            elif member := self._of.get(topic):
                member.begin(its, closed)
                begun += its
        self.waiting = tuple(waiting)
        return begun

    def _is_open(self, topic: str) -> bool:
        """Whether it is known which table the topic has, if any; else begins to open it."""
        if topic in self._of or self._open_table is None:
            return True
        if topic not in self._opening:
            self._opening[topic] = self._open_table(topic)
        if (opening := self._opening[topic]).done() and (member := opening.result()):
            self._of[topic] = member
        return opening.done()

    def fail(self, error: ConnectorError) -> None:
        """Give up what is under way for this reason. From any thread."""
        for each in self.all:
            each.flow.fail(error)

    def stop(self) -> None:
        for each in self.all:
            each.flow.stop.set()  # all at once, for each waits for its threads
        for each in self.all:
            each.stop()
