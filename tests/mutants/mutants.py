"""Deliberate faults, each of which loses, doubles or spoils rows; and the tests that must find it.

Code is compared as Python understands it: a fault stays planted when its module is formatted anew or reordered.
Code that has changed or is gone is reported by ``tests/unit/test_mutants.py``: plant the same fault in what took its
place.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault to plant.

    Args:
        name: what the connector does with it.
        file: where, from the repository's root.
        old: an expression, or statements, that the file has once.
        new: what takes its place; nothing where it is only taken out.
        tests: files of fast tests; one of them is to fail.
    """

    name: str
    file: str
    old: str
    new: str
    tests: Sequence[str]

    def planted(self, root: Path) -> str:
        """The code of this tree's file, with the fault.

        Raises:
            ValueError: the code is not there exactly once.
        """
        tree = ast.parse((root / self.file).read_text())
        old, new = ast.parse(self.old).body, ast.parse(self.new or "pass").body
        planter = _Planter(old, new)
        if all(len(code) == 1 and isinstance(code[0], ast.Expr) for code in (old, new)):
            planter = _Planter([*ast.iter_child_nodes(old[0])], [*ast.iter_child_nodes(new[0])])
        planter.visit(tree)
        if planter.count != 1:
            raise ValueError(f"{self.name}: {self.file} has {planter.count} times {self.old!r}")
        return ast.unparse(tree)


class _Planter(ast.NodeTransformer):
    """Replaces an expression, or statements that follow each other, and counts how often."""

    def __init__(self, old: Sequence[ast.AST], new: Sequence[ast.AST]) -> None:
        self.count = 0
        self._old = old
        self._new = new

    def visit(self, node: ast.AST) -> Any:
        self.generic_visit(node)
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(node, name, self._replaced(value))
            elif isinstance(value, ast.AST):
                setattr(node, name, self._replaced([value])[0])
        return node

    def _replaced(self, nodes: list[Any]) -> list[Any]:
        for start in range(len(nodes)):
            end = start + len(self._old)
            if self._are_old(nodes[start:end]):
                self.count += 1
                return [*nodes[:start], *self._new, *nodes[end:]]
        return nodes

    def _are_old(self, nodes: list[Any]) -> bool:
        if [*map(type, nodes)] != [*map(type, self._old)]:  # quicker than to look inside
            return False
        return [*map(ast.dump, nodes)] == [*map(ast.dump, self._old)]


_TESTS = {
    "compaction": ("compact", "compact_iceberg", "compact_newest", "erase", "erase_iceberg"),
    "journal": ("own_log", "fencing", "recovery", "entry", "takeover"),
    "pipeline": ("pipeline", "pipeline_journal"),
    "stage": ("stage", "stage_rejects", "open_batch"),
}


def _mutants() -> Iterator[Mutant]:
    for part in _FAULTS.split("\n[")[1:]:
        about, faults = part.split("]\n", 1)
        file, words = about.split(": ")
        patterns = [f"tests/unit/**/test_{name}.py" for word in words.split(", ") for name in _TESTS.get(word, (word,))]
        # A pattern without a file stays as it is, so that the unit test misses the file.
        tests = [str(test.relative_to(REPO)) for each in patterns for test in [*REPO.glob(each)] or [REPO / each]]
        for name, *codes in re.findall(r"(.+)\n((?:- .*\n)+)((?:\+ .*\n)*)", faults):
            old, new = (re.sub(r"^. ", "", code, flags=re.MULTILINE) for code in codes)
            yield Mutant(name, file, old, new, tests)


# In brackets a file, and the tests of its faults; then for each its name, the code, and what takes its place.
_FAULTS = r"""
[app/delivery/stage.py: stage]
a row is lost
- _in_schema(table, self._writer.schema)
+ _in_schema(table, self._writer.schema)[:-1]
a row is doubled
- _in_schema(table, self._writer.schema)
+ _in_schema(table, self._writer.schema).take([0, *range(len(ids))])
a missing value is the name of its folder in the files of an Iceberg table
- nulls_of(values, spec)
+ values
the values of rows are swapped
- table.append_column(self._group_column, ids)
+ table.set_column(0, table.schema[0], table[0][::-1]).append_column(self._group_column, ids)
rows are written into other rows' folders
- table.append_column(self._group_column, ids)
+ table.append_column(self._group_column, ids[::-1])
a bad record is in no dead letter
- Staged(self._sorted_parts(self._parts), self._close_file(), dead_letters, self._rescued)
+ Staged(self._sorted_parts(self._parts), self._close_file(), [], self._rescued)

[app/delivery/deliver.py: pipeline]
files are deleted that are registered
- log.registered()
+ log.registered()
+ [*map(to.store.delete, uploaded)]
the log is not read before files are registered
- log.verify()
+ log.check_open()
offsets of records without rows are committed before the log has them
- partial(batch.in_flight.assignment.log.advance, batch.ends)
+ partial(batch.in_flight.assignment.log.advance, {})
files are uploaded that no log names
- lambda: log.intend(intent)
+ log.verify

[app/journal/own_log.py: journal]
a batch is confirmed by the one before
- log.state == 'pending' and log.batch == self._registered
+ log.state == 'pending'
objects that a former assignment has rolled back are forgotten
- (*revoked, *log.revoked)
+ log.revoked

[app/delivery/deliver.py: upload]
a batch counts as stored after an upload that failed
- raise (lasting or errors)[0]
+ waiting.clear()

[app/consumer/commits.py: plain_loop]
offsets are committed of rows that are not in the lake
- {partition: offset for assignment in assignments for partition, offset in assignment.to_commit()}
+ {partition: partition.taken for assignment in assignments for partition in assignment.claimed}

[app/consumer/framework/processed_rows.py: row_sink]
rows that come again without a flush in between are doubled
- del self.rows[:self._ended]

[app/consumer/commits.py: commits]
a crash before the first commit leaves state behind the table
- is_ahead or kafka.committed is None
+ is_ahead

[app/consumer/plain/loop.py: plain_loop]
a partition is read before it is claimed
- client.assign([])
+ client.assign(tps)
what a slow function leaves of a turn is not read again
- self._reading.seek(tp, offsets[taken.messages])
a message that cannot be decompressed is skipped together with earlier unfinished messages
- {*unfinished}
+ set()

[app/delivery/members.py: plain_loop]
messages of an assignment that has ended are taken
- partition if partition and partition.is_claimed else None
+ partition

[app/journal/log.py: own_log]
offsets that a batch has beyond its last row are committed before the log has them
- intent.ends
+ {}

[app/journal/start_offset.py: claims]
a start that followed the group's offset follows it again
- [*followed, text][-_TEXTS:]
+ followed
of two texts that take turns in a rolling update, each is followed again
- [*followed, text][-_TEXTS:]
+ [text]

[app/journal/first_offsets.py: claims]
a new text goes on with the time of the one before
- text.encode()
+ b''

[app/journal/log.py: journal]
objects that are rolled back are not noted down
- (*self.revoked, *(RolledBack(key=key, since=since) for key in self.objects))
+ self.revoked
rows of a batch that is rolled back count as written
- (each.changed(first=None, to=None) for each in self.partitions)
+ self._moved().values()
marks of an Iceberg table are those of all partitions
- (Mark(each.tp, each.series, max(each.end, each.to)) for each in self.partitions if each.to is not None)
+ (Mark(each.tp, each.series, max(each.end, each.to or -1)) for each in self.partitions)
records that gave no row count as lost
- max(end + 1, offsets.first)
+ end + 1

[app/storage/document.py: journal]
a log is written over whatever another member wrote
- self._store.write(self._key, self._form.body(document), replaces=self._etag)
+ self._store.write(self._key, self._form.body(document), replaces=getattr(self._store.read(self._key), 'etag', None))

[app/journal/takeover.py: journal]
a former owner's files are looked for before its log is closed
- if not document.current.closed:
-     document.write(document.current.changed(closed=True, writer=self.own.token))
+ self.takeover.settlement.settle(document)
+ if not document.current.closed:
+     document.write(document.current.changed(closed=True, writer=self.own.token))
a claim names a log that does not have the partition yet
- revoked = [item for log in former.values() if log for item in log.revoked]
+ revoked = [item for log in former.values() if log for item in log.revoked]
+ self._try_each(lambda tp: self._point(claims[tp], begins[tp]), begins)

[app/journal/recovery.py: journal]
a former owner's files are registered before it is written that they are kept
- if log.state == 'pending':
-     log = log.kept(log.files) if is_registered else self._decide(document.where, log)
-     document.write(log)
- if log.state == 'kept':
-     if not is_registered:
-         self.register(log.files, log.marks)
-     self.announce(log)
-     document.write(log.done())
+ if log.state == 'pending':
+     log = log.kept(log.files) if is_registered else self._decide(document.where, log)
+ if log.state == 'kept' and (not is_registered):
+     self.register(log.files, log.marks)
+ if log is not document.current:
+     document.write(log)
+ if log.state == 'kept':
+     self.announce(log)
+     document.write(log.done())
for one record that has expired the rows of all missing files are given up
- lost > expired
+ not expired
half a file counts as stored when a former owner's batch is settled
- stored is None or sizes.get(key, stored.size) != stored.size
+ stored is None

[app/parts/iceberg/table.py: iceberg]
a commit of Iceberg does not look first
- if are_in(table.properties, self._group, marks):
-     logger.info("%s has the files of this batch already", self.words)
-     return table
+ if are_in({}, self._group, marks):
+     logger.info("%s has the files of this batch already", self.words)
+     return table

[app/parts/iceberg/entries.py: iceberg]
the library appends to an Iceberg table again without a look
- '0'
+ '4'

[app/parts/iceberg/rewrite.py: iceberg_rewrite]
files that somebody has changed are replaced by merged ones of an Iceberg table
- all(map(is_unchanged, merge.inputs))
+ any(map(is_unchanged, merge.inputs))
files of deletes of an Iceberg table are told to be of no use
- table.inspect.all_files
+ table.inspect.all_data_files
a value that is in the partition alone is lost by a merge of Iceberg files
- ids.get(name) in sources
+ False
files with other ids of columns become one in an Iceberg table
- b"PARQUET:field_id" in (field.metadata or {})
+ False

[app/parts/iceberg/entries.py: iceberg_rewrite]
bounds of an Iceberg file leave out its largest values
- each.num_values
+ not each.num_values

[app/parts/iceberg/partitions.py: iceberg_partitions]
files that were on their way get the new partitions of an Iceberg table
- all((each.name in folders for each in _partitions(metadata, spec)))
+ spec
hours of a day share a file of an Iceberg table
- 'hour'
+ 'day'

[app/journal/late_uploads.py: journal]
what was rolled back is deleted, and a late upload brings it back
- self._fill([item.key for item in waiting if item.key not in late])
+ self._delete(waiting)
a placeholder is deleted while its upload may be in the network
- self._now() - item.since >= _PLACEHOLDER_SECONDS
+ True

[app/delivery/claimer.py: claims]
the files of a batch that is rolled back stay
- self._retry(assignment, assignment.log.remove_rolled_back, 'store')

[app/journal/start_offset.py: start_offset]
a record is skipped at each start
- Start(end + 1, skipped=0 if committed is None else max(0, end + 1 - committed))
+ Start(end + 2, skipped=0 if committed is None else max(0, end + 1 - committed))

[app/storage/conditional.py: answers]
an upload counts as stored where another object has its name
- seen is None or not seen.is_ours
+ seen is None
a late upload overwrites a placeholder
- self._put_or_find(self._put_in_place_of, key, body, None, ChangedError)
+ self._put(key, body, WHATEVER_IS_THERE)

[app/delivery/deliver.py: pipeline, upload]
a refused upload counts as stored
- try:
-     return self._store.upload(item.path, item.key) if self._may_upload() else None
- except ChangedError:
-     return None
+ try:
+     return self._store.upload(item.path, item.key) if self._may_upload() else None
+ except ChangedError:
+     return StoredObject(item.key, 0, None)

[app/delivery/claimer.py: claims_again]
a member that the group has expelled closes the log of the next owner
- self._group.is_member()
+ self._group.is_member() or True

[app/journal/start_offset.py: claims_again]
a deleted table is begun anew with the rest of its records
- self.topic_ids.was_claimed(tp)
+ not self.topic_ids.was_claimed(tp)

[app/table/schema.py: schema]
a column gets the type of its latest values, not one for all
- join_types(merged[name], kind, widens=widens)
+ kind

[app/parts/maintenance/record.py: compaction]
a folder's record is closed as it was closed before
- secrets.token_hex(_WORD // 2)
+ '0' * _WORD

[app/parts/maintenance/merger.py: compaction]
a merged file that is merged again is deleted at once
- is_merged(file.key) and file.rows > 0
+ False
a run that takes over does not look for the merged file
- self._table.rows_of(store.find(out)) > 0
+ False

the last keys of a folder are dropped from several files
- removal.newest_by and everything and not rows and len(files) > 1
+ False

[app/parts/maintenance/compact.py: compaction]
a young merged file is left out, so that its rows come back after their deletion
- bool(self._removal.newest_by) and is_merged(file.key)
+ False

[app/parts/maintenance/job.py: compaction]
files of unfinished batches are merged
- stored.key not in left_out
+ stored.key

[app/delivery/members.py: several_topics]
partitions that were taken away are claimed once their table is open
- assigned, self.assigned = (self.assigned, ())
+ assigned = self.assigned

[app/consumer/plain/loop.py: several_topics]
messages of one topic go to the partition of another
- partitions = zip(map(_topic, messages), partitions, strict=True)

[app/delivery/gather.py: pipeline]
rows come before the messages that wait
- self._waiting.has_messages
+ not self._waiting.has_messages

[app/consumer/rows.py: transformer]
a float without a value becomes null
- isfinite(value)
+ value

[app/consumer/plain/transformer.py: transformer]
a row of transform() changes with the object that gave it
- own_copy(value)
+ value

[app/service/lane_choice.py: lane_choice]
a stream that transform() changes in place counts as untouched
- given.stream.parents or given.stream.children
+ given.stream.children
"""
MUTANTS = [*_mutants()]
