"""The members of a consumer group over one store, catalog and broker, and how they go on."""

import itertools
import logging
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypeVar

from app.model import TopicPartition
from tests.fakes.clock import Clock
from tests.faults.kafka_model import TOPIC, Group
from tests.faults.lanes import Fate, Lane, Network
from tests.faults.memory_lake import MemoryStore, WatchfulCatalog
from tests.faults.stepped_member import KINDS, Process, World, time_stands_still

FEW = 4
ENOUGH = 400  # requests of a thread, or rounds, after which something that does not end never will
Moves = list[tuple[int, int, Fate]]
_T = TypeVar("_T")
counted: Counter[str] = Counter()  # what happened in all crowds


class Crowd:
    """Begins without members and records; each topic has so many partitions."""

    member_types: Sequence[Callable[[str, World], Process]]  # in turn
    kinds: Sequence[str] = tuple(KINDS)  # of records that all members understand
    topics: Sequence[str] = (TOPIC,)
    is_shared = False  # whether all topics have one table; else each has its own

    def __init__(self, partitions: int, on_commit: Callable[[TopicPartition, int], None]) -> None:
        super().__init__()
        self._closing = ExitStack()
        scratch = Path(self._closing.enter_context(tempfile.TemporaryDirectory(prefix="faults-")))
        self.clock = Clock()
        self._closing.enter_context(time_stands_still(self.clock))
        self.violations: list[str] = []
        self.network = Network()
        self.store = MemoryStore(self.network, self.violations)
        if self.is_shared:
            self.store.table_of = lambda _: self.topics[0]
        self.group = Group((), self.network, on_commit)
        tokens = (f"{number:024x}" for number in itertools.count())
        self.world = World(scratch, self.clock, self.store, {}, self.group, partial(next, tokens))
        self._partitions = partitions
        for topic in self.topics:
            self._add_topic(topic)
        self.members: list[Process] = []
        self._started = 0
        logging.disable(logging.CRITICAL)
        self._closing.callback(logging.disable, logging.NOTSET)

    def close(self) -> None:
        try:
            for member in self.members:
                member.kill()
        finally:
            self._closing.close()

    # --- among faults -----------------------------------------------------------------------------------------------

    def _move(self, moves: Moves) -> None:
        """What goes on meanwhile: threads make some requests; loops that wait make some turns, or a checkpoint."""
        for which, count, fate in moves:
            lanes, free = self._lanes(), self._with(is_free)
            if lanes and (which % 3 or not free):
                self.go(*one_of(lanes, which // 3), *[Fate.ANSWERED] * (count - 1), fate)
            elif free:
                member = one_of(free, which // 3)
                if count > FEW:
                    member.checkpoint()
                else:
                    member.consume(2 * count)
                self.go(member, member.consuming)

    def _race(self, members: Sequence[Process], turns: list[int]) -> None:
        """By turns, each member makes so many requests: what goes wrong between two who want the same needs few."""
        for turn, count in enumerate(turns):
            member = one_of(members, turn)
            if count and is_free(member):
                member.consume(2 * count)
            for lane in member.lanes:
                if count and member in self.members:
                    self.go(member, lane, *[Fate.ANSWERED] * count)

    # --- without faults ---------------------------------------------------------------------------------------------

    def _go_to_the_end(self) -> None:
        for _ in range(ENOUGH):
            self._round()
            if self._is_settled():
                return
        raise AssertionError(f"{self.group.committed} of {self.group.records}: the members do not come to an end")

    def _is_settled(self) -> bool:
        """Not all needs to be committed: without new records nobody commits what the journal knows already."""
        return not self.group.free and not any(
            member.lanes or member.is_zombie or not member.is_through for member in self.members
        )

    def _round(self) -> None:
        if not self.members:
            self._new_member()
        for member in self.members.copy():
            self._finish(member)
            if member in self.members:
                self._begin_something(member)
                self._finish(member)
            if member in self.members and not member.is_zombie:
                member.checkpoint()
                self._finish(member)
        self.clock.advance(6.0)

    def _begin_something(self, member: Process) -> None:
        if member.is_zombie:
            member.lose()
        elif self.group.free and not member.kafka.assigned:
            self._assign(member, self.group.free)
        elif self.group.free:
            member.revoke()
        else:
            member.consume(10)

    def _finish(self, member: Process) -> None:
        """All threads of a member go on, one request each in turn, until they have nothing more to do."""
        for _ in range(ENOUGH):
            if self.group.deleted and member in self.members and member.is_zombie and member.consuming.is_idle:
                member.lose()  # soon, and its claims ask for a topic that is gone until then
            lanes = member.lanes if member in self.members else []
            if not lanes:
                return
            for lane in lanes:
                if member in self.members:
                    self.go(member, lane)
        raise AssertionError(f"{[(lane.name, lane.waits_for) for lane in member.lanes]} do not come to an end")

    # --- inside -----------------------------------------------------------------------------------------------------

    def _add_topic(self, topic: str) -> None:
        table = self.store.table_of(topic)
        self.world.catalogs.setdefault(table, WatchfulCatalog(self.network, self.store, table))
        self.group.add([TopicPartition(topic, number) for number in range(self._partitions)])

    def _with(self, quality: Callable[[Process], bool]) -> list[Process]:
        return [member for member in self.members if quality(member)]

    def _owners(self) -> list[Process]:
        return [member for member in self.members if self.group.of(member.kafka)]

    def _lanes(self) -> list[tuple[Process, Lane]]:
        return [(member, lane) for member in self.members for lane in member.lanes]

    def _new_member(self) -> Process:
        self._started += 1
        member = one_of(self.member_types, self._started)(f"member {self._started}", self.world)
        self.members.append(member)
        return member

    def _produce(self, tp: TopicPartition, kinds: Sequence[str]) -> None:
        """Append records; one that not all members understand becomes an ordinary one."""
        self.group.produce(tp, [kind if kind in self.kinds else "a" for kind in kinds], self.clock.now)

    def _assign(self, member: Process, tps: list[TopicPartition]) -> None:
        for tp in tps:
            self.group.owners[tp] = member.kafka
        member.assign(tps)
        self.go(member, member.consuming)

    def go(self, member: Process, lane: Lane, *fates: Fate) -> None:
        """Let a thread of a member begin, or let its next requests meet these fates."""
        for fate in fates or (Fate.ANSWERED,):
            if lane.is_idle:
                break
            counted["requests"] += 1
            lane.go(fate)
            member.after_step()
        if member.has_ended and member.consuming.is_idle:
            self._bury(member)
        else:
            member.prepare()

    def _bury(self, member: Process) -> None:
        member.kill()
        self.members.remove(member)


def is_free(member: Process) -> bool:
    return member.consuming.is_idle and bool(member.kafka.assigned)


def has_nothing(member: Process) -> bool:
    return member.consuming.is_idle and not member.kafka.assigned


def owns(member: Process) -> bool:
    return is_free(member) and not member.is_zombie


def may_learn(member: Process) -> bool:
    return member.consuming.is_idle and member.is_zombie


def one_of(some: Sequence[_T], which: int) -> _T:
    return some[which % len(some)]
