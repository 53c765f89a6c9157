"""Model of the journal's protocol, for a search through every order in which its steps can happen.

Modelled are the documents of ``app/journal`` and who writes them. A *claim* of each partition names an assignment. The
*log* of an assignment has one batch at a time, with rows of several partitions in each of its two files. A *member*
lives for one assignment. It claims its partitions (``app.journal.takeover``, ``recovery``) and writes batches
(``own_log``). Every request is a step of its own, and between two steps anything else can happen: the group
rebalances, a member stalls for any time, dies, or learns late that its partitions are somebody else's. A write may take
effect while its answer is lost. All partitions move at a rebalance, as with Kafka's eager assignors.

The steps have the words of the code and of ``tests/faults/steps.py``. A claimer does: read claim, read log, close,
check files, keep or roll back, register theirs, done theirs, take over, point, fill. A writer does: intend, upload,
verify, register, done; *advance* where the records that it has read give no row; *commit*. *Fill* puts placeholders
without rows under the names of files that were rolled back; an upload to such a name is refused. *Learn* is that a
member hears of the loss of its partitions, *expire* that Kafka deletes a record. Left out are dead letters, the
deletion of placeholders an hour later, and stores without conditional writes.

A member begins where the log ends, or at the group's offset (``Bounds.from_committed``) as the framework does: it then
reads records again that are in the table, and drops them.

With all members stopped, a user gives a *new text* of ``FOLLOW_OFFSETS``, perhaps after a *set*: a tool sets the
group's offset of one partition. The next claim of each partition follows its offset, unless that has the mark of a
member's commit. *Mark* is the commit with which a claimer puts its mark on offsets that a tool has set. A text may come
with a *time*, which is an offset here: each partition begins there once. Then members may still begin with the text of
before, as in a rolling update, until an *update* ends them.

What must hold: see ``Model.violation``. It looks at each state whether the catalog lists a file that does not exist,
whether readers see rows that were rolled back although the next owner reads on, and whether the group's offset is at
most one behind the log's end: the next owner takes any later one for that of another program. It looks at each final
state whether the table and the catalog have every row once, but for rows that expired in Kafka; once more if the user
wants it again, and not if the user has passed over it.

A ``Rule`` is what the protocol needs to be right. A model without it shows why: it has a violation.
"""

import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import Literal, NamedTuple, TypeVar

_T = TypeVar("_T")
NOBODY = -1
FILES = 2  # of each batch


class Rule(Enum):
    """What a claimer or a writer must keep to, with what happens if it does not."""

    CONDITIONAL_WRITES = "Two members that claim at once both own the partition, and a fenced owner goes on."
    CLOSE_BEFORE_CHECK = "A file that was missing is uploaded and registered while the batch is rolled back."
    KEEP_BEFORE_REGISTER = "A claimer registers the batch, and another one, which missed a file, rolls it back."
    LOG_BEFORE_CLAIM = (
        "A claim names a log that does not know how far the partition is written: if the member dies, nobody does."
    )
    INHERIT_ROLLED_BACK = "The claimer that rolled a batch back dies, and its files stay."
    FILL = "A file of a rolled-back batch is deleted, and then its upload arrives."
    ROLL_BACK_BEFORE_FILL = "A claimer fills names, and another one has decided to keep their files."
    INTEND_BEFORE_UPLOAD = "The member dies, nobody knows of its files, and their rows come again."
    VERIFY_BEFORE_REGISTER = "A fenced owner registers files that were rolled back."
    LOG_BEFORE_COMMIT = "Records without rows are committed, and the next owner finds an offset ahead of the log."
    COMMIT_AFTER_REGISTER = "A batch is committed, and the next owner rolls it back."
    DROP_TO_THE_END = "A member begins at the group's offset, and writes again what is in the table."
    SMALLER_LOSS = "One record expires, and the rows of all files that are missing are given up for it."
    MARK_COMMITS = "A crash leaves an offset behind the log, and it is followed as if a user had set it."
    MARK_BEFORE_WRITING = (
        "A user's offset is followed, the member dies before its first commit, and the next text follows it again."
    )
    KEEP_TIME = "A time is reckoned anew at a claim, and what came meanwhile is passed over."
    REMEMBER_TEXTS = "Two texts take turns, and the time of one is followed at each turn."
    TIME_UNTIL_WRITTEN = "A time is followed, the member dies before its first commit, and that of before stays ahead."
    TIME_THOUGH_EXPIRED = "Records since a time expire before they are read, and after such a death it is not followed."


@dataclass(frozen=True)
class Bounds:
    """How much may happen.

    Attributes:
        partitions: of the topic.
        offsets: of each partition.
        rebalances: after the first assignment; those that a member's end makes necessary come on top.
        crashes: members that die.
        lost_answers: writes that take effect without an answer.
        late_closes: times that a member, whose assignment has ended, closes the log of a later assignment.
        expiries: records that Kafka deletes, of those that some member has read.
        filtered: offsets of each partition that give no row.
        from_committed: whether members begin at the group's offset, and not where the log ends.
        texts: that a user gives, perhaps after the offset of one partition was set.
        times: whether they may come with a time.
        turns: assignments that begin with the text before one with a time.
    """

    partitions: int = 2
    offsets: int = 1
    rebalances: int = 1
    crashes: int = 0
    lost_answers: int = 0
    late_closes: int = 0
    expiries: int = 0
    filtered: tuple[int, ...] = ()
    from_committed: bool = False
    texts: int = 0
    times: bool = False
    turns: int = 0


class Span(NamedTuple):
    """The part of a batch that is of one partition: the offsets that give rows, and the last one that was read."""

    partition: int
    rows: tuple[int, ...]
    last: int


class Batch(NamedTuple):
    assignment: int
    number: int
    spans: tuple[Span, ...]

    @property
    def files(self) -> frozenset["File"]:
        return frozenset(File(self, number) for number in range(FILES))

    @property
    def rows(self) -> int:
        """Of each file."""
        return sum(len(span.rows) for span in self.spans)

    def expired(self, low: tuple[int, ...]) -> int:
        """How many of them Kafka no longer has."""
        return sum(at < low[span.partition] for span in self.spans for at in span.rows)


class File(NamedTuple):
    """Each of a batch's files has a column of all its rows, so that one file alone is never enough."""

    batch: Batch
    number: int


class Claim(NamedTuple):
    version: int = 0
    owner: int = NOBODY


class Log(NamedTuple):
    """``ends`` is the last offset of each partition that is in the table; ``None`` if the log does not have it.

    ``followed`` are the texts with which each was claimed, and ``text`` is that of this assignment. ``kept`` are the
    files of a kept batch, which may lack some.
    """

    version: int
    ends: tuple[int | None, ...]
    followed: tuple[tuple[int, ...], ...]
    text: int
    closed: bool = False
    state: Literal["done", "pending", "kept"] = "done"
    batch: Batch | None = None
    kept: frozenset[File] = frozenset()
    rolled_back: frozenset[File] = frozenset()

    @property
    def moved(self) -> tuple[int | None, ...]:
        """The ends once a pending batch is in the table."""
        ends = list(self.ends)
        if self.batch and self.state == "pending":
            for span in self.batch.spans:
                ends[span.partition] = _later(ends[span.partition], span.last)
        return tuple(ends)


class Member(NamedTuple):
    """What a process keeps in memory for one assignment.

    Attributes:
        step: what it does next.
        partitions: of the assignment.
        waiting: those of them that this round claims.
        claims: of the waiting ones, as read.
        former: the assignments named there that are not settled yet.
        version: of the first one's log, as read.
        pointed: how many of the claims are dealt with.
        left: partitions whose claims another member has changed; the next round claims them.
        batch: on its way, from its intent until it is registered.
        uploaded: how many of its files are.
        read: the next offset to read of each partition of the topic.
    """

    step: str
    partitions: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    claims: tuple[Claim, ...] = ()
    former: tuple[int, ...] = ()
    version: int = 0
    pointed: int = 0
    left: tuple[int, ...] = ()
    batch: Batch | None = None
    uploaded: int = 0
    read: tuple[int, ...] = ()


ENDED = Member("ended")
_READING = ("run", "intend", "upload", "verify", "register")  # steps of a member that has claimed its partitions


class State(NamedTuple):
    """Everything at one moment. Members and logs are counted by assignment.

    ``owners``, ``committed`` and ``low`` are Kafka's: the assignment of each partition, the group's offset and the
    first offset that is left. ``stored`` are files with rows, ``filled`` placeholders. ``marked`` says which of the
    group's offsets have the mark of a member. ``text`` is the user's last one, ``texts`` those with which each
    partition was set last, ``times`` the offset that comes with each text, and ``timed`` the last one by which each
    partition went. ``wanted`` says how often the table is to have each row. The last seven say how much may still
    happen.
    """

    claims: tuple[Claim, ...]
    logs: tuple[Log, ...]
    members: tuple[Member, ...]
    owners: tuple[int, ...]
    committed: tuple[int, ...]
    low: tuple[int, ...]
    stored: frozenset[File]
    filled: frozenset[File]
    registered: frozenset[File]
    marked: tuple[bool, ...]
    text: int
    texts: tuple[int, ...]
    times: tuple[int | None, ...]
    timed: tuple[int, ...]
    wanted: tuple[tuple[int, ...], ...]
    rebalances: int
    crashes: int
    lost_answers: int
    late_closes: int
    expiries: int
    texts_left: int
    turns: int

    def is_current(self, assignment: int) -> bool:
        """Whether its partitions are still its own: all of them move together."""
        return self.owners[self.members[assignment].partitions[0]] == assignment

    def with_member(self, assignment: int, member: Member) -> "State":
        members = _put(self.members, assignment, member)
        return State(self.claims, self.logs, members, *self[3:])  # faster than _replace(), and called most often

    def with_log(self, assignment: int, log: Log) -> "State":
        new = log._replace(version=self.logs[assignment].version + 1)
        return self._replace(logs=_put(self.logs, assignment, new))

    def without_member(self, assignment: int) -> "State":
        """It has ended; if its partitions were still its own, the group gives them to a new assignment."""
        owners = tuple(NOBODY if owner == assignment else owner for owner in self.owners)
        return self.with_member(assignment, ENDED)._replace(owners=owners)

    def fill(self, files: frozenset[File]) -> "State":
        """Placeholders take the names of these files, whether they are there or not."""
        return self._replace(stored=self.stored - files, filled=self.filled | files)


class Step(NamedTuple):
    name: str
    assignment: int
    after: State


class Model:
    """The protocol.

    Args:
        bounds: how much may happen.
        without: a rule that it does not keep to.
    """

    def __init__(self, bounds: Bounds, *, without: Rule | None = None) -> None:
        self.bounds = bounds
        self._without = without
        self._steps: dict[str, Callable[[State, int, Member], Iterator[tuple[str, State]]]] = {
            "read claim": self._read_claim,
            "read log": self._read_log,
            "close": self._close,
            "check files": self._check_files,
            "keep": self._keep,
            "fill before rolling back": self._fill_before_rolling_back,
            "roll back": self._roll_back,
            "register theirs": self._register_theirs,
            "done theirs": self._done_theirs,
            "take over": self._take_over,
            "point": self._point,
            "fill": self._fill,
            "mark": self._mark,
            "run": self._run,
            "intend": self._intend,
            "advance": self._advance,
            "upload": self._upload,
            "verify": self._verify,
            "register": self._register,
        }

    def start(self) -> State:
        """A topic with all its records, and nobody there."""
        bounds = self.bounds
        nothing: frozenset[File] = frozenset()
        return State(
            claims=(Claim(),) * bounds.partitions,
            logs=(),
            members=(),
            owners=(NOBODY,) * bounds.partitions,
            committed=(0,) * bounds.partitions,
            low=(0,) * bounds.partitions,
            stored=nothing,
            filled=nothing,
            registered=nothing,
            marked=(self._keeps(Rule.MARK_COMMITS),) * bounds.partitions,  # it was committed where they begin
            text=0,
            texts=(0,) * bounds.partitions,
            times=(None,),
            timed=(0,) * bounds.partitions,
            wanted=(tuple(int(at not in bounds.filtered) for at in range(bounds.offsets)),) * bounds.partitions,
            rebalances=bounds.rebalances,
            crashes=bounds.crashes,
            lost_answers=bounds.lost_answers,
            late_closes=bounds.late_closes,
            expiries=bounds.expiries,
            texts_left=bounds.texts,
            turns=bounds.turns,
        )

    def steps(self, state: State) -> list[Step]:
        """All that can happen next."""
        found = [*self._rebalance(state), *self._expire(state), *self._set(state)]
        for assignment, member in enumerate(state.members):
            if member is ENDED:
                continue
            if state.crashes:
                crashed = state.without_member(assignment)._replace(crashes=state.crashes - 1)
                found.append(Step("crash", assignment, crashed))
            if not state.is_current(assignment):
                found.append(Step("learn", assignment, state.without_member(assignment)))
            elif state.logs[assignment].text < state.text:
                found.append(Step("update", assignment, state.without_member(assignment)))
            do = self._steps[member.step]
            found.extend(Step(name, assignment, after) for name, after in do(state, assignment, member))
        return found

    def violation(self, state: State) -> str | None:
        """What is wrong in this state."""
        if not state.registered <= state.stored:
            return "the catalog lists a file that was deleted"
        for partition, claim in enumerate(state.claims):
            if claim.owner != NOBODY and state.logs[claim.owner].ends[partition] is None:
                return "a claim names a log that does not know its partition"
        for assignment, member in enumerate(state.members):
            log = state.logs[assignment]
            if member.step in _READING and not log.closed and log.rolled_back & state.stored:
                return "readers see rows that were rolled back, and their owner reads them again"
        for partition, committed in enumerate(state.committed):
            end = _found_end(state, partition)
            if state.marked[partition] and committed > end + 1 and not self._begins_at_time(state, partition, end + 1):
                return "the group's offset is ahead of the log"
        return self._violation_at_the_end(state) if self.is_final(state) else None

    def _violation_at_the_end(self, state: State) -> str | None:
        lost = 0
        for number in range(FILES):
            rows = Counter(_rows(state.stored, number))
            wanted = Counter({(p, at): n for p, each in enumerate(state.wanted) for at, n in enumerate(each)})
            if rows - wanted:
                return "rows are there twice"
            lost += (wanted - rows).total()
        if lost > FILES * sum(state.low) * (1 + state.text):  # a text may want a row again
            return "more rows are lost than have expired"
        if state.registered != state.stored:
            return "the catalog does not list the files of the table"
        return None

    def is_final(self, state: State) -> bool:
        """Whether all is consumed and committed, and everybody is at rest."""
        if any(at != self.bounds.offsets for at in state.committed) or NOBODY in state.owners:
            return False
        if any(state.members[owner].step != "run" or state.logs[owner].text < state.text for owner in state.owners):
            return False
        return all(member.step in ("run", "ended") for member in state.members)

    def _keeps(self, rule: Rule) -> bool:
        return rule is not self._without

    def _rows_in(self, offsets: range) -> tuple[int, ...]:
        return tuple(at for at in offsets if at not in self.bounds.filtered)

    def _begins_at_time(self, state: State, partition: int, offset: int) -> bool:
        """Whether nothing is written since a time was followed: the next owner commits that offset."""
        owner = state.claims[partition].owner
        texts = state.logs[owner].followed[partition] if owner != NOBODY else ()
        times = [time for text in texts if (time := state.times[text]) is not None]
        low = state.low[partition] if self._keeps(Rule.TIME_THOUGH_EXPIRED) else 0
        return self._keeps(Rule.TIME_UNTIL_WRITTEN) and any(time <= offset <= max(time, low) for time in times)

    # --- the group --------------------------------------------------------------------------------------------------

    def _rebalance(self, state: State) -> Iterator[Step]:
        """Give all partitions to new assignments: to one for all, or to one for each."""
        every = tuple(range(len(state.owners)))
        nobody_there = all(owner == NOBODY for owner in state.owners)
        if state.rebalances or not state.members:
            ways = [(every,), tuple((partition,) for partition in every)]
        elif NOBODY in state.owners:
            ways = [(every,)]
        else:
            return
        left = state.rebalances - (not nobody_there and state.rebalances > 0)
        texts = [state.text, state.text - 1] if state.turns and state.times[state.text] is not None else [state.text]
        for way, text in product(ways if len(every) > 1 else ways[:1], texts):
            owners, first = list(state.owners), len(state.members)
            for assignment, partitions in enumerate(way, first):
                for partition in partitions:
                    owners[partition] = assignment
            yield Step(
                "rebalance",
                len(way),
                state._replace(
                    members=(*state.members, *(Member("read claim", each, waiting=each) for each in way)),
                    logs=(*state.logs, *(Log(0, (None,) * len(every), ((),) * len(every), text) for _ in way)),
                    owners=tuple(owners),
                    rebalances=left,
                    turns=state.turns - (text < state.text),
                ),
            )

    def _expire(self, state: State) -> Iterator[Step]:
        """Kafka deletes the first record of a partition, which some owner has read."""
        for partition, low in enumerate(state.low if state.expiries else ()):
            owner = state.claims[partition].owner
            end = None if owner == NOBODY else state.logs[owner].moved[partition]
            if end is not None and low <= end:
                after = state._replace(low=_put(state.low, partition, low + 1), expiries=state.expiries - 1)
                yield Step("expire", partition, after)

    def _set(self, state: State) -> Iterator[Step]:
        """A user gives a new text, perhaps for an offset that is set once what was set there before is followed."""
        if not state.texts_left or any(member is not ENDED for member in state.members):
            return
        time = state.times[state.text]
        if time is not None and not (all(state.marked) and min(state.timed) == state.text):
            return  # it is not followed yet
        former, times = state, state.times
        state = state._replace(text=state.text + 1, times=(*times, None), texts_left=state.texts_left - 1)
        yield Step("new text", NOBODY, state)
        if self.bounds.times and not any(self._is_set(former, partition) for partition in range(len(state.texts))):
            for offset in range(self.bounds.offsets + 1):
                yield Step(f"time {offset}", NOBODY, state._replace(times=(*times, offset)))
        # What a user passes over is counted at once, and what an expired record keeps is not known then.
        for partition in range(len(state.texts) if not self.bounds.expiries else 0):
            end = _found_end(state, partition)
            if self._is_set(former, partition):
                continue
            for offset in range(self.bounds.offsets + 1):
                yield Step(
                    f"set to {offset}",
                    partition,
                    state._replace(
                        committed=_put(state.committed, partition, offset),
                        marked=_put(state.marked, partition, False),
                        texts=_put(state.texts, partition, state.text),
                        wanted=self._wanted(state, partition, end, offset),
                    ),
                )

    def _is_set(self, state: State, partition: int) -> bool:
        """Whether an offset was set there that is not followed yet."""
        owner, text = state.claims[partition].owner, state.texts[partition]
        return text > 0 and (owner == NOBODY or text not in state.logs[owner].followed[partition])

    def _wanted(self, state: State, partition: int, end: int, offset: int) -> tuple[tuple[int, ...], ...]:
        """How often each row is wanted where the table has all up to ``end``, and the user goes on at ``offset``."""
        again, passed_over = self._rows_in(range(offset, end + 1)), self._rows_in(range(end + 1, offset))
        before = state.wanted[partition]
        return _put(
            state.wanted, partition, tuple(n + (at in again) - (at in passed_over) for at, n in enumerate(before))
        )

    # --- claiming: app.journal.takeover and recovery ------------------------------------------------------------------

    def _read_claim(self, state: State, assignment: int, member: Member) -> Iterator[tuple[str, State]]:
        claims = (*member.claims, state.claims[member.waiting[len(member.claims)]])
        member = member._replace(claims=claims)
        if len(claims) == len(member.waiting):
            former = sorted({claim.owner for claim in claims} - {NOBODY, assignment})
            member = self._settle_next(member._replace(former=tuple(former)))
        yield "read claim", state.with_member(assignment, member)

    def _settle_next(self, member: Member) -> Member:
        if member.former:
            return member._replace(step="read log")
        return member._replace(step="take over" if self._keeps(Rule.LOG_BEFORE_CLAIM) else "point")

    def _read_log(self, state: State, assignment: int, member: Member) -> Iterator[tuple[str, State]]:
        log = state.logs[member.former[0]]
        member = member._replace(version=log.version)
        close = not log.closed and (self._keeps(Rule.CLOSE_BEFORE_CHECK) or log.state != "pending")
        yield (
            "read log",
            state.with_member(assignment, member._replace(step="close") if close else self._settle(member, log)),
        )

    def _settle(self, member: Member, log: Log) -> Member:
        """What a closed log asks for."""
        if log.state == "pending":
            return member._replace(step="check files")
        if log.state == "kept":
            return member._replace(step="register theirs")
        return self._settle_next(member._replace(former=member.former[1:]))

    def _close(self, state: State, assignment: int, member: Member) -> Iterator[tuple[str, State]]:
        """Fence the whole former assignment. Who is late asks before; only its request may arrive late."""
        if not state.is_current(assignment):
            if not state.late_closes:
                return
            state = state._replace(late_closes=state.late_closes - 1)
        log = state.logs[member.former[0]]
        yield from self._write_theirs("close", state, assignment, member, log._replace(closed=True))

    def _check_files(self, state: State, assignment: int, member: Member) -> Iterator[tuple[str, State]]:
        log = state.logs[member.former[0]]
        if log.batch is None:  # another member has settled it
            step = "read log"
        elif not self._is_kept(log.batch, state):
            step = "roll back" if self._keeps(Rule.ROLL_BACK_BEFORE_FILL) else "fill before rolling back"
        else:
            step = "keep" if self._keeps(Rule.KEEP_BEFORE_REGISTER) else "register theirs"
        yield "check files", state.with_member(assignment, member._replace(step=step))

    def _is_kept(self, batch: Batch, state: State) -> bool:
        """Whether all files are there, or keeping those that are loses no more rows than reading them again."""
        missing = batch.files - state.stored
        expired = batch.expired(state.low)
        if not missing or not expired or missing == batch.files:
            return not missing
        return not self._keeps(Rule.SMALLER_LOSS) or len(missing) * batch.rows <= FILES * expired

    def _keep(self, state: State, assignment: int, member: Member) -> Iterator[tuple[str, State]]:
        log = state.logs[member.former[0]]
        files = log.batch.files if log.batch else frozenset[File]()
        kept = files & state.stored
        new = log._replace(state="kept", ends=log.moved, kept=kept, rolled_back=log.rolled_back | (files - kept))
        yield from self._write_theirs("keep", state, assignment, member, new)

    def _fill_before_rolling_back(self, state: State, assignment: int, member: Member) -> Iterator[tuple[str, State]]:
        batch = state.logs[member.former[0]].batch
        filled = state.fill(batch.files) if batch else state
        yield "fill", filled.with_member(assignment, member._replace(step="roll back"))

    def _roll_back(self, state: State, assignment: int, member: Member) -> Iterator[tuple[str, State]]:
        log = state.logs[member.former[0]]
        listed = log.rolled_back | (log.batch.files if log.batch else frozenset())
        new = log._replace(state="done", batch=None, rolled_back=listed)
        yield from self._write_theirs("roll back", state, assignment, member, new)

    def _register_theirs(self, state: State, assignment: int, member: Member) -> Iterator[tuple[str, State]]:
        log = state.logs[member.former[0]]
        if log.batch is None:  # another member has done all this
            yield "read log", state.with_member(assignment, member._replace(step="read log"))
            return
        step = "done theirs" if log.state == "kept" else "keep"
        files = log.kept if log.state == "kept" else log.batch.files
        registered = state._replace(registered=state.registered | files)
        yield "register theirs", registered.with_member(assignment, member._replace(step=step))

    def _done_theirs(self, state: State, assignment: int, member: Member) -> Iterator[tuple[str, State]]:
        log = state.logs[member.former[0]]
        new = log._replace(state="done", batch=None, kept=frozenset())
        yield from self._write_theirs("done theirs", state, assignment, member, new)

    def _write_theirs(
        self, name: str, state: State, assignment: int, member: Member, new: Log
    ) -> Iterator[tuple[str, State]]:
        """Replace the former assignment's log, if it is the version that was read."""
        former = member.former[0]
        if self._keeps(Rule.CONDITIONAL_WRITES) and state.logs[former].version != member.version:
            yield f"{name}: conflict", state.with_member(assignment, member._replace(step="read log"))
            return
        written = state.with_log(former, new)
        version = written.logs[former].version
        yield name, written.with_member(assignment, self._settle(member._replace(version=version), new))
        if state.lost_answers:
            again = written._replace(lost_answers=state.lost_answers - 1)
            yield f"{name}: no answer", again.with_member(assignment, _again(member, member.waiting))

    def _take_over(self, state: State, assignment: int, member: Member) -> Iterator[tuple[str, State]]:
        """Write how far the partitions are written, and what was rolled back, into our own log."""
        log = state.logs[assignment]
        for late in (0, 1) if state.times[log.text] is not None and not self._keeps(Rule.KEEP_TIME) else (0,):
            ends, followed, listed = list(log.ends), list(log.followed), log.rolled_back
            for partition, claim in zip(member.waiting, member.claims, strict=True):
                if claim.owner == assignment:
                    continue
                former = None if claim.owner == NOBODY else state.logs[claim.owner]
                ends[partition] = self._begin_after(state, partition, former, log.text, late)
                texts = former.followed[partition] if former else ()
                if log.text and log.text not in texts:
                    texts = (*texts, log.text) if self._keeps(Rule.REMEMBER_TEXTS) else (log.text,)
                followed[partition] = texts
                if former and self._keeps(Rule.INHERIT_ROLLED_BACK):
                    listed |= former.rolled_back
            for partition in member.waiting:
                if (end := ends[partition]) is not None:
                    ends[partition] = max(end, state.low[partition] - 1)
            then = member._replace(step="point" if self._keeps(Rule.LOG_BEFORE_CLAIM) else "fill")
            new = log._replace(ends=tuple(ends), followed=tuple(followed), rolled_back=listed)
            if new == log:
                yield "take over", state.with_member(assignment, then)
            else:
                yield from self._write_own(
                    "take over", state, assignment, member, new, then, _again(member, member.waiting)
                )

    def _begin_after(self, state: State, partition: int, former: Log | None, text: int, late: int) -> int | None:
        """The offset after which a partition begins; ``late``: how much later a time is reckoned."""
        time = state.times[text]
        is_new = text > 0 and (former is None or text not in former.followed[partition])
        if is_new and time is not None:
            return min(time + late, self.bounds.offsets) - 1
        if former is None or (is_new and not state.marked[partition]):
            return state.committed[partition] - 1
        return former.ends[partition]

    def _point(self, state: State, assignment: int, member: Member) -> Iterator[tuple[str, State]]:
        """Let one claim more name this assignment."""
        partition, read = member.waiting[member.pointed], member.claims[member.pointed]
        then = member._replace(pointed=member.pointed + 1)
        if read.owner == assignment:
            yield "point", state.with_member(assignment, self._point_next(then))
            return
        present = state.claims[partition]
        if present == read or not self._keeps(Rule.CONDITIONAL_WRITES):
            claims = _put(state.claims, partition, Claim(present.version + 1, assignment))
            written = self._timed(state, partition, state.logs[assignment].text)._replace(claims=claims)
            yield "point", written.with_member(assignment, self._point_next(then))
            if state.lost_answers:
                again = written._replace(lost_answers=state.lost_answers - 1)
                yield "point: no answer", again.with_member(assignment, _again(member, member.waiting))
        elif state.is_current(assignment):
            then = then._replace(left=(*member.left, partition))
            yield "point: conflict", state.with_member(assignment, self._point_next(then))
        else:
            yield "point: conflict", state.without_member(assignment)

    def _timed(self, state: State, partition: int, text: int) -> State:
        """The user's time counts from this claim on, once: what the table has by then is wanted again from there."""
        time = state.times[text]
        if time is None or state.timed[partition] >= text:
            return state
        wanted = self._wanted(state, partition, _found_end(state, partition), time)
        return state._replace(timed=_put(state.timed, partition, text), wanted=wanted)

    def _point_next(self, member: Member) -> Member:
        if member.pointed < len(member.waiting):
            return member
        if member.left:
            return _again(member, member.left)
        return member._replace(step="fill" if self._keeps(Rule.LOG_BEFORE_CLAIM) else "take over")

    def _fill(self, state: State, assignment: int, member: Member) -> Iterator[tuple[str, State]]:
        files = state.logs[assignment].rolled_back
        without = state.fill(files) if self._keeps(Rule.FILL) else state._replace(stored=state.stored - files)
        read = self._begins(state, assignment)
        is_marked = all(state.marked[each] and state.committed[each] <= read[each] for each in member.partitions)
        step = "run" if is_marked or not self._keeps(Rule.MARK_BEFORE_WRITING) else "mark"
        yield "fill", without.with_member(assignment, Member(step, member.partitions, read=read))

    def _mark(self, state: State, assignment: int, member: Member) -> Iterator[tuple[str, State]]:
        """Commit where the partitions begin, before anything is written."""
        if state.is_current(assignment):
            marked = self._committed(state, member.partitions, member.read)
            yield "mark", marked.with_member(assignment, member._replace(step="run"))

    def _begins(self, state: State, assignment: int) -> tuple[int, ...]:
        """The first offset to read of each partition."""
        nexts = [(-1 if end is None else end) + 1 for end in state.logs[assignment].ends]
        if not self.bounds.from_committed:
            return tuple(nexts)
        return tuple(max(low, min(found)) for low, *found in zip(state.low, nexts, state.committed, strict=True))

    # --- batch by batch: app.journal.own_log --------------------------------------------------------------------------

    def _run(self, state: State, assignment: int, member: Member) -> Iterator[tuple[str, State]]:
        """All is delivered that was consumed so far."""
        log = state.logs[assignment]
        if log.closed and self._keeps(Rule.CONDITIONAL_WRITES):
            yield "fenced", state.without_member(assignment)
        else:
            for batch in self._batches(assignment, member, log):
                begun = member._replace(batch=batch, read=_read(member, batch))
                if not batch.rows:
                    yield from self._advance(state, assignment, begun)
                elif self._keeps(Rule.INTEND_BEFORE_UPLOAD):
                    yield from self._intend(state, assignment, begun)
                else:
                    yield "begin", state.with_member(assignment, begun._replace(step="upload"))
            if log.state == "pending":
                yield "done", state.with_log(assignment, log._replace(state="done", ends=log.moved, batch=None))
        yield from self._commit(state, assignment, member)

    def _commit(self, state: State, assignment: int, member: Member) -> Iterator[tuple[str, State]]:
        """Copy to Kafka how far the partitions are read; all of it is delivered."""
        news = [partition for partition in member.partitions if member.read[partition] > state.committed[partition]]
        if news and state.is_current(assignment):
            yield "commit", self._committed(state, news, member.read)

    def _committed(self, state: State, partitions: Iterable[int], read: tuple[int, ...]) -> State:
        committed, marked = list(state.committed), list(state.marked)
        for partition in partitions:
            committed[partition], marked[partition] = read[partition], self._keeps(Rule.MARK_COMMITS)
        return state._replace(committed=tuple(committed), marked=tuple(marked))

    def _batches(self, assignment: int, member: Member, log: Log) -> Iterator[Batch]:
        """Up to three of the next offsets, of one or several partitions."""
        choices: list[list[Span | None]] = []
        for partition in member.partitions:
            end, first = log.moved[partition], member.read[partition]
            first_row = max(first, -1 if end is None else end + 1) if self._keeps(Rule.DROP_TO_THE_END) else first
            lasts = range(first, min(self.bounds.offsets, first + 3))
            spans = [Span(partition, self._rows_in(range(first_row, last + 1)), last) for last in lasts]
            choices.append([None, *spans])
        for chosen in product(*choices):
            spans = [span for span in chosen if span is not None]
            if spans:
                yield Batch(assignment, log.version, tuple(spans))

    def _advance(self, state: State, assignment: int, member: Member) -> Iterator[tuple[str, State]]:
        """Write into the log how far is read, where no row came; it implies that the batch before is done."""
        assert member.batch is not None
        log = state.logs[assignment]
        ends = list(log.moved)
        for span in member.batch.spans:
            ends[span.partition] = _later(ends[span.partition], span.last)
        then = Member("run", member.partitions, read=member.read)
        if tuple(ends) == log.moved or not self._keeps(Rule.LOG_BEFORE_COMMIT):
            yield "read", state.with_member(assignment, then)
            return
        new = log._replace(state="done", ends=tuple(ends), batch=None)
        unsure = member._replace(step="advance")
        yield from self._write_own("advance", state, assignment, member, new, then, unsure)

    def _intend(self, state: State, assignment: int, member: Member) -> Iterator[tuple[str, State]]:
        """Announce the batch, which implies that the one before is done."""
        log = state.logs[assignment]
        step = "upload" if self._keeps(Rule.INTEND_BEFORE_UPLOAD) else "verify"
        if log.batch == member.batch and not log.closed:  # an earlier try, whose answer was lost
            yield "intend", state.with_member(assignment, member._replace(step=step))
            return
        new = log._replace(state="pending", ends=log.moved, batch=member.batch)
        then, unsure = member._replace(step=step), member._replace(step="intend")
        yield from self._write_own("intend", state, assignment, member, new, then, unsure)

    def _upload(self, state: State, assignment: int, member: Member) -> Iterator[tuple[str, State]]:
        assert member.batch is not None
        if not self._keeps(Rule.COMMIT_AFTER_REGISTER):
            yield from self._commit(state, assignment, member)
        file = File(member.batch, member.uploaded)
        if file in state.filled:
            yield "upload: refused", state.without_member(assignment)
            return
        uploaded = member.uploaded + 1
        if uploaded < FILES:
            step = "upload"
        elif not self._keeps(Rule.INTEND_BEFORE_UPLOAD):
            step = "intend"
        else:
            step = "verify" if self._keeps(Rule.VERIFY_BEFORE_REGISTER) else "register"
        stored = state.stored | {file}
        then = member._replace(uploaded=uploaded, step=step)
        yield "upload", state._replace(stored=stored).with_member(assignment, then)

    def _verify(self, state: State, assignment: int, member: Member) -> Iterator[tuple[str, State]]:
        if state.logs[assignment].closed:
            yield "verify: fenced", state.without_member(assignment)
        else:
            yield "verify", state.with_member(assignment, member._replace(step="register"))

    def _register(self, state: State, assignment: int, member: Member) -> Iterator[tuple[str, State]]:
        assert member.batch is not None
        registered = state._replace(registered=state.registered | member.batch.files)
        running = Member("run", member.partitions, read=member.read)
        yield "register", registered.with_member(assignment, running)

    def _write_own(
        self, name: str, state: State, assignment: int, member: Member, new: Log, then: Member, unsure: Member
    ) -> Iterator[tuple[str, State]]:
        """Replace our own log. One that is open is always our own version, and nobody opens a closed one."""
        if self._keeps(Rule.CONDITIONAL_WRITES) and state.logs[assignment].closed:
            yield f"{name}: fenced", state.without_member(assignment)
            return
        written = state.with_log(assignment, new)
        yield name, written.with_member(assignment, then)
        if state.lost_answers:
            again = written._replace(lost_answers=state.lost_answers - 1)
            yield f"{name}: no answer", again.with_member(assignment, unsure)


def _again(member: Member, waiting: tuple[int, ...]) -> Member:
    """Another round of claims."""
    return Member("read claim", member.partitions, waiting)


def _later(end: int | None, last: int) -> int:
    return last if end is None else max(end, last)


def _read(member: Member, batch: Batch) -> tuple[int, ...]:
    """How far the partitions are read with this batch."""
    read = list(member.read)
    for span in batch.spans:
        read[span.partition] = span.last + 1
    return tuple(read)


def _found_end(state: State, partition: int) -> int:
    """The end that the next owner finds in the log: with a pending batch if all its files are there."""
    owner = state.claims[partition].owner
    if owner == NOBODY:
        return state.committed[partition] - 1
    log = state.logs[owner]
    is_there = log.batch is not None and log.batch.files <= state.stored
    end = (log.moved if is_there else log.ends)[partition]
    return -1 if end is None else end


def _rows(stored: frozenset[File], number: int) -> list[tuple[int, int]]:
    return sorted(
        (span.partition, at)
        for file in stored
        if file.number == number
        for span in file.batch.spans
        for at in span.rows
    )


def _put(items: tuple[_T, ...], at: int, item: _T) -> tuple[_T, ...]:
    return (*items[:at], item, *items[at + 1 :])


@dataclass(frozen=True)
class Result:
    """What a search or walks have found.

    Attributes:
        states: that were met.
        final: how many of them are final.
        violation: the first one, with the steps that lead to it.
        is_complete: whether every state was met; or, of walks, whether all of them came to a final state.
    """

    states: int
    final: int
    violation: str | None
    is_complete: bool


_CameFrom = dict[int, tuple[int, str, int] | None]  # the step to each state, by hashes: states would fill the memory


def search(model: Model, most_states: int) -> Result:
    """Meet every state that can be reached, nearest first, up to the first violation."""
    start = model.start()
    came_from: _CameFrom = {hash(start): None}
    waiting = deque([(hash(start), start)])
    final = 0
    while waiting:
        here, state = waiting.popleft()
        wrong = model.violation(state)
        steps = model.steps(state)
        final += model.is_final(state)
        if not wrong and not steps and not model.is_final(state):
            wrong = "nothing can happen, and not all is done"
        if wrong:
            return Result(len(came_from), final, f"{wrong}: {_path(came_from, here)}", is_complete=False)
        for name, assignment, after in steps:
            there = hash(after)
            if there not in came_from:
                came_from[there] = (here, name, assignment)
                waiting.append((there, after))
        if len(came_from) > most_states:
            return Result(len(came_from), final, None, is_complete=False)
    return Result(len(came_from), final, None, is_complete=True)


def _path(came_from: _CameFrom, at: int) -> str:
    names: list[str] = []
    while (step := came_from[at]) is not None:
        at, name, assignment = step
        names.append(f"{name} {assignment}")
    return ", ".join(reversed(names))


# What must not happen too early in a walk, or there would be nothing left to go wrong.
_WEIGHTS = {"crash": 0.15, "rebalance": 0.25, "learn": 0.3, "expire": 0.1}
_NO_ANSWER_WEIGHT = 0.3
_LONGEST_WALK = 3000


def walk(model: Model, walks: int, seed: int) -> Result:
    """Go at random from the start to a final state, so many times, up to the first violation."""
    chance = random.Random(seed)
    states = final = 0
    for _ in range(walks):
        state, path = model.start(), list[str]()
        while True:
            steps = model.steps(state)
            if not steps or len(path) > _LONGEST_WALK:
                return Result(states, final, f"no end:{path[-100:]}", is_complete=False)
            name, assignment, state = chance.choices(steps, [_weight(step.name) for step in steps])[0]
            path.append(f"{name} {assignment}")
            states += 1
            if wrong := model.violation(state):
                return Result(states, final, f"{wrong}: {', '.join(path)}", is_complete=False)
            if model.is_final(state):
                final += 1
                break
    return Result(states, final, None, is_complete=True)


def _weight(name: str) -> float:
    return _NO_ANSWER_WEIGHT if name.endswith("no answer") else _WEIGHTS.get(name, 1.0)
