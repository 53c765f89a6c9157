"""Deliberate faults, each of which loses, doubles or spoils rows; and the tests that must find it.

Texts are short, so that they stand as long as the line does what it did. One that is changed or gone is told by
``tests/unit/test_mutants.py``: plant the same fault in the line that took its place.
"""

from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault to plant.

    Args:
        name: what the connector does with it.
        file: where, from the repository's root.
        old: a text that is in the file once.
        new: what takes its place.
        tests: files of fast tests; one of them is to fail.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def planted(self, root: Path) -> str:
        """The file of this tree, with the fault.

        Raises:
            ValueError: the text is not there exactly once.
        """
        text = (root / self.file).read_text()
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: {self.file} has {count} times {self.old!r}")
        return text.replace(self.old, self.new)


_STAGE = "app/delivery/open_batch.py"
_DELIVER = "app/delivery/deliver.py"
_OF_STAGE = (
    "tests/unit/delivery/test_stage.py",
    "tests/unit/delivery/test_stage_rejects.py",
    "tests/unit/delivery/test_open_batch.py",
)
_OF_LOOP = ("tests/unit/consumer/plain/test_plain_loop.py",)
_OF_TOPICS = ("tests/unit/consumer/plain/test_several_topics.py",)
_OF_PIPELINE = ("tests/unit/delivery/test_pipeline.py", "tests/unit/delivery/test_pipeline_journal.py")
_LOG = "app/journal/log.py"
_TAKEOVER = "app/journal/takeover.py"
_OF_ICEBERG = ("tests/unit/parts/iceberg/test_iceberg.py",)
_OF_PARTITIONS = ("tests/unit/parts/iceberg/test_iceberg_partitions.py",)
_OF_JOURNAL = (
    "tests/unit/journal/test_own_log.py",
    "tests/unit/journal/test_fencing.py",
    "tests/unit/journal/test_settle.py",
    "tests/unit/journal/test_entry.py",
    "tests/unit/journal/test_takeover.py",
)

_OF_COMPACTION = tuple(
    f"tests/unit/parts/maintenance/test_{name}.py" for name in ("compact", "compact_iceberg", "erase", "erase_iceberg")
)
MUTANTS = (
    Mutant(
        "a row is lost",
        _STAGE,
        "_in_schema(table, self._writer.schema))",
        "_in_schema(table, self._writer.schema)[:-1])",
        _OF_STAGE,
    ),
    Mutant(
        "a row is doubled",
        _STAGE,
        "_in_schema(table, self._writer.schema))",
        "_in_schema(table, self._writer.schema).take([0, *range(len(ids))]))",
        _OF_STAGE,
    ),
    Mutant(
        "a missing value is the name of its folder in the files of an Iceberg table",
        _STAGE,
        "nulls_of(values, spec)",
        "values",
        _OF_STAGE,
    ),
    Mutant(
        "the values of rows are swapped",
        _STAGE,
        "table.append_column(self._group_column, ids)",
        "table.set_column(0, table.schema[0], table[0][::-1]).append_column(self._group_column, ids)",
        _OF_STAGE,
    ),
    Mutant(
        "rows are written into other rows' folders",
        _STAGE,
        "append_column(self._group_column, ids)",
        "append_column(self._group_column, ids[::-1])",
        _OF_STAGE,
    ),
    Mutant(
        "a bad record is in no dead letter",
        _STAGE,
        "tuple(rejected), dead_letters",
        "tuple(rejected), []",
        _OF_STAGE,
    ),
    Mutant(
        "files are deleted that are registered",
        _DELIVER,
        "        log.registered()\n",
        "        log.registered()\n        [*map(to.store.delete, uploaded)]\n",
        _OF_PIPELINE,
    ),
    Mutant(
        "the log is not read before files are registered",
        _DELIVER,
        "            log.verify()  # at each try",
        "            log.check_open()  # at each try",
        _OF_PIPELINE,
    ),
    Mutant(
        "a batch is confirmed by the one before",
        "app/journal/own_log.py",
        'if log.state == "pending" and log.batch == self._registered:',
        'if log.state == "pending":',
        _OF_JOURNAL,
    ),
    Mutant(
        "a batch counts as stored after an upload that failed",
        "app/delivery/deliver.py",
        "raise (lasting or errors)[0]",
        "waiting.clear()",
        ("tests/unit/delivery/test_upload.py",),
    ),
    Mutant(
        "offsets are committed of rows that are not in the lake",
        "app/consumer/offsets.py",
        "{each: offset for some in assignments for each, offset in some.to_commit()}",
        "{each: each.taken for some in assignments for each in some.claimed}",
        ("tests/unit/consumer/plain/test_plain_loop.py",),
    ),
    Mutant(
        "rows that come again without a flush in between are doubled",
        "app/consumer/framework/processed.py",
        "        del self.rows[: self._ended]\n",
        "",
        ("tests/unit/consumer/framework/test_row_sink.py",),
    ),
    Mutant(
        "a crash before the first commit leaves state behind the table",
        "app/consumer/offsets.py",
        "if is_ahead or kafka.committed is None:",
        "if is_ahead:",
        ("tests/unit/consumer/test_offsets.py",),
    ),
    Mutant(
        "a partition is read before it is claimed",
        "app/consumer/plain/loop.py",
        "        client.assign([])  # nothing is read before it is claimed\n",
        "        client.assign(tps)\n",
        ("tests/unit/consumer/plain/test_plain_loop.py",),
    ),
    Mutant(
        "messages of an assignment that has ended are taken",
        "app/delivery/members.py",
        "partition if partition and partition.is_claimed else None",
        "partition",
        ("tests/unit/consumer/plain/test_plain_loop.py",),
    ),
    Mutant(
        "offsets of records without rows are committed before the log has them",
        _DELIVER,
        "log.advance, batch.ends), JOURNAL)",
        "log.advance, {}), JOURNAL)",
        _OF_PIPELINE,
    ),
    Mutant(
        "offsets that a batch has beyond its last row are committed before the log has them",
        _LOG,
        "        for tp, last in intent.ends.items():\n            before",
        "        for tp, last in {}.items():\n            before",
        ("tests/unit/journal/test_own_log.py",),
    ),
    Mutant(
        "a start that followed the group's offset follows it again",
        "app/journal/beginning.py",
        "            followed=[*followed, text][-_TEXTS:] if",
        "            followed=followed if",
        ("tests/unit/journal/test_claims.py",),
    ),
    Mutant(
        "of two texts that take turns in a rolling update, each is followed again",
        "app/journal/beginning.py",
        "            followed=[*followed, text][-_TEXTS:] if",
        "            followed=[text] if",
        ("tests/unit/journal/test_claims.py",),
    ),
    Mutant(
        "a new text goes on with the time of the one before",
        "app/journal/first_offsets.py",
        "hashlib.sha256(text.encode())",
        "hashlib.sha256(b'')",
        ("tests/unit/journal/test_claims.py",),
    ),
    Mutant(
        "objects that are rolled back are not noted down",
        _LOG,
        "revoked=(*self.revoked, *(RolledBack(key=key, since=since) for key in self.objects)),",
        "revoked=self.revoked,",
        _OF_JOURNAL,
    ),
    Mutant(
        "rows of a batch that is rolled back count as written",
        _LOG,
        "partitions=tuple(each.changed(first=None, to=None) for each in self.partitions),",
        "partitions=tuple(self._moved().values()),",
        _OF_JOURNAL,
    ),
    Mutant(
        "objects that a former assignment has rolled back are forgotten",
        "app/journal/own_log.py",
        "for item in (*revoked, *log.revoked)}",
        "for item in log.revoked}",
        _OF_JOURNAL,
    ),
    Mutant(
        "a log is written over whatever another member wrote",
        "app/storage/document.py",
        "self._form.body(document), replaces=self._etag)",
        "self._form.body(document), replaces=getattr(self._store.read(self._key), 'etag', None))",
        _OF_JOURNAL,
    ),
    Mutant(
        "a former owner's files are looked for before its log is closed",
        _TAKEOVER,
        "                if not document.current.closed:\n",
        "                self.takeover.settlement.settle(document)\n                if not document.current.closed:\n",
        _OF_JOURNAL,
    ),
    Mutant(
        "a former owner's files are registered before it is written that they are kept",
        "app/journal/settle.py",
        "            document.write(log)\n"
        '        if log.state == "kept":\n'
        "            if not is_registered:\n"
        "                self.register(log.files, log.marks)\n",
        '        if log.state == "kept" and not is_registered:\n'
        "            self.register(log.files, log.marks)\n"
        "        if log is not document.current:\n"
        "            document.write(log)\n"
        '        if log.state == "kept":\n',
        _OF_JOURNAL,
    ),
    Mutant(
        "a commit of Iceberg does not look first",
        "app/parts/iceberg/table.py",
        "        if are_in(table.properties, self._group, marks):\n",
        "        if are_in({}, self._group, marks):\n",
        _OF_ICEBERG,
    ),
    Mutant(
        "the library appends to an Iceberg table again without a look",
        "app/parts/iceberg/entries.py",
        '    metadata.properties[_RETRIES] = "0"',
        '    metadata.properties[_RETRIES] = "4"',
        _OF_ICEBERG,
    ),
    Mutant(
        "files that somebody has changed are replaced by merged ones of an Iceberg table",
        "app/parts/iceberg/rewrite.py",
        "if all((task := live.get(its.task.file.file_path)) and not task.delete_files for its in each.inputs)",
        "if any((task := live.get(its.task.file.file_path)) and not task.delete_files for its in each.inputs)",
        ("tests/unit/parts/iceberg/test_iceberg_rewrite.py",),
    ),
    Mutant(
        "files of deletes of an Iceberg table are told to be of no use",
        "app/parts/iceberg/rewrite.py",
        "table.inspect.all_files()",
        "table.inspect.all_data_files()",
        ("tests/unit/parts/iceberg/test_iceberg_rewrite.py",),
    ),
    Mutant(
        "bounds of an Iceberg file leave out its largest values",
        "app/parts/iceberg/entries.py",
        "each.num_values and not each.has_min_max",
        "not each.num_values and not each.has_min_max",
        ("tests/unit/parts/iceberg/test_iceberg_rewrite.py",),
    ),
    Mutant(
        "a value that is in the partition alone is lost by a merge of Iceberg files",
        "app/parts/iceberg/rewrite.py",
        "ids.get(name) in sources",
        "False",
        ("tests/unit/parts/iceberg/test_iceberg_rewrite.py",),
    ),
    Mutant(
        "files with other ids of columns become one in an Iceberg table",
        "app/parts/iceberg/rewrite.py",
        "any(map(_has_ids, (one, other)))",
        "False",
        ("tests/unit/parts/iceberg/test_iceberg_rewrite.py",),
    ),
    Mutant(
        "files that were on their way get the new partitions of an Iceberg table",
        "app/parts/iceberg/partitions.py",
        "            if all(each.name in folders for each in _partitions(metadata, spec)):\n",
        "            if spec:\n",
        _OF_PARTITIONS,
    ),
    Mutant(
        "hours of a day share a file of an Iceberg table",
        "app/parts/iceberg/partitions.py",
        'unit="hour"',
        'unit="day"',
        _OF_PARTITIONS,
    ),
    Mutant(
        "marks of an Iceberg table are those of all partitions",
        "app/journal/log.py",
        "each.to)) for each in self.partitions if each.to is not None",
        "each.to or -1)) for each in self.partitions",
        _OF_JOURNAL,
    ),
    Mutant(
        "what was rolled back is deleted, and a late upload brings it back",
        "app/journal/rolled_back.py",
        "            self._fill([item.key for item in waiting])",
        "            self._delete(waiting)",
        _OF_JOURNAL,
    ),
    Mutant(
        "a placeholder is deleted while its upload may be in the network",
        "app/journal/rolled_back.py",
        "or self._now() - item.since >= _PLACEHOLDER_SECONDS",
        "or True",
        _OF_JOURNAL,
    ),
    Mutant(
        "for one record that has expired the rows of all missing files are given up",
        "app/journal/settle.py",
        "or lost > expired:",
        "or not expired:",
        _OF_JOURNAL,
    ),
    Mutant(
        "records that gave no row count as lost",
        _LOG,
        "first=max(end + 1, each.first)",
        "first=end + 1",
        _OF_JOURNAL,
    ),
    Mutant(
        "half a file counts as stored when a former owner's batch is settled",
        "app/journal/settle.py",
        "if stored is None or wanted.get(key, stored.size) != stored.size]",
        "if stored is None]",
        _OF_JOURNAL,
    ),
    Mutant(
        "the files of a batch that is rolled back stay",
        "app/delivery/claimer.py",
        '            self._retry(assignment, assignment.log.remove_rolled_back, "store")\n',
        "",
        ("tests/unit/journal/test_claims.py",),
    ),
    Mutant(
        "a record is skipped at each start",
        "app/journal/beginning.py",
        "    return Start(end + 1, skipped",
        "    return Start(end + 2, skipped",
        ("tests/unit/journal/test_start_offset.py",),
    ),
    Mutant(
        "an upload counts as stored where another object has its name",
        "app/storage/conditional.py",
        "            if found is None or not found.is_ours:\n",
        "            if found is None:\n",
        ("tests/unit/storage/test_answers.py",),
    ),
    Mutant(
        "files are uploaded that no log names",
        _DELIVER,
        "lambda: log.intend(intent), JOURNAL)\n",
        "log.verify, JOURNAL)\n",
        _OF_PIPELINE,
    ),
    Mutant(
        "a late upload overwrites a placeholder",
        "app/storage/conditional.py",
        "return self._put_or_find(self._put_in_place_of, key, body, None, ChangedError)",
        "return self._put(key, body, WHATEVER_IS_THERE)",
        ("tests/unit/storage/test_answers.py",),
    ),
    Mutant(
        "a refused upload counts as stored",
        "app/delivery/deliver.py",
        "            return None\n\n\ndef _error_of",
        "            return StoredObject(item.key, 0, None)\n\n\ndef _error_of",
        (*_OF_PIPELINE, "tests/unit/delivery/test_upload.py"),
    ),
    Mutant(
        "a claim names a log that does not have the partition yet",
        _TAKEOVER,
        "        self.own.take_over(",
        "        self._possible(lambda tp: self._point(claims[tp], begins[tp]), begins)\n        self.own.take_over(",
        _OF_JOURNAL,
    ),
    Mutant(
        "a member that the group has expelled closes the log of the next owner",
        "app/delivery/claimer.py",
        "                if self._group.is_member():\n",
        "                if self._group.is_member() or True:\n",
        ("tests/unit/journal/test_claims_again.py",),
    ),
    Mutant(
        "a deleted table is begun anew with the rest of its records",
        "app/journal/beginning.py",
        "former is None and self.topic_ids.was_claimed(tp):",
        "former is None and not self.topic_ids.was_claimed(tp):",
        ("tests/unit/journal/test_claims_again.py",),
    ),
    Mutant(
        "a column gets the type of its latest values, not one for all",
        "app/table/schema.py",
        "merged[name] = join_types(merged[name], kind, widens=widens)",
        "merged[name] = kind",
        ("tests/unit/table/test_schema.py",),
    ),
    Mutant(
        "a folder's record is closed as it was closed before",
        "app/parts/maintenance/record.py",
        "word = secrets.token_hex(_WORD // 2)",
        'word = "0" * _WORD',
        _OF_COMPACTION,
    ),
    Mutant(
        "a merged file that is merged again is deleted at once",
        "app/parts/maintenance/merger.py",
        "(is_merged(file.key) and file.rows > 0)",
        "False",
        _OF_COMPACTION,
    ),
    Mutant(
        "files of unfinished batches are merged",
        "app/parts/maintenance/job.py",
        "if found.key not in left_out)",
        "if found.key)",
        _OF_COMPACTION,
    ),
    Mutant(
        "a run that takes over does not look for the merged file",
        "app/parts/maintenance/merger.py",
        "return self._table.rows_of(store.find(out)) > 0",
        "return False",
        _OF_COMPACTION,
    ),
    Mutant(
        "what a slow function leaves of a turn is not read again",
        "app/consumer/plain/loop.py",
        "            self._reading.go_back(tp, offsets[taken.messages])\n",
        "",
        _OF_LOOP,
    ),
    Mutant(
        "a message that cannot be decompressed is passed over with what was left before it",
        "app/consumer/plain/loop.py",
        "passed_over = {*left}",
        "passed_over = set()",
        _OF_LOOP,
    ),
    Mutant(
        "partitions that were taken away are claimed once their table is open",
        "app/delivery/members.py",
        "assigned, self.assigned = self.assigned, ()",
        "assigned = self.assigned",
        _OF_TOPICS,
    ),
    Mutant(
        "messages of one topic go to the partition of another",
        "app/consumer/plain/loop.py",
        "partitions = zip(map(_topic, messages), partitions, strict=True)",
        "pass",
        _OF_TOPICS,
    ),
    Mutant(
        "rows come before the messages that wait",
        "app/delivery/gather.py",
        "if self._waiting.has_messages and",
        "if not self._waiting.has_messages and",
        _OF_PIPELINE,
    ),
    Mutant(
        "a float without a value becomes null",
        "app/consumer/plain/row_message.py",
        "if not isfinite(each):",
        "if not each:",
        ("tests/unit/consumer/plain/test_transformer.py",),
    ),
    Mutant(
        "a row of transform() changes with the object that gave it",
        "app/consumer/plain/transformer.py",
        "own = own_copy(value)",
        "own = value",
        ("tests/unit/consumer/plain/test_transformer.py",),
    ),
    Mutant(
        "a stream that transform() changes in place counts as untouched",
        "app/service/customised.py",
        "given.stream.parents or given.stream.children",
        "given.stream.children",
        ("tests/unit/service/test_lane_choice.py",),
    ),
)
