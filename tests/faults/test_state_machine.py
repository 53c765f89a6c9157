"""Every row exactly once, whatever happens in whatever order: members that stall, die, lose their partitions and do not
know it, over a store, a catalog and a broker that fail at any request.

The members are the connector's own parts, from the application's loop to the journal (see ``stepped_member``). A long
run: ``FAULT_EXAMPLES=5000 FAULT_STEPS=150 pytest tests/faults/test_state_machine.py``.
"""

import logging
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from app.journal_entry import journal_key
from app.model import TopicPartition
from tests.fakes.clock import Clock
from tests.faults.kafka_model import TOPIC, Group
from tests.faults.lanes import BEGIN, Fate, Lane, Network
from tests.faults.memory_lake import ROOT, MemoryStore, RowId, WatchfulCatalog
from tests.faults.stepped_member import KINDS, LARGEST_RECORD, MAX_BUFFER_BYTES, Member, time_stands_still

# A member is killed by ending its threads where they wait; that of the framework's flush does not expect it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

EXAMPLES = int(os.environ.get("FAULT_EXAMPLES", "200"))
STEPS = int(os.environ.get("FAULT_STEPS", "60"))
PARTITIONS = 2
MEMBERS = 3
FEW = 4
DAY = 25 * 3600.0
ENOUGH = 400  # requests of a thread, or rounds, after which something that does not end never will

choices = st.integers(0, 11)  # of what there is
failures = st.sampled_from([Fate.REFUSED, Fate.UNANSWERED, Fate.DELAYED] * 3 + [Fate.FORBIDDEN])
fates = st.one_of(st.just(Fate.ANSWERED), st.just(Fate.ANSWERED), failures)
moves = st.lists(st.tuples(st.integers(0, 17), st.integers(1, 8), fates), max_size=8)
Moves = list[tuple[int, int, Fate]]
_T = TypeVar("_T")
counted: Counter[str] = Counter()  # what happened, over all examples


class Faults(RuleBasedStateMachine):
    """Three members of a group at most, two partitions, one table."""

    def __init__(self) -> None:
        super().__init__()
        self._closing = ExitStack()
        self._scratch = Path(self._closing.enter_context(tempfile.TemporaryDirectory(prefix="faults-")))
        self.clock = Clock()
        self._closing.enter_context(time_stands_still(self.clock))
        self.violations: list[str] = []
        self.network = Network()
        self.store = MemoryStore(self.network, self.violations)
        self.catalog = WatchfulCatalog(self.network, self.store, self.violations)
        self.group = Group(PARTITIONS, self.network, self._check_commit)
        self.members: list[Member] = []
        self._started = 0
        logging.disable(logging.CRITICAL)
        self._closing.callback(logging.disable, logging.NOTSET)

    # --- records ----------------------------------------------------------------------------------------------------

    @initialize(kinds=st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=8), share=st.booleans())
    def begin(self, kinds: list[str], share: bool) -> None:
        """An example that begins with members at work gets further."""
        for tp in self.group.records:
            self.group.records[tp].extend(kinds)
        for tps in [self.group.free[:1], self.group.free[1:]] if share else [self.group.free]:
            self._assign(self._new_member(), tps)

    @rule(
        partition=st.integers(0, PARTITIONS - 1),
        kinds=st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=6),
        moves=moves,
    )
    def produce(self, partition: int, kinds: list[str], moves: Moves) -> None:
        self.group.records[TopicPartition(TOPIC, partition)].extend(kinds)
        self._move(moves)

    # --- requests ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: self._lanes())
    @rule(which=choices, fate=failures, tries=st.integers(1, 8), moves=moves)
    def fail(self, which: int, fate: Fate, tries: int, moves: Moves) -> None:
        """All requests of a thread fail for a while."""
        self._move(moves)
        if self._lanes():
            self._go(*_one_of(self._lanes(), which), *[fate] * tries)

    @precondition(lambda self: self.network.delayed)
    @rule(which=choices, moves=moves)
    def deliver_delayed(self, which: int, moves: Moves) -> None:
        """A request that its sender has given up arrives."""
        self._move(moves)
        counted["delayed requests that arrived"] += 1
        self.network.deliver(which % len(self.network.delayed))

    # --- members and partitions -------------------------------------------------------------------------------------

    @precondition(lambda self: self.group.free and (len(self.members) < MEMBERS or self._with(_has_nothing)))
    @rule(which=choices, count=st.integers(1, PARTITIONS), moves=moves)
    def assign(self, which: int, count: int, moves: Moves) -> None:
        """Free partitions are given to a member without any, perhaps a new one."""
        waiting = self._with(_has_nothing)
        room = len(self.members) < MEMBERS
        index = which % (len(waiting) + room)
        member = waiting[index] if index < len(waiting) else self._new_member()
        self._assign(member, self.group.free[:count])
        self._move(moves)

    @precondition(lambda self: self._with(_owns))
    @rule(which=choices, moves=moves)
    def revoke(self, which: int, moves: Moves) -> None:
        """A member gives its partitions away in good order."""
        counted["partitions given away"] += 1
        member = _one_of(self._with(_owns), which)
        member.revoke()
        self._go(member, member.consuming)
        self._move(moves)

    @precondition(lambda self: self._owners())
    @rule(which=choices, lead=st.integers(0, 12), moves=moves)
    def expel(self, which: int, lead: int, moves: Moves) -> None:
        """The coordinator takes a member for dead, which it is not, and another one begins to claim its partitions."""
        self._move(moves)
        if not self._owners():
            return
        counted["zombies"] += 1
        busy = [member for member in self._owners() if member.is_delivering]
        self.group.release(_one_of(busy or self._owners(), which).kafka)
        waiting = self._with(_has_nothing)
        if waiting or len(self.members) < MEMBERS:
            heir = waiting[0] if waiting else self._new_member()
            self._assign(heir, self.group.free)
            for lane in heir.lanes if lead else []:
                self._go(heir, lane, *[Fate.ANSWERED] * lead)

    @precondition(lambda self: self._with(_may_learn))
    @rule(which=choices, moves=moves)
    def learn(self, which: int, moves: Moves) -> None:
        """A member learns that its partitions are lost."""
        member = _one_of(self._with(_may_learn), which)
        member.lose()
        self._go(member, member.consuming)
        self._move(moves)

    @precondition(lambda self: self.members)
    @rule(which=choices, arrives=st.booleans(), moves=moves)
    def crash(self, which: int, arrives: bool, moves: Moves) -> None:
        """Memory is gone; a request that was just sent may arrive all the same."""
        self._move(moves)
        if not self.members:
            return
        counted["crashes"] += 1
        member = _one_of(self.members, which)
        for lane in member.lanes if arrives else []:
            if lane.waits_for != BEGIN:
                lane.go(Fate.DELAYED)
        self._bury(member)

    @precondition(lambda self: self._with(_owns))
    @rule(which=choices, moves=moves)
    def stop(self, which: int, moves: Moves) -> None:
        """A member ends in good order."""
        member = _one_of(self._with(_owns), which)
        member.stop()
        self._go(member, member.consuming)
        self._move(moves)

    # --- the rest of the world --------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([1.0, 6.0, 31.0, 700.0, DAY]), moves=moves)
    def time_passes(self, seconds: float, moves: Moves) -> None:
        """No request is on its way for a day."""
        self._move(moves)
        if seconds == DAY and (
            self.network.delayed or any(lane.waits_for[:6] == "upload" for _, lane in self._lanes())
        ):
            return
        self.clock.advance(seconds)

    @precondition(lambda self: self.group.committed)
    @rule(which=choices, back=st.integers(1, 10), moves=moves)
    def reset_by_hand(self, which: int, back: int, moves: Moves) -> None:
        """Somebody moves the group's offset back."""
        self._move(moves)
        tp = _one_of(sorted(self.group.committed), which)
        self.group.committed[tp] = max(self.group.committed[tp] - back, 0)

    @precondition(lambda self: self.store.revoked and self.members)
    @rule(which=choices, moves=moves)
    def sweep(self, which: int, moves: Moves) -> None:
        """A member deletes again what was rolled back."""
        member = _one_of(self.members, which)
        member.claims._pool.submit(member.claims._advance, member.custody, {}, sweep=True)
        self._move(moves)

    # --- what must hold ---------------------------------------------------------------------------------------------

    @invariant()
    def nothing_forbidden_happened(self) -> None:
        """Invariants 1 to 3 and the half of 5 that can be seen on the way; they are looked at where they could break.

        Offsets are committed only for rows in the lake; a file stays as it is; only who owns a partition registers; no
        row is registered twice and none that was is deleted.
        """
        counted["steps"] += 1
        assert not self.violations, "\n".join(self.violations)

    @invariant()
    def what_is_registered_is_stored(self) -> None:
        registered = self.catalog.files.keys()
        assert registered <= self.store.objects.keys()
        assert not registered & self.store.revoked

    @invariant()
    def memory_is_bounded(self) -> None:
        """Invariant 4."""
        for member in self.members:
            member_bytes = member.sink._buffer.bytes + member.pipeline.held_bytes
            assert member_bytes <= MAX_BUFFER_BYTES + LARGEST_RECORD

    def _check_commit(self, tp: TopicPartition, offset: int) -> None:
        """Invariant 1."""
        rows = [(tp.partition, at, v) for at in range(offset) for v in range(self._rows_of(tp, at))]
        in_the_lake = self.store.rows_of(set(self.catalog.files)) + self.store.rows_of(self.store.dead_letters)
        missing = [row for row in rows if not in_the_lake[row]]
        if missing:
            self.violations.append(f"{offset} of {tp} was committed while {missing} were not in the lake")
        entry = self.store.entries.get(journal_key(ROOT, "group", tp))
        if rows and (entry is None or entry.end < rows[-1][1]):
            self.violations.append(f"{offset} of {tp} was committed while the journal said {entry}")

    # --- at the end -------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            if self._started and not self.violations:
                self._settle()
            counted["examples"] += 1
            counted["failed requests"] += self.network.failures
            counted["records"] += sum(map(len, self.group.records.values()))
            counted["members"] += self._started
            counted["files"] += len(self.catalog.files)
            counted["files rolled back"] += len(self.store.revoked)
        finally:
            for member in self.members:
                member.kill()
            self._closing.close()

    def _settle(self) -> None:
        """No more faults: whoever lives goes on until all is in the lake, and sweeps what came late."""
        self._go_to_the_end()
        while self.network.delayed:
            self.network.deliver(0)
        # The first commit after some time sweeps.
        self.clock.advance(1_000.0)
        for tp in self.group.records:
            self.group.records[tp].append("a")
        self._go_to_the_end()
        self.nothing_forbidden_happened()
        self._check_lake()

    def _go_to_the_end(self) -> None:
        for _ in range(ENOUGH):
            self._round()
            if self._is_settled():
                return
        raise AssertionError(f"{self.group.committed} of {self.group.records}: the members do not come to an end")

    def _check_lake(self) -> None:
        """Invariant 5."""
        wanted: Counter[RowId] = Counter()
        rejected: Counter[RowId] = Counter()
        for tp, kinds in self.group.records.items():
            for offset, kind in enumerate(kinds):
                target = rejected if kind == "bad" else wanted
                target.update((tp.partition, offset, v) for v in range(len(KINDS[kind])))
        stored = self.store.data_files
        assert stored == set(self.catalog.files), f"store and catalog: {stored ^ set(self.catalog.files)}"
        found = self.store.rows_of(stored)
        assert found == wanted, f"missing {wanted - found}, too many {found - wanted}"
        dead = self.store.rows_of(self.store.dead_letters)
        assert dead == rejected, f"dead letters missing {rejected - dead}, too many {dead - rejected}"

    def _is_settled(self) -> bool:
        """Not all needs to be committed: without new records nobody commits what the journal knows already."""
        return not self.group.free and not any(
            member.lanes or member.is_zombie or not member.is_through for member in self.members
        )

    def _round(self) -> None:
        """Every member does what it can, without faults."""
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

    def _begin_something(self, member: Member) -> None:
        if member.is_zombie:
            member.lose()
        elif self.group.free and not member.kafka.assigned:
            self._assign(member, self.group.free)
        elif self.group.free:
            member.revoke()
        else:
            member.consume(10)

    def _finish(self, member: Member) -> None:
        """All threads of a member go on, one request each in turn, until they have nothing more to do."""
        for _ in range(ENOUGH):
            lanes = member.lanes if member in self.members else []
            if not lanes:
                return
            for lane in lanes:
                if member in self.members:
                    self._go(member, lane)
        raise AssertionError(f"{[(lane.name, lane.waits_for) for lane in member.lanes]} do not come to an end")

    # --- inside -----------------------------------------------------------------------------------------------------

    def _move(self, moves: Moves) -> None:
        """What goes on meanwhile: threads make some requests; loops that wait make some turns, or a checkpoint."""
        for which, count, fate in moves:
            lanes, free = self._lanes(), self._with(_is_free)
            if lanes and (which % 3 or not free):
                self._go(*_one_of(lanes, which // 3), *[Fate.ANSWERED] * (count - 1), fate)
            elif free:
                member = _one_of(free, which // 3)
                if count > FEW:
                    member.checkpoint()
                else:
                    member.consume(2 * count)
                self._go(member, member.consuming)

    def _with(self, quality: Callable[[Member], bool]) -> list[Member]:
        return [member for member in self.members if quality(member)]

    def _owners(self) -> list[Member]:
        return [member for member in self.members if self.group.of(member.kafka)]

    def _lanes(self) -> list[tuple[Member, Lane]]:
        return [(member, lane) for member in self.members for lane in member.lanes]

    def _new_member(self) -> Member:
        self._started += 1
        name = f"member {self._started}"
        member = Member(
            name,
            scratch=self._scratch / name,
            clock=self.clock,
            store=self.store,
            catalog=self.catalog,
            group=self.group,
        )
        self.members.append(member)
        return member

    def _assign(self, member: Member, tps: list[TopicPartition]) -> None:
        for tp in tps:
            self.group.owners[tp] = member.kafka
        member.assign(tps)
        self._go(member, member.consuming)

    def _go(self, member: Member, lane: Lane, *fates: Fate) -> None:
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

    def _bury(self, member: Member) -> None:
        member.kill()
        self.members.remove(member)

    def _rows_of(self, tp: TopicPartition, offset: int) -> int:
        return len(KINDS[self.group.records[tp][offset]])


def _is_free(member: Member) -> bool:
    return member.consuming.is_idle and bool(member.kafka.assigned)


def _has_nothing(member: Member) -> bool:
    return member.consuming.is_idle and not member.kafka.assigned


def _owns(member: Member) -> bool:
    return _is_free(member) and not member.is_zombie


def _may_learn(member: Member) -> bool:
    return member.consuming.is_idle and member.is_zombie


def _one_of(some: Sequence[_T], which: int) -> _T:
    return some[which % len(some)]


TestFaults = Faults.TestCase
TestFaults.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,  # the machine may be busy
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
