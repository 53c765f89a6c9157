"""The members of this process. Each table has one member, and each topic belongs to one table.

A partition belongs to one topic. Therefore each offset is in the log of one table, and tables are independent. A table
that fails is suspended: its assignment ends in the same way as when Kafka revokes partitions, and its partitions wait.
Later a new member opens the table, and claims the partitions in the same way as after a restart.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import inf

from app.delivery.assignment import Assignment, Claimed, Partition
from app.delivery.claimer import Group, taken_over
from app.delivery.member import Member
from app.delivery.runtime import Buffer, Runtime
from app.delivery.topic import Deleted, LeftOut, NewTable, Open, Opening, Suspended, Topic
from app.errors import ConfigError, ConnectorError, FatalError
from app.formatting import duration
from app.model import TopicPartition

logger = logging.getLogger(__name__)


class Members:
    """All members of this process. Any thread may read the properties. Only the consumer's thread calls methods.

    ``open_table`` begins to open a topic's table on a thread. The second argument is true if the table was open before.

    Attributes:
        assigned: The partitions assigned to this process, without partitions of topics that are left out. Changes
            replace the complete tuple, because other threads read ``assigned`` while members begin and end.
    """

    def __init__(
        self,
        group: Group,
        buffer: Buffer,
        runtime: Runtime,
        topics: Mapping[str, Topic],
        open_table: Callable[[str, bool], NewTable],
    ) -> None:
        self.group = group
        self.buffer = buffer
        self.runtime = runtime
        self._topics = topics
        self._open_table = open_table
        self._failure: ConnectorError | None = None
        self.assigned: tuple[TopicPartition, ...] = ()

    @classmethod
    def of_one(cls, topic: str, member: Member) -> "Members":
        """Return the members of a process with one table for all records. Log messages contain ``topic``."""
        state, table = Open(member, member.stop), NewTable()
        table.set_result(state)
        return cls(member.group, member.flow.buffer, member.runtime, {topic: state}, lambda *_: table)

    def of(self, topic: str) -> Member | None:
        """Return the member that writes this topic if the table is open. Any thread may call this method."""
        state = self._topics.get(topic)
        return state.member if isinstance(state, Open) else None

    @property
    def by_topic(self) -> list[tuple[str, Member]]:
        return [(topic, state.member) for topic, state in self._topics.items() if isinstance(state, Open)]

    @property
    def all(self) -> tuple[Member, ...]:
        return tuple(dict.fromkeys(member for _, member in self.by_topic))

    @property
    def assignments(self) -> list[Assignment]:
        """The assignments that have not ended."""
        return [assignment for member in self.all if (assignment := member.assignment) is not None]

    def claimed_partition(self, tp: TopicPartition) -> tuple[Assignment | None, Partition | None]:
        """Return the assignment of the topic's table, and this partition if it is claimed. Any thread may call this."""
        member = self.of(tp.topic)
        assignment = member.assignment if member else None
        partition = assignment.partitions.get(tp) if assignment else None
        return assignment, partition if partition and partition.is_claimed else None

    @property
    def suspended(self) -> dict[str, Suspended]:
        """The assigned topics whose tables are suspended, with their states."""
        topics = self._topics
        states = ((topic, topics.get(topic)) for topic in sorted({tp.topic for tp in self.assigned}))
        return {topic: state for topic, state in states if isinstance(state, Suspended)}

    @property
    def left_out(self) -> dict[str, str]:
        """The topics that exist and are not written, and the reason for each topic."""
        states = self._topics.items()
        return {topic: state.reason for topic, state in states if isinstance(state, LeftOut) and state.reason}

    @property
    def deleted(self) -> list[str]:
        """The topics that Kafka does not have."""
        return [topic for topic, state in self._topics.items() if isinstance(state, Deleted)]

    @property
    def failure(self) -> ConnectorError | None:
        return self._failure or next((member.flow.failure for member in self.all if member.flow.failure), None)

    def raise_failure(self, *, also_suspended: bool = False) -> None:
        """Raise the error that prevents records from arriving in the lake, if an error exists."""
        if failure := self.failure:
            raise failure
        for suspended in self.suspended.values() if also_suspended else ():
            raise suspended.error
        for topic, reason in self.left_out.items() if also_suspended else ():
            raise ConfigError(f"writing topic {topic}", reason)

    # --- assignments ------------------------------------------------------------------------------------------------

    def assign(self, tps: Iterable[TopicPartition]) -> None:
        """Begin the assignments of these partitions, which Kafka has assigned to this process."""
        self.assigned = tuple(tps)
        assigned = {tp.topic for tp in self.assigned}
        states = {
            topic: state.before if isinstance(state, Deleted) and topic in assigned else state
            for topic, state in self._topics.items()
        }
        self._topics = {topic: state for topic, state in states.items() if state and not isinstance(state, LeftOut)}
        self.begin_waiting()

    def begin_waiting(self) -> None:
        """Begin an assignment for each open table with partitions that are in no assignment yet."""
        begun = {tp for assignment in self.assignments for tp in assignment.partitions}
        waiting = [tp for tp in self.assigned if tp not in begun]
        for topic in sorted({tp.topic for tp in waiting}):
            self._open(topic)
        tps_by_member: dict[Member, list[TopicPartition]] = {}
        for tp in waiting:
            if member := self.of(tp.topic):
                tps_by_member.setdefault(member, []).append(tp)
        for member, tps in tps_by_member.items():
            member.begin(tps)

    def _open(self, topic: str) -> None:
        """Begin to open the topic's table if it is time. If the table was opened or has failed, note the result."""
        state = self._topics.get(topic)
        if state is None or (isinstance(state, Suspended) and self.runtime.timings.clock() >= state.due):
            state = Opening(self._open_table(topic, state is not None), state)
            self._put(topic, state)
        if not (isinstance(state, Opening) and state.table.done()):
            return
        if error := state.table.exception():
            logger.debug("opening a table failed", exc_info=error)
            bug = FatalError(f"opening the table of topic {topic}", repr(error), "Please report this as a bug")
            self.suspend(topic, error if isinstance(error, ConnectorError) else bug)
            return
        table = state.table.result()
        self._put(topic, LeftOut(table) if isinstance(table, str) else replace(table, last=state.last))
        if state.last and self.of(topic):
            logger.info("the table of topic %s is open again", topic)

    def _put(self, topic: str, state: Topic) -> None:
        self._topics = {**self._topics, topic: state}
        if isinstance(state, LeftOut | Deleted):
            self.runtime.metrics.ended(tp for tp in self.assigned if tp.topic == topic)
            self.assigned = tuple(tp for tp in self.assigned if tp.topic != topic)

    def new_claims(self) -> list[tuple[Assignment, Claimed]]:
        """Return the claims that succeeded since the last call."""
        claims: list[tuple[Assignment, Claimed]] = []
        for topic, member in self.by_topic:
            if assignment := member.assignment:
                with self.suspending_on_error(topic):
                    claims += [(assignment, claim) for claim in assignment.new_claims()]
        return claims

    def claim_again(self) -> None:
        """Begin a new assignment of the same partitions if another member has closed an assignment's log.

        The claim then asks Kafka whether the partitions are still assigned to this member. If Kafka does not revoke the
        partitions within ``fenced_seconds``, the table is suspended.
        """
        for topic, member in self.by_topic:
            assignment = member.assignment
            fence = assignment.log.fence if assignment else None
            if assignment is None or fence is None:
                continue
            if member.may_claim_again(fence.error):
                self.runtime.metrics.ended(assignment.partitions)
                member.begin(tuple(assignment.partitions), str(fence.error))
            elif self.runtime.timings.clock() - fence.since > self.runtime.timings.fenced_seconds:
                self.suspend(topic, taken_over(str(fence.error)))

    def note_deleted(self, topic: str) -> None:
        """Continue with the other topics after one of several topics was deleted."""
        state, member = self._topics.get(topic), self.of(topic)
        if isinstance(state, Deleted):
            return
        logger.warning(
            "topic %s does not exist: the connector continues with the other topics. If it was deleted, its records "
            "that are not in the table yet are not written",
            topic,
        )
        self._put(topic, Deleted(state))
        tps = member.assignment.partitions if member and member.assignment else ()
        others = [tp for tp in tps if tp.topic != topic]
        if member and len(others) < len(tps):
            self.runtime.metrics.ended(tps)
            member.end()
            if others:
                member.begin(others)

    def flush(self, seconds: float, obstructed_seconds: float = inf) -> None:
        """Write the taken records into the lake within this time. Records that are not written are read again later.

        With several tables, ``obstructed_seconds`` is the limit for a table whose catalog or store is unavailable.
        """
        clock, look_seconds = self.runtime.timings.clock, self.runtime.timings.look_seconds
        begin, reason = clock(), self.buffer.flush_reason
        flows = [(member.flow, assignment) for member in self.all if (assignment := member.assignment)]
        for _, assignment in flows:
            assignment.end_batch(reason)
        for flow, assignment in flows:
            while not flow.wait_delivered(assignment, look_seconds):
                most = min(seconds, obstructed_seconds) if self.buffer.is_shared and flow.obstacle else seconds
                if flow.failure is not None or flow.is_topic_missing or assignment.is_over or clock() - begin >= most:
                    break

    def end(self) -> None:
        """End all assignments, and drop their records in progress."""
        assigned, self.assigned = self.assigned, ()
        self.runtime.metrics.ended(assigned)
        for member in self.all:
            member.end()

    # --- failures ---------------------------------------------------------------------------------------------------

    def suspend_failed(self) -> None:
        """Suspend the tables that have failed. Raise an error that belongs to no topic."""
        if self._failure:
            raise self._failure
        if error := self.group.watch.take_found():
            if not error.topic:
                raise error
            if self.of(error.topic):  # otherwise the topic was revoked, or is suspended already
                self.suspend(error.topic, error)
        for topic, member in self.by_topic:
            if failure := member.flow.failure:
                self.suspend(topic, failure)

    @contextmanager
    def suspending_on_error(self, topic: str) -> Iterator[None]:
        """Suspends the topic's table if the block fails and no other partition has suspended the table before."""
        try:
            yield
        except ConnectorError as error:
            if self.of(topic):
                self.suspend(topic, error)
            elif topic not in self._topics:
                raise

    def suspend(self, topic: str, error: ConnectorError) -> None:
        """Suspend the table of this topic for some time. Raise the error if no other table can continue."""
        if error.ends_all or not self.buffer.is_shared:
            raise error
        state = self._topics[topic]
        last = state.last if isinstance(state, Opening | Open) else None
        suspended = Suspended.after(error, last, self.runtime)
        self._put(topic, suspended)
        if isinstance(state, Open):
            state.member.end()
            state.member.flow.fail(error)
            self.buffer.end(state.member.flow.share)
            self.runtime.threads.new_pool("close", 1).submit(state.close)
        all_suspended = self.suspended.keys() == {tp.topic for tp in self.assigned}
        if not self.assignments and len(self.suspended) > 1 and all_suspended:
            raise error
        again = f"opened again in {duration(suspended.pause)}" if suspended.pause < inf else "left to the next run"
        logger.error("%s. The table of topic %s is suspended, and %s. Other tables continue", error, topic, again)

    def fail(self, error: ConnectorError) -> None:
        """Drop the batches in progress. The error ends the process. Any thread may call this method."""
        self._failure = error
        for member in self.all:
            member.flow.fail(error)

    def stop(self) -> None:
        """Drop the batches in progress of all members. Then close each member, which waits for its threads."""
        for member in self.all:
            member.flow.stop.set()
        states = (each.before if isinstance(each, Deleted) else each for each in self._topics.values())
        for close in {each.member: each.close for each in states if isinstance(each, Open)}.values():
            close()
