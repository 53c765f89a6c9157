"""The members of this process: one for each table, and each topic belongs to one table.

A partition belongs to one topic, so each offset is in one log: each table keeps the protocol that it has alone. A table
that fails is set aside: its assignment ends, as after a revocation, and its partitions wait. Later the table is opened
again by a new member, which claims them as after a restart.
"""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

from app.delivery.assignment import Assignment, Claimed, Partition
from app.delivery.buffer import Buffer
from app.delivery.claimer import Group, taken_over
from app.delivery.member import Member
from app.delivery.runtime import Runtime
from app.errors import ConfigError, ConnectorError
from app.formatting import duration
from app.model import TopicPartition
from app.monitoring.status import DELETED, Aside
from app.monitoring.waits import Trouble

logger = logging.getLogger(__name__)


class Opener(Protocol):
    """Opens the tables of topics, where there are several; all on threads.

    Attributes:
        reopens: whether a table that failed is opened again.
    """

    reopens: bool

    def open(self, topic: str) -> Future[Member | str]:
        """Begin to open the table; the result is why the topic has none, or empty if it is none of ours."""

    def close(self, topic: str) -> None:
        """Begin to stop its member, and to remove what that leaves on the disk."""


class Members:
    """For the consumer's thread, but for the properties.

    Args:
        of: the members that are there, by topic.
        opener: opens others; without it, what fails ends the process.
        opening: those that are being opened, by topic.

    Attributes:
        assigned: the partitions that this process has, without those of topics that are not written. A change replaces
            the whole value, because other threads read it while members begin and end one by one.
        left_out: topics that are not written, with the reasons.
    """

    def __init__(
        self,
        group: Group,
        buffer: Buffer,
        runtime: Runtime,
        of: Mapping[str, Member],
        opener: Opener | None = None,
        opening: Mapping[str, Future[Member | str]] = MappingProxyType({}),
    ) -> None:
        self.group = group
        self.buffer = buffer
        self.runtime = runtime
        self._of = dict(of)
        self._opener = opener
        self._opening = dict(opening)
        self._aside: Mapping[str, Aside] = {}  # also of tables that are open again
        self._errors: dict[str, ConnectorError] = {}  # of these
        self._again_at: dict[str, float] = {}  # of these, by a clock that is never set back
        self._failure: ConnectorError | None = None
        self.assigned: tuple[TopicPartition, ...] = ()
        self.left_out: dict[str, str] = {}

    @classmethod
    def of_one(cls, topic: str, member: Member) -> "Members":
        """One table for whatever is read; ``topic`` is for messages."""
        return cls(member.group, member.flow.buffer, member.runtime, {topic: member})

    def of(self, topic: str) -> Member | None:
        """The member with the table of this topic, if it is open. From any thread."""
        return self._of.get(topic) if self._opener else self.all[0]

    @property
    def by_topic(self) -> tuple[tuple[str, Member], ...]:
        return tuple(self._of.items())

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

    def claimed_partition(self, tp: TopicPartition) -> tuple[Assignment | None, Partition | None]:
        """The present assignment of the topic's table, and this partition in it, if it is claimed. From any thread."""
        member = self.of(tp.topic)
        assignment = member.assignment if member else None
        partition = assignment.partitions.get(tp) if assignment else None
        return assignment, partition if partition and partition.is_claimed else None

    @property
    def has_others(self) -> bool:
        """Whether there may be several tables."""
        return self._opener is not None

    @property
    def greedy(self) -> list[Partition]:
        """The claimed partitions of a table of several that holds half of the buffer."""
        is_crowded = self.buffer.limits.is_crowded
        held = (each.assignment for each in self.all if self._opener and is_crowded(each.flow.share.held_bytes))
        return [each for assignment in held if assignment for each in assignment.claimed]

    @property
    def waiting(self) -> list[TopicPartition]:
        """Assigned partitions of topics whose tables are being opened, or are set aside."""
        return [tp for tp in self.assigned if not ((member := self.of(tp.topic)) and member.has(tp))]

    @property
    def aside(self) -> dict[str, Aside]:
        """Those of the assigned topics whose tables are set aside."""
        topics, aside = {tp.topic for tp in self.assigned}, self._aside
        return {topic: aside[topic] for topic in sorted(topics & aside.keys()) if topic not in self._of}

    @property
    def failure(self) -> ConnectorError | None:
        return self._failure or next((each.flow.failure for each in self.all if each.flow.failure), None)

    @property
    def is_in_trouble(self) -> bool:
        """Whether another system is waited for, or all has failed."""
        return any(each.flow.is_in_trouble for each in self.all)

    @property
    def due_in(self) -> float | None:
        """Seconds until the next batch is due, negative where it is late."""
        return min((each.flow.ends.due_in for each in self.all), default=None)

    def raise_failure(self, *, also_aside: bool = False) -> None:
        """Raise why not all is in the lake, if something has failed."""
        if failure := self.failure:
            raise failure
        for topic in self.aside if also_aside else ():
            raise self._errors[topic]
        for topic, why in self.left_out.items() if also_aside else ():
            if why != DELETED:
                raise ConfigError(f"writing topic {topic}", why)

    # --- assignments ------------------------------------------------------------------------------------------------

    def assign(self, tps: Iterable[TopicPartition]) -> None:
        """Begin the assignments of these partitions, which Kafka has given to this process."""
        self.assigned = tuple(tps)
        deleted = {topic for topic, why in self.left_out.items() if why == DELETED} - {tp.topic for tp in self.assigned}
        self.left_out = dict.fromkeys(deleted, DELETED)
        self.begin_waiting()

    def begin_waiting(self) -> None:
        """Begin an assignment for each table that is open, of those of its partitions that are in none."""
        tps = self.waiting
        tps_by_member: dict[Member, list[TopicPartition]] = {}
        open_topics = {topic for topic in sorted({tp.topic for tp in tps}) if self._is_open(topic)}
        for tp in tps:
            if tp.topic in open_topics and (member := self.of(tp.topic)):
                tps_by_member.setdefault(member, []).append(tp)
        if left_out := {topic for topic in open_topics if self.of(topic) is None}:
            self.assigned = tuple(tp for tp in self.assigned if tp.topic not in left_out)
        for member, its_tps in tps_by_member.items():
            member.begin(its_tps)

    def new_claims(self) -> list[tuple[Assignment, Claimed]]:
        """The claims that have succeeded since the last call."""
        claims: list[tuple[Assignment, Claimed]] = []
        for topic, member in self.by_topic:
            if assignment := member.assignment:
                with self.else_aside(topic):
                    claims += [(assignment, claim) for claim in assignment.new_claims()]
        return claims

    def claim_again(self) -> None:
        """Begin another assignment of the same partitions if another member has closed the log of a present one.

        The claim then asks Kafka whether the partitions are still assigned to this member. The table is set aside if
        Kafka has not revoked them for too long.
        """
        for topic, member in self.by_topic:
            assignment = member.assignment
            fence = assignment.log.fence if assignment else None
            if assignment is None or fence is None:
                continue
            if member.reclaiming.may_again(fence.error):
                self.runtime.metrics.ended(assignment.partitions)
                member.begin(tuple(assignment.partitions), str(fence.error))
            elif self.runtime.timings.clock() - fence.since > self.runtime.timings.fenced_seconds:
                self.set_aside(topic, taken_over(str(fence.error)))

    def leave_out(self, topic: str) -> None:
        """Go on with the other topics where one of several does not exist any more."""
        logger.warning(
            "topic %s does not exist: the others go on. If it was deleted, what was read of it and is not in its table "
            "yet is not written",
            topic,
        )
        self.assigned = tuple(tp for tp in self.assigned if tp.topic != topic)
        self.left_out = {**self.left_out, topic: DELETED}
        member = self.of(topic)
        tps = member.assignment.partitions if member and member.assignment else ()
        others = [tp for tp in tps if tp.topic != topic]
        if member and len(others) < len(tps):
            self.runtime.metrics.ended(tps)
            member.end()
            if others:
                member.begin(others)

    def flush(self, seconds: float) -> None:
        """Bring what was taken into the lake, for so long."""
        clock, look_seconds = self.runtime.timings.clock, self.runtime.timings.look_seconds
        until, reason = clock() + seconds, self.buffer.flush_reason
        each = [(member.flow, assignment) for member in self.all if (assignment := member.assignment)]
        for _, assignment in each:
            assignment.end_batch(reason)
        for flow, assignment in each:
            while not flow.wait_delivered(assignment, look_seconds):
                if flow.failure is not None or flow.lacks_topic or assignment.is_over or clock() >= until:
                    break

    def end(self) -> None:
        """End all assignments: what is on its way is dropped."""
        assigned, self.assigned = self.assigned, ()
        self.runtime.metrics.ended(assigned)
        for member in self.all:
            member.end()

    # --- failures ---------------------------------------------------------------------------------------------------

    def _is_open(self, topic: str) -> bool:
        """Whether it is known which table the topic has, if any; else begins to open it when it is time."""
        if self._opener is None or topic in self._of:
            return True
        if topic not in self._opening:
            if self.runtime.timings.clock() < self._again_at.get(topic, -math.inf):
                return False
            self._opening[topic] = self._opener.open(topic)
        if not (opening := self._opening[topic]).done():
            return False
        try:
            found = opening.result()
        except ConnectorError as error:
            self.set_aside(topic, error)
            return False
        if isinstance(found, str):
            self.left_out = self.left_out | ({topic: found} if found else {})
            del self._opening[topic]  # at the next assignment it may have one
            return True
        self._of[topic] = found
        del self._opening[topic]
        if topic in self._aside:
            logger.info("the table of topic %s is open again", topic)
        return True

    def set_failed_aside(self) -> None:
        """Set aside the tables that have failed; raises what is about no topic."""
        if self._failure:
            raise self._failure
        if found := self.group.watch.take_found():
            if not found.topic:
                raise found
            if self.of(found.topic):  # else it has been set aside already
                self.set_aside(found.topic, found)
        for topic, member in self.by_topic:
            if failure := member.flow.failure:
                self.set_aside(topic, failure)

    @contextmanager
    def else_aside(self, topic: str) -> Iterator[None]:
        """Sets the topic's table aside if what is done for it fails."""
        try:
            yield
        except ConnectorError as error:
            if self.of(topic) is None:
                raise
            self.set_aside(topic, error)

    def set_aside(self, topic: str, error: ConnectorError) -> None:
        """Give up the table of this topic for some time, for this reason; raises it if no other table could go on."""
        if self._opener is None or error.ends_all:
            raise error
        member = self._of.pop(topic, None)
        self._opening.pop(topic, None)
        now, timings, last = self.runtime.now(), self.runtime.timings, self._aside.get(topic)
        clock = timings.clock()
        tries = last.tries + 1 if last and clock - self._again_at[topic] < timings.longest_aside_seconds else 1
        pause = min(timings.first_aside_seconds * 2 ** (tries - 1), timings.longest_aside_seconds)
        pause = pause if self._opener.reopens else math.inf
        self._errors[topic], self._again_at[topic] = error, clock + pause
        since = last.since if last and tries > 1 else now
        trouble = replace(Trouble.of(error), exit_code=None)
        self._aside = {**self._aside, topic: Aside(trouble, since, now + pause, tries)}
        if member:
            member.end()
            member.flow.fail(error)
            self.buffer.leave(member.flow.share)
            self._opener.close(topic)
        if not self.assignments and len(self.aside) > 1 and self.aside.keys() == {tp.topic for tp in self.assigned}:
            raise error
        again = f"opened again in {duration(pause)}" if self._opener.reopens else "left to the next run"
        logger.error("%s. The table of topic %s is set aside, and %s. The others go on", error, topic, again)

    def fail(self, error: ConnectorError) -> None:
        """Give up what is under way for this reason, which ends the process. From any thread."""
        self._failure = error
        for each in self.all:
            each.flow.fail(error)

    def stop(self) -> None:
        """Give up what is under way in all at once, before each of them waits for its threads."""
        for each in self.all:
            each.flow.stop.set()
