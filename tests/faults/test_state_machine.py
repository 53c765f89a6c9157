"""Every row exactly once, whatever happens in whatever order: members that stall, die, lose their partitions and do not
know it, over a store, a catalog and a broker that fail at any request.

The members are the connector's own parts, from the application's loop to the journal (see ``stepped_member``). A long
run: ``FAULT_EXAMPLES=1200 FAULT_STEPS=80 pytest -s tests/faults/test_state_machine.py --hypothesis-seed=1``, and again
with other seeds: Hypothesis keeps about 1 MB of each example.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from app.journal.entry import topic_folder
from app.model import TopicPartition
from tests.faults.crowd import Crowd, Moves, counted, has_nothing, is_free, may_learn, one_of, owns
from tests.faults.framework_member import FrameworkMember
from tests.faults.kafka_model import EPOCH, OTHER, TOPIC
from tests.faults.lanes import BEGIN, Fate
from tests.faults.memory_lake import GROUP, RowId, root_of
from tests.faults.plain_member import PLAIN_KINDS, PlainMember, TransformingMember
from tests.faults.stepped_member import KINDS, LARGEST_RECORD, MAX_BUFFER_BYTES, Process, World

# A member is killed by ending its threads where they wait; that of the framework's flush does not expect it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

EXAMPLES = int(os.environ.get("FAULT_EXAMPLES", settings().max_examples))  # by the profile
FEW_EXAMPLES = 100  # up to here they are the same ones each time; more of them are a search
STEPS = int(os.environ.get("FAULT_STEPS", "60"))
PARTITIONS = 2
MEMBERS = 3
DAY = 25 * 3600.0
_IN_FLIGHT_SECONDS = 60.0  # stores refuse requests that were signed long ago

FAILURES = [Fate.REFUSED, Fate.UNANSWERED, Fate.DELAYED] * 3 + [Fate.FORBIDDEN]

choices = st.integers(0, 11)  # of what there is
failures = st.sampled_from(FAILURES)
fates = st.sampled_from([Fate.ANSWERED] * 20 + FAILURES)
moves = st.lists(st.tuples(st.integers(0, 17), st.integers(1, 8), fates), max_size=8)
turns = st.lists(st.integers(0, 8), max_size=8)  # requests of one and of another


@pytest.fixture(scope="module", autouse=True)
def figures() -> Iterator[None]:
    """Says what happened, to whoever runs it with ``-s``."""
    yield
    print("\n" + ", ".join(f"{number:,} {what}" for what, number in sorted(counted.items())))


class Faults(Crowd, RuleBasedStateMachine):
    """Three members of a group at most, of the framework's lane; two partitions of each topic, and one topic."""

    member_types: Sequence[Callable[[str, World], Process]] = (FrameworkMember,)

    def __init__(self) -> None:
        super().__init__(PARTITIONS, on_commit=self._check_commit)
        self._text = 0  # of FOLLOW_OFFSETS
        self._set_for: dict[TopicPartition, int] = {}  # the text that is to follow an offset which nobody has committed
        self._since: dict[TopicPartition, int] = {}  # where partitions begin by the time that came with the last text
        self._passed_over: Counter[RowId] = Counter()  # rows that the user does not want
        self._begins: dict[tuple[str, str], dict[int, int]] = {}  # by topic and text: offsets that must be chosen
        self.store.on_time = self._time_is_reckoned

    # --- records ----------------------------------------------------------------------------------------------------

    @initialize(kinds=st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=8), share=st.booleans())
    def begin(self, kinds: list[str], share: bool) -> None:
        """An example that begins with members at work gets further."""
        for tp in self.group.records:
            self._produce(tp, kinds)
        free, half = self.group.free, len(self.group.free) // 2
        for tps in [free[:half], free[half:]] if share else [free]:
            self._assign(self._new_member(), tps)

    @rule(
        which=choices,
        kinds=st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=6),
        moves=moves,
    )
    def produce(self, which: int, kinds: list[str], moves: Moves) -> None:
        self._produce(one_of(list(self.group.records), which), kinds)
        self._move(moves)

    @precondition(lambda self: len(self.group.records) == PARTITIONS * len(self._all_topics()))
    @rule(kinds=st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=6), moves=moves)
    def add_partition(self, kinds: list[str], moves: Moves) -> None:
        """Its records are older than any time that is followed."""
        self._move(moves)
        tp = self.group.add_partition([*self.group.records][-1].topic)
        self._produce(tp, kinds)
        self.group.times[tp] = [-1.0] * len(kinds)

    # --- requests ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: self._lanes())
    @rule(which=choices, fate=failures, tries=st.integers(1, 8), moves=moves)
    def fail(self, which: int, fate: Fate, tries: int, moves: Moves) -> None:
        """All requests of a thread fail for a while."""
        self._move(moves)
        if self._lanes():
            self.go(*one_of(self._lanes(), which), *[fate] * tries)

    @precondition(lambda self: self.network.delayed)
    @rule(which=choices, moves=moves)
    def deliver_delayed(self, which: int, moves: Moves) -> None:
        """A request that its sender has given up arrives."""
        self._move(moves)
        counted["delayed requests that arrived"] += 1
        self.network.deliver(which % len(self.network.delayed))

    # --- members and partitions -------------------------------------------------------------------------------------

    @precondition(lambda self: self.group.free and (len(self.members) < MEMBERS or self._with(has_nothing)))
    @rule(which=choices, count=st.integers(1, PARTITIONS), moves=moves)
    def assign(self, which: int, count: int, moves: Moves) -> None:
        """Free partitions are given to a member without any, perhaps a new one."""
        waiting = self._with(has_nothing)
        room = len(self.members) < MEMBERS
        index = which % (len(waiting) + room)
        member = waiting[index] if index < len(waiting) else self._new_member()
        self._assign(member, self.group.free[:count])
        self._move(moves)

    @precondition(lambda self: self._with(owns))
    @rule(which=choices, moves=moves)
    def revoke(self, which: int, moves: Moves) -> None:
        """A member gives its partitions away in good order."""
        counted["partitions given away"] += 1
        member = one_of(self._with(owns), which)
        member.revoke()
        self.go(member, member.consuming)
        self._move(moves)

    @precondition(lambda self: self._owners())
    @rule(which=choices, turns=turns, moves=moves)
    def expel(self, which: int, turns: list[int], moves: Moves) -> None:
        """The coordinator takes a member for dead, which it is not."""
        self._move(moves)
        if self._owners():
            self._expel(one_of(self._owners(), which), turns)

    @precondition(lambda self: self._with(owns))
    @rule(which=choices, kinds=st.lists(st.sampled_from(list(KINDS)), min_size=3, max_size=6), turns=turns)
    def expel_at_work(self, which: int, kinds: list[str], turns: list[int]) -> None:
        """The same amid a batch, where every step counts."""
        member = one_of(self._with(owns), which)
        for tp in self.group.of(member.kafka):
            self._produce(tp, kinds)
        self._race([member], turns[:2])
        if self.group.of(member.kafka):
            self._expel(member, turns[2:])

    @precondition(lambda self: self._with(owns) and (len(self.members) < MEMBERS or self._with(has_nothing)))
    @rule(
        which=choices,
        requests=st.integers(0, 9),
        kinds=st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=6),
        turns=turns,
        moves=moves,
    )
    def claim_late(self, which: int, requests: int, kinds: list[str], turns: list[int], moves: Moves) -> None:
        """A member is taken for dead amid its claim, and goes on with it while the next owner is at work."""
        owner = one_of(self._with(owns), which)
        waiting = self._with(has_nothing)
        owner.revoke()
        self._finish(owner)
        if owner not in self.members:
            return
        late = waiting[0] if waiting else self._new_member()
        self._assign(late, self.group.free)
        for lane in late.background.lanes:
            self.go(late, lane, *[Fate.ANSWERED] * requests)
        self.group.release(late.kafka)
        self._assign(owner, self.group.free)
        for tp in self.group.records:
            self._produce(tp, kinds)
        self._race([owner, late], turns)
        self._move(moves)
        counted["late claims"] += 1

    @precondition(lambda self: self._with(may_learn))
    @rule(which=choices, moves=moves)
    def learn(self, which: int, moves: Moves) -> None:
        member = one_of(self._with(may_learn), which)
        member.lose()
        self.go(member, member.consuming)
        self._move(moves)

    @precondition(lambda self: self.members)
    @rule(which=choices, arrives=st.booleans(), moves=moves)
    def crash(self, which: int, arrives: bool, moves: Moves) -> None:
        """Memory is gone; a request that was just sent may arrive all the same."""
        self._move(moves)
        if not self.members:
            return
        counted["crashes"] += 1
        member = one_of(self.members, which)
        for lane in member.lanes if arrives else []:
            if lane.waits_for != BEGIN:
                lane.go(Fate.DELAYED)
        self._bury(member)

    @precondition(lambda self: self._with(owns))
    @rule(which=choices, moves=moves)
    def stop(self, which: int, moves: Moves) -> None:
        member = one_of(self._with(owns), which)
        member.stop()
        self.go(member, member.consuming)
        self._move(moves)

    # --- the rest of the world --------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([1.0, 6.0, 31.0, 700.0, DAY]), moves=moves)
    def time_passes(self, seconds: float, moves: Moves) -> None:
        """No request is on its way for long."""
        self._move(moves)
        if seconds > _IN_FLIGHT_SECONDS and (
            self.network.delayed or any(lane.waits_for.startswith(("upload", "fill")) for _, lane in self._lanes())
        ):
            return
        self.clock.advance(seconds)

    @precondition(lambda self: self.group.committed)
    @rule(which=choices, back=st.integers(1, 10), moves=moves)
    def reset_by_hand(self, which: int, back: int, moves: Moves) -> None:
        """Somebody moves the group's offset back, and gives no new text to have it followed."""
        self._move(moves)
        tp = one_of(sorted(self.group.committed), which)
        if self._text_of(tp) == self._text:
            self._set_back(tp, back, self._text + 1)

    @precondition(lambda self: self.group.committed and self._with(owns))
    @rule(
        which=choices,
        back=st.integers(0, 10),
        kinds=st.lists(st.sampled_from(list(KINDS)), min_size=3),
        turns=turns,
        seconds=st.sampled_from([None, 1.0, 10.0, 100.0]),
    )
    def follow(self, which: int, back: int, kinds: list[str], turns: list[int], seconds: float | None = None) -> None:
        """All members die at work. A user moves an offset back, if the one before is followed, and gives a new text.

        Or the text comes with a time, so many seconds before the first start.
        """
        for tp in self.group.records:
            self._produce(tp, kinds[:6])
        self._race(self._with(owns), turns)
        for member in self.members.copy():
            self._bury(member)
        while self.network.delayed:
            self.network.deliver(0)
        if any(self._awaits_time(tp) for tp in self._since):
            return
        self._since = {}
        if any(self._text_of(tp) < text <= self._text for tp, text in self._set_for.items()):
            seconds = None  # what was set for the text before is not followed yet
        self.group.reset = "earliest" if seconds is None else timedelta(seconds=seconds)
        tp = one_of(sorted(self.group.committed), which)
        if seconds is None and (tp not in self._set_for or self._text_of(tp) >= self._set_for[tp]):
            self._set_back(tp, back, self._text + 1)
        self._text += 1
        self.group.follow_offsets = str(self._text)
        for tp, text in self._set_for.items():
            if seconds is not None:
                self._set_for[tp] = self._text + 1  # the next text follows it, where nothing is committed before
            elif text == self._text:
                counted["offsets that are followed"] += 1
                self._goes_on(tp, self.group.committed[tp])

    @precondition(lambda self: self._topics_with_text() == self._all_topics())
    @rule(seconds=st.sampled_from([1.0, 10.0, 100.0]))
    def set_a_time_without_a_text(self, seconds: float) -> None:
        """The user changes where a new group would begin, and this one goes on: each table knows the text already."""
        self.group.reset = timedelta(seconds=seconds)

    def _time_is_reckoned(self, key: str, body: bytes) -> None:
        """The connector has noted down where each partition begins, before anything is read."""
        offsets = {int(partition): offset for partition, offset in json.loads(body)["offsets"].items()}
        if not offsets:
            return  # the text came without a time
        counted["times that are followed"] += 1
        topic, text = key.split("/")[-2], self.group.follow_offsets if "first-offsets-" in key else ""
        if (expected := self._begins.get((topic, text), offsets)) != offsets:
            self.violations.append(f"{topic} begins at {offsets} with the text {text!r}, and not at {expected}")
        for tp in self.group.records:
            if tp.topic == topic and tp.partition in offsets:
                self._since[tp] = offsets[tp.partition]
                self._goes_on(tp, self._since[tp])

    def _goes_on(self, tp: TopicPartition, offset: int) -> None:
        """The user wants again what the table has from there on, and not what it lacks before that."""
        end = self.store.found_end(tp)
        again, passed_over = self.store.wanted_again, self._passed_over
        for offsets, rows in ((range(offset, end + 1), again), (range(end + 1, offset), passed_over)):
            rows.update((*tp, at, v) for at in offsets for v in range(self._rows_of(tp, at)))

    def _wanted(self, row: RowId) -> int:
        return 1 + self.store.wanted_again[row] - self._passed_over[row]

    def _awaits_time(self, tp: TopicPartition) -> bool:
        is_ahead = self.group.committed.get(tp, 0) > self.store.found_end(tp) + 1
        return self._text_of(tp) < self._text or is_ahead

    def _set_back(self, tp: TopicPartition, by: int, text: int) -> None:
        self.group.set_back(tp, by)
        self._set_for[tp] = text

    def _topics_with_text(self) -> set[str]:
        return {tp.topic for tp in self.group.records if 0 < self._text == self._text_of(tp)}

    def _all_topics(self) -> set[str]:
        return {tp.topic for tp in (*self.group.records, *self.group.deleted)}

    def _text_of(self, tp: TopicPartition) -> int:
        """With which the partition was claimed last."""
        progress = self.store.progress(tp)
        return int(progress.followed[-1] if progress.followed else 0) if progress else -1

    @precondition(lambda self: self.store.revoked and self.members)
    @rule(which=choices, moves=moves)
    def sweep(self, which: int, moves: Moves) -> None:
        member = one_of(self.members, which)
        member.sweep()
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
        registered = self.store.registered.keys()
        assert registered <= self.store.objects.keys()
        assert not registered & self.store.revoked

    @invariant()
    def readers_see_no_row_twice(self) -> None:
        for keys in (self.store.data_files, self.store.dead_letters):
            again = self.store.wanted_again
            twice = [row for row, count in self.store.rows_of(keys).items() if count > 1 + again[row]]
            assert not twice, f"{twice} are there too often"

    @invariant()
    def memory_is_bounded(self) -> None:
        """Invariant 4."""
        for member in self.members:
            assert member.held_bytes <= MAX_BUFFER_BYTES + LARGEST_RECORD

    def _check_commit(self, tp: TopicPartition, offset: int) -> None:
        """Invariant 1."""
        self._set_for.pop(tp, None)
        rows = [(*tp, at, v) for at in range(offset) for v in range(self._rows_of(tp, at))]
        is_time = offset == self._since.get(tp)
        if is_time:  # quixstreams' loop is told where partitions begin before what a dead member has left is settled
            rows = [row for row in rows if row[2] > self.store.found_end(tp)]
        in_the_lake = self.store.rows_of(set(self.store.registered)) + self.store.rows_of(self.store.dead_letters)
        missing = [row for row in rows if not in_the_lake[row] and self._wanted(row)]
        if missing:
            self.violations.append(f"{offset} of {tp} was committed while {missing} were not in the lake")
        progress = self.store.progress(tp)
        end = max(progress.end, -1 if progress.to is None else progress.to) if progress else -1
        if end < offset - 1 and not is_time:
            self.violations.append(f"{offset} of {tp} was committed while the journal said {progress}")

    # --- at the end -------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            if self._started and not self.violations:
                self._settle()
            counted["examples"] += 1
            counted["failed requests"] += self.network.failures
            counted["records"] += sum(map(len, self.group.records.values()))
            counted["members"] += self._started
            counted["files"] += len(self.store.registered)
            counted["files rolled back"] += len(self.store.revoked)
        finally:
            self.close()

    def _settle(self) -> None:
        """No more faults: whoever lives goes on until all is in the lake, and sweeps what came late."""
        self.world.broken.clear()
        self._go_to_the_end()
        while self.network.delayed:
            self.network.deliver(0)
        for _ in range(2):  # a claim that comes late fills placeholders again
            self.clock.advance(DAY)  # by then they are due
            for tp in self.group.records:
                self.group.records[tp].append("a")
            self._go_to_the_end()
        for member in self.members:
            member.sweep()
        self._go_to_the_end()
        self.nothing_forbidden_happened()
        self._check_lake()

    def _check_lake(self) -> None:
        """Invariant 5."""
        wanted: Counter[RowId] = Counter()
        rejected: Counter[RowId] = Counter()
        for tp, kinds in self.group.records.items():
            for offset, kind in enumerate(kinds):
                target = rejected if kind == "bad" else wanted
                rows = [(*tp, offset, v) for v in range(len(KINDS[kind]))]
                target.update({row: self._wanted(row) for row in rows})
        stored = self.store.data_files
        for target, files in ((wanted, stored), (rejected, self.store.dead_letters)):
            counts = self.store.rows_of(files)
            deleted = [row for row in counts if TopicPartition(*row[:2]) in self.group.deleted]
            # What a dead member had read may be there though a text passed over it: nobody follows the text any more.
            target.update({row: min(counts[row], self._wanted(row) + self._passed_over[row]) for row in deleted})
        unknown = {*stored ^ self.store.registered.keys()} - self._left_by_deleted()
        assert not unknown, f"store and catalog: {unknown}"
        assert (
            not self.store.placeholders or self.group.deleted
        )  # nobody sweeps after the last owner of such partitions
        found = self.store.rows_of(stored)
        assert found == wanted, f"missing {wanted - found}, too many {found - wanted}"
        dead = self.store.rows_of(self.store.dead_letters)
        assert dead == rejected, f"dead letters missing {rejected - dead}, too many {dead - rejected}"

    def _left_by_deleted(self) -> set[str]:
        """Files of a table whose topic was deleted amid their batch: nobody claims its partitions any more."""
        topics = {tp.topic for tp in self.group.deleted}
        return {file for file in self.store.data_files if {row[0] for row in self.store.rows[file]} <= topics}

    def _expel(self, zombie: Process, turns: list[int]) -> None:
        """Another member begins to claim its partitions, while it goes on."""
        counted["zombies"] += 1
        self.group.release(zombie.kafka)
        waiting = self._with(has_nothing)
        if waiting or len(self.members) < MEMBERS:
            heir = waiting[0] if waiting else self._new_member()
            self._assign(heir, self.group.free)
            self._race([heir, zombie], turns)

    def _rows_of(self, tp: TopicPartition, offset: int) -> int:
        return len(KINDS[self.group.records[tp][offset]])


def test_an_offset_of_before_a_lost_partition_is_not_committed_where_a_bad_record_comes_first_again() -> None:
    """quixstreams keeps the offsets of a lost partition, and a bad record does not reach its check."""
    state = Faults()
    state.begin(kinds=["bad", "a"], share=True)
    state.claim_late(kinds=["a", "a", "a"], moves=[], requests=0, turns=[], which=0)
    state.expel_at_work(which=5, kinds=["a", "a", "a"], turns=[1])
    state.learn(which=0, moves=[])
    state.assign(which=9, count=1, moves=[])
    state.teardown()
    assert not state.violations


class PlainFaults(Faults):
    """The same with members of the plain lane, without and with an edited ``transform()``."""

    member_types = (TransformingMember, PlainMember)
    kinds = PLAIN_KINDS

    @invariant()
    def who_has_no_partition_writes_none(self) -> None:
        for member in self._with(has_nothing):
            assert not member.members.assignments


class SharedFaults(PlainFaults):
    """The same with two topics, which one table takes."""

    topics: Sequence[str] = (TOPIC, OTHER)
    is_shared = True

    @precondition(lambda self: self._with(owns) and len({tp.topic for tp in self.group.records}) > 1)
    @rule(
        topic=st.sampled_from(topics),
        kinds=st.lists(st.sampled_from(list(KINDS)), min_size=3, max_size=6),
        turns=turns,
        dies=st.booleans(),
        moves=moves,
    )
    def delete_topic(self, topic: str, kinds: list[str], turns: list[int], dies: bool, moves: Moves) -> None:
        """A topic is deleted amid a batch with records of both; what was read of it and is not written is lost."""
        for tp in self.group.records:
            self._produce(tp, kinds)
        self._race(self._with(owns), turns)
        if dies and self.members:
            self._bury(self.members[0])
        self.group.delete(topic)
        for of_partition in (self._set_for, self._since):
            for tp in of_partition.keys() & self.group.deleted.keys():
                del of_partition[tp]
        counted["deleted topics"] += 1
        for member in [each for each in self.members if is_free(each) and self.group.of(each.kafka)]:
            member.revoke()
            self.go(member, member.consuming)
        self._move(moves)


class SeveralFaults(SharedFaults):
    """The same with a table for each topic: what befalls the process befalls both."""

    is_shared = False
    topics = (TOPIC,)

    def __init__(self) -> None:
        super().__init__()
        self._late: set[str] = set()  # topics that were added

    @initialize(
        kinds=st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=8),
        share=st.booleans(),
        reset=st.sampled_from(["earliest", "latest"]),
        is_broken=st.booleans(),
        is_added=st.booleans(),
    )
    def begin(
        self, kinds: list[str], share: bool, reset: str = "earliest", is_broken: bool = False, is_added: bool = False
    ) -> None:
        """A table may be suspended from the start; or its topic is added later."""
        self.group.reset = reset
        if is_broken:
            self.world.broken.add(OTHER)
        if not is_added:
            self._add_topic(OTHER)
        super().begin(kinds, share)

    @precondition(lambda self: self.store.claims and OTHER not in self.world.catalogs and not self.group.deleted)
    @rule(kinds=st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=8))
    def add_topic(self, kinds: list[str]) -> None:
        """All members die, and the next ones read another topic too, which has records by then."""
        for member in self.members.copy():
            self._bury(member)
        while self.network.delayed:
            self.network.deliver(0)
        self._add_topic(OTHER)
        for tp in self.group.records:
            self._produce(tp, kinds)
        self._late.add(OTHER)
        self._begins[OTHER, ""] = {}  # its first records
        counted["topics that are added"] += 1

    @precondition(lambda self: self.world.broken)
    @rule(moves=moves)
    def repair(self, moves: Moves) -> None:
        counted["tables repaired"] += 1
        self.world.broken.clear()
        self._move(moves)

    def _new_member(self) -> Process:
        """With the first one of a group or a text it is chosen for all topics at once where their partitions begin."""
        for topic in self.world.catalogs if len(self.world.catalogs) > 1 else ():
            self._begins.setdefault((topic, self.group.follow_offsets), self._offsets_now(topic))
        return super()._new_member()

    def _offsets_now(self, topic: str) -> dict[int, int]:
        """Of the partitions that begin neither with their first records nor by the journal or the group's offsets."""
        ends, reset = self.group.ends(topic), self.group.reset
        if isinstance(reset, timedelta):
            ends = self.group.since(datetime.fromtimestamp(EPOCH + self.clock.now, UTC) - reset, ends)
        elif reset == "earliest" or self.group.follow_offsets:
            return {}
        folder = topic_folder(root_of(topic), GROUP, topic)
        is_read = self.group.begun(topic) or any(key.startswith(folder) for key in self.store.objects)
        return {} if topic in self._late and not is_read else {tp.partition: offset for tp, offset in ends.items()}

    @precondition(lambda self: self._with(owns))
    @rule(
        which=choices,
        topic=st.sampled_from([TOPIC, OTHER]),
        kinds=st.lists(st.sampled_from(list(KINDS)), min_size=3, max_size=6),
        turns=turns,
        moves=moves,
    )
    def fail_for_good(self, which: int, topic: str, kinds: list[str], turns: list[int], moves: Moves) -> None:
        """A table is suspended amid a batch, and opened again later; the other one goes on."""
        member = one_of(self._with(owns), which)
        self._finish(member)
        for tp in self.group.of(member.kafka):
            self._produce(tp, kinds)
        self._race([member], turns[:2])
        if not self.group.of(member.kafka):
            return
        goes_on = member.fail(topic)
        if member.consuming.is_idle:
            member.consume(1)
        self.go(member, member.consuming)
        if goes_on:
            counted["tables suspended"] += 1
            assert goes_on in member.members.assignments
            assert not member.has_ended
        self._move(moves)


def test_a_table_that_is_suspended_from_the_start_begins_where_the_group_began_though_members_die() -> None:
    state = SeveralFaults()
    state.begin(["a", "b"], share=False, reset="latest", is_broken=True)
    state.produce(which=2, kinds=["a", "a"], moves=[])
    state.crash(which=0, arrives=False, moves=[])
    state.assign(which=0, count=2, moves=[])
    state.produce(which=2, kinds=["b"], moves=[])
    state.teardown()
    assert not state.violations


def test_records_that_arrive_while_the_first_offsets_are_chosen_are_passed_over_by_latest() -> None:
    state = SeveralFaults()
    state.begin(["a"], share=False, reset="latest", is_broken=True, is_added=True)
    state.crash(which=0, arrives=False, moves=[])
    state.assign(which=0, count=1, moves=[(1, 3, Fate.ANSWERED)])
    state.expel_at_work(which=0, kinds=["a", "a", "a"], turns=[])
    state.teardown()
    assert not state.violations


def test_all_topics_follow_the_time_of_the_first_start_with_a_text() -> None:
    state = SeveralFaults()
    state.begin(["a", "b"], share=False)
    state._go_to_the_end()
    state.world.broken.add(OTHER)
    state.follow(which=0, back=0, kinds=["a", "a", "a"], turns=[], seconds=10.0)
    state.assign(which=0, count=2, moves=[])
    state.time_passes(seconds=31.0, moves=[])
    state.teardown()
    assert not state.violations


def test_a_topic_that_is_added_to_that_of_a_group_is_read_from_its_first_record() -> None:
    state = SeveralFaults()
    state.begin(["a", "b"], share=False, reset="latest", is_added=True)
    state._go_to_the_end()
    state.add_topic(["a", "b"])
    state.teardown()
    assert not state.violations


class TransformingFaults(Faults):
    """The same with members of the plain lane whose records may become several rows."""

    member_types = (TransformingMember,)


class MixedFaults(Faults):
    """The same with members of both lanes in turn, and records that all understand."""

    member_types = (FrameworkMember, PlainMember, TransformingMember)
    kinds = PLAIN_KINDS


SETTINGS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    derandomize=EXAMPLES <= FEW_EXAMPLES,
    deadline=None,  # the machine may be busy
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
TestFaults, TestPlainFaults, TestSeveralFaults = Faults.TestCase, PlainFaults.TestCase, SeveralFaults.TestCase
TestSharedFaults = SharedFaults.TestCase
TestMixedFaults = pytest.mark.night(MixedFaults.TestCase)
TestTransformingFaults = pytest.mark.night(TransformingFaults.TestCase)
for tests in (
    *(TestFaults, TestPlainFaults, TestSeveralFaults, TestSharedFaults),
    *(TestTransformingFaults, TestMixedFaults),
):
    tests.settings = SETTINGS
del tests  # it would be collected, too
