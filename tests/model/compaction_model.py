"""Model of a folder's compaction, for a search through every order in which its steps can happen.

A *compactor* (``app.parts.maintenance``) merges files of one folder: read record, list, survey, read inputs, intend,
upload, delete each input, close. Several run at once; each may stall between two steps for any time, or die. A
compactor that finds the record open takes it over at once: nothing here relies on the lease, which only saves work. If
the merged file is there, it deletes the inputs. If not, it gives up: it puts a file without rows there, and closes the
record. It makes no merged file again, for then it would do what a stored document says, and not its own user.

A *writer* adds a file to the same folder: intend, upload, and then settle; or roll back, and write its row again.
Somebody may delete an input by hand.

An *erasure* is the same with fewer rows in the merged file, or without one: then whoever takes it over closes the
record.

With *newest*, each compactor leaves out the rows of which the folder has a newer one with the same key, and then the
keys whose newest row is a deletion. Row 2 is the deletion of the key of row 1; row 3 has another key.

What must hold in each state: no row of a settled file is missing, and rows are there twice only while the record is
open, and so is a row whose deletion is gone. At the end, after one more run: every row once, and the record is closed.

A ``Rule`` is what the protocol needs to be right. A model without it shows why: it has a violation.
"""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple


class Rule(Enum):
    """What a compactor must keep to, with what happens if it does not."""

    CONDITIONAL_RECORD = "Two compactors that begin at once merge the same files into two."
    READ_BEFORE_LIST = "A compactor intends to merge files that another one has merged meanwhile."
    SURVEY_AFTER_LIST = "A file is listed, and then its batch is rolled back: its row comes again."
    CREATE_ONLY = "An upload arrives once more, after its file was merged with later ones."
    EMPTY_MERGED = "As before: the name is free again, once the file is deleted."
    GIVE_UP = "A compactor dies before it uploads, and the record stays open for ever."
    TAKE_NAME = "A compactor gives up, and a stalled one uploads the merged file beside its inputs."
    TAKE_FREE_NAME = "A stalled compactor uploads the merged file, and the file without rows takes its place."
    READ_BACK = "A stalled compactor finds the name taken by one that gave up, and deletes the inputs."
    LOOK_FOR_MERGED = "A compactor dies while it deletes, and the next one cannot merge the inputs that are left."
    DROP_ONE_FILE = "A compactor drops all keys, and dies between a deletion's file and the file of the deleted row."


class Record(NamedTuple):
    """The folder's record: ``version`` is its ETag, ``inputs`` is empty once it is closed."""

    version: int = 0
    out: str = ""
    inputs: tuple[str, ...] = ()


class Compactor(NamedTuple):
    """Where a compactor is, and what it knows."""

    at: str = "begin"
    record: Record = Record()
    listed: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()


class State(NamedTuple):
    """All there is: the rows of each visible file, by name; the record; the writer's step; the compactors; uploads.

    ``uploads`` of merged files are still in the network, also of those that have arrived already, or whose compactor
    is dead.
    """

    files: tuple[tuple[str, tuple[int, ...]], ...] = (("a", (1,)), ("b", (2,)))
    record: Record = Record()
    writer: str = "begin"
    compactors: tuple[Compactor, ...] = ()
    deaths: int = 0
    by_hand: bool = False
    uploads: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def put(self, name: str, rows: tuple[int, ...]) -> "State":
        return self._replace(files=tuple(sorted({**dict(self.files), name: rows}.items())))

    def without(self, name: str) -> "State":
        return self._replace(files=tuple(file for file in self.files if file[0] != name))

    def moved(self, who: int, compactor: Compactor) -> "State":
        return self._replace(compactors=(*self.compactors[:who], compactor, *self.compactors[who + 1 :]))


_END = Compactor("end")
_PENDING, _ROLLED_BACK = ("intended", "uploaded"), ("rolled back", "again")


@dataclass(frozen=True)
class Model:
    """The folder with so many compactors, of which some may die.

    ``by_hand``: file ``a`` may be deleted by hand. ``erases``: the first compactor erases the files ``a`` and ``b``,
    without a merged file. ``late``: an upload may arrive at any time, once more, or never. ``newest``: see above.
    """

    compactors: int = 2
    deaths: int = 1
    by_hand: bool = False
    erases: bool = False
    newest: bool = False
    late: bool = True
    without: Rule | None = None

    def violation(self) -> str | None:
        """What goes wrong in some order of the steps; ``None`` if nothing can."""
        first = State(compactors=(Compactor(),) * self.compactors)
        seen, waiting = {first}, deque([first])
        while waiting:
            state = waiting.popleft()
            following = list(self._next(state))
            if wrong := self._wrong(state) or (None if following else self._wrong_at_the_end(state)):
                return wrong
            for one in following:
                if one not in seen:
                    seen.add(one)
                    waiting.append(one)
        return None

    def _has(self, rule: Rule) -> bool:
        return rule is not self.without

    def _wrong(self, state: State) -> str | None:
        rows = Counter(row for _, rows in state.files for row in rows)
        kept = set() if self.erases or self.newest else {2} if state.by_hand else {1, 2}
        settled = kept | ({3} if state.writer in ("settled", "again") else set())
        if settled - rows.keys():
            return "lost"
        if not state.record.inputs and state.writer != "rolled back" and max(rows.values(), default=0) > 1:
            return "doubled"
        if self.newest and not state.record.inputs and 1 in rows and 2 not in rows:
            return "back without its deletion"
        return None

    def _wrong_at_the_end(self, state: State) -> str | None:
        """One more run after all others ended: without a stall, and nobody beside it."""
        last = replace(self, compactors=1, deaths=0, by_hand=False, late=False)
        state = state._replace(compactors=(_END, Compactor()), deaths=0)
        while steps := list(last._next(state)):
            [state] = steps
            if wrong := self._wrong(state):
                return wrong
        return "open for ever" if state.record.inputs else None

    def _next(self, state: State) -> Iterator[State]:
        yield from self._writer(state)
        if self.by_hand and not state.by_hand and "a" in dict(state.files):
            yield state.without("a")._replace(by_hand=True)
        for upload in state.uploads:
            left = state._replace(uploads=tuple(each for each in state.uploads if each != upload))
            yield left
            if self._may_put(state, upload[0]):
                yield left.put(*upload)
        for who, compactor in enumerate(state.compactors):
            if compactor.at != "end":
                yield self._step(state, who, compactor)
                if state.deaths < self.deaths and compactor.at != "begin":
                    yield state.moved(who, _END)._replace(deaths=state.deaths + 1)

    def _writer(self, state: State) -> Iterator[State]:
        match state.writer:
            case "begin":
                yield state._replace(writer="intended")
            case "intended":
                yield state.put("c", (3,))._replace(writer="uploaded")
            case "uploaded":
                yield state._replace(writer="settled")
                yield state.put("c", ())._replace(writer="rolled back")  # a placeholder without rows
            case "rolled back":
                yield state.put("d", (3,))._replace(writer="again")

    def _step(self, state: State, who: int, me: Compactor) -> State:
        match me.at:
            case "begin" | "survey first" | "list" | "survey":
                return self._prepare(state, who, me)
            case "intend":
                return self._intend(state, who, me)
            case "read":
                return self._read(state, who, me)
            case "look" | "look again":
                return self._look(state, who, me)
            case "take name":
                return self._take_name(state, who, me)
            case "upload":
                return self._upload(state, who, me)
            case "delete":
                return self._delete(state, who, me)
            case "close":
                return self._write(state, who, Record(me.record.version), "end")
        raise AssertionError(me.at)

    def _read(self, state: State, who: int, me: Compactor) -> State:
        files = dict(state.files)
        if not set(me.listed) <= files.keys():
            return state.moved(who, _END)  # somebody else is further
        listed = me.listed
        if self.newest:  # file ``b`` is deleted before file ``a``, because stores keep no order
            listed = tuple(name for name in reversed(listed) if files[name])
        everything = tuple(sorted(row for name in listed for row in files[name]))
        rows = self._newest(everything, len(listed)) if self.newest else everything
        if len(listed) < 2 and rows == everything:
            return state.moved(who, _END)  # nothing to do
        return state.moved(who, me._replace(at="intend", listed=listed, rows=rows))

    def _newest(self, rows: tuple[int, ...], files: int) -> tuple[int, ...]:
        """The rows that stay. If none does, the deletion stays until it is in the only file."""
        if 2 not in rows:
            return rows
        others = tuple(row for row in rows if row not in (1, 2))
        return others or ((2,) if files > 1 and self._has(Rule.DROP_ONE_FILE) else ())

    def _look(self, state: State, who: int, me: Compactor) -> State:
        """Look for the merged file of an open record."""
        files, out = dict(state.files), me.record.out
        if out in files and self._has(Rule.LOOK_FOR_MERGED):
            given_up = not files[out] and self._has(Rule.READ_BACK)
            return state.moved(who, me._replace(at="close" if given_up else "delete"))
        if not self._has(Rule.GIVE_UP):
            return state.moved(who, _END)
        return state.moved(who, me._replace(at="take name" if out and me.at == "look" else "close"))

    def _take_name(self, state: State, who: int, me: Compactor) -> State:
        is_free = me.record.out not in dict(state.files) or not self._has(Rule.TAKE_FREE_NAME)
        if is_free and self._has(Rule.TAKE_NAME):
            state = state.put(me.record.out, ())
        return state.moved(who, me._replace(at="look again"))

    def _may_put(self, state: State, name: str) -> bool:
        return name not in dict(state.files) or not self._has(Rule.CREATE_ONLY)

    def _upload(self, state: State, who: int, me: Compactor) -> State:
        name = me.record.out
        if self._may_put(state, name):
            state = state.put(name, me.rows)
        if dict(state.files)[name] != me.rows and self._has(Rule.READ_BACK):
            return state.moved(who, _END)
        return state.moved(who, me._replace(at="delete"))

    def _prepare(self, state: State, who: int, me: Compactor) -> State:
        after_listing = self._has(Rule.SURVEY_AFTER_LIST)
        if me.at == "begin":
            if state.record.inputs:
                return self._take_over(state, who, me)
            following = "list" if after_listing else "survey first"
            return state.moved(who, Compactor(following, state.record))
        if me.at == "survey first":
            return state.moved(who, me._replace(at="list", listed=self._left_out(state)))
        if me.at == "list":
            listed = tuple(name for name, _ in state.files if name not in me.listed)
            return state.moved(who, me._replace(at="survey" if after_listing else "read", listed=listed))
        left_out = self._left_out(state)
        listed = tuple(name for name in me.listed if name not in left_out)
        return state.moved(who, me._replace(at="read", listed=listed))

    @staticmethod
    def _left_out(state: State) -> tuple[str, ...]:
        return ("c",) if state.writer in (*_PENDING, *_ROLLED_BACK) else ()

    def _take_over(self, state: State, who: int, me: Compactor) -> State:
        me = me._replace(record=state.record)
        return self._write(state.moved(who, me), who, state.record, "look", me)

    def _intend(self, state: State, who: int, me: Compactor) -> State:
        if not self._has(Rule.READ_BEFORE_LIST):
            me = me._replace(record=state.record)
            if state.record.inputs:
                return state.moved(who, _END)
        if self.erases and who == 0:
            inputs = tuple(name for name in me.listed if name in ("a", "b"))
            return self._write(state, who, Record(0, "", inputs), "delete", me)
        if not me.rows:
            return self._write(state, who, Record(0, "", me.listed), "delete", me)
        record = Record(0, f"out{who}.{state.record.version}", me.listed)
        written = self._write(state, who, record, "upload", me)
        if not self.late or written.record == state.record:
            return written
        return written._replace(uploads=(*state.uploads, (record.out, me.rows)))

    def _write(self, state: State, who: int, record: Record, following: str, me: Compactor | None = None) -> State:
        """Replace the version of the record that this compactor knows; without success it ends."""
        me = me or state.compactors[who]
        if self._has(Rule.CONDITIONAL_RECORD) and state.record.version != me.record.version:
            return state.moved(who, _END)
        record = record._replace(version=state.record.version + 1)
        return state._replace(record=record).moved(who, Compactor(following, record, rows=me.rows))

    def _delete(self, state: State, who: int, me: Compactor) -> State:
        """Delete one input; a merged file is emptied instead, and deleted a day later."""
        files = dict(state.files)
        left = [name for name in me.record.inputs if files.get(name)]
        if not left:
            return state.moved(who, me._replace(at="close"))
        if left[0].startswith("out") and self._has(Rule.EMPTY_MERGED):
            return state.put(left[0], ())
        return state.without(left[0])
