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


_STAGE = "app/pipeline/open_batch.py"
_PIPELINE = "app/pipeline/pipeline.py"
_OF_STAGE = (
    "tests/unit/pipeline/test_stage.py",
    "tests/unit/pipeline/test_stage_rejects.py",
    "tests/unit/pipeline/test_open_batch.py",
)
_OF_PIPELINE = ("tests/unit/pipeline/test_pipeline.py", "tests/unit/pipeline/test_pipeline_journal.py")
_OF_JOURNAL = (
    "tests/unit/journal/test_journal.py",
    "tests/unit/journal/test_journal_recovery.py",
    "tests/unit/journal/test_journal_fencing.py",
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
        "the values of rows are swapped",
        _STAGE,
        "rows.table.append_column(self._group_column, ids)",
        "rows.table.set_column(0, rows.table.schema[0], rows.table[0][::-1]).append_column(self._group_column, ids)",
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
        "self._close_file(), rejected, self.rescued",
        "self._close_file(), (), self.rescued",
        _OF_STAGE,
    ),
    Mutant(
        "files are deleted that are registered",
        _PIPELINE,
        "        self._ownership.registered(announced)\n",
        "        self._ownership.registered(announced)\n        [*map(self._store.delete, uploaded)]\n",
        _OF_PIPELINE,
    ),
    Mutant(
        "the journal is not read before files are registered",
        _PIPELINE,
        "upload.stored(self._ownership.confirm(announced))",
        "upload.stored(set(announced))",
        _OF_PIPELINE,
    ),
    Mutant(
        "a batch counts as stored after an upload that failed",
        "app/pipeline/upload.py",
        "raise (lasting or errors)[0]",
        "waiting.clear()",
        ("tests/unit/pipeline/test_upload.py",),
    ),
    Mutant(
        "offsets are committed of rows that are not in the lake",
        "app/consumer/checkpoints.py",
        "[sealed for sealed in self._sealed if is_delivered(sealed[0])]",
        "list(self._sealed)",
        ("tests/unit/consumer/test_checkpoints_in_flight.py", "tests/unit/consumer/test_every_row_counts.py"),
    ),
    Mutant(
        "objects that are rolled back are not noted down",
        "app/journal/journal.py",
        "self._without_batch(end=entry.start - 1, revoked=listed)",
        "self._without_batch(end=entry.start - 1)",
        _OF_JOURNAL,
    ),
    Mutant(
        "a journal is written over whatever another member wrote",
        "app/journal/entry_store.py",
        "entry.to_body(), replaces=self._etag)",
        "entry.to_body(), replaces=getattr(self._store.read(self._key), 'etag', None))",
        _OF_JOURNAL,
    ),
    Mutant(
        "a column gets the type of its latest values, not one for all",
        "app/table/schema.py",
        "merged[name] = join_types(merged[name], kind)",
        "merged[name] = kind",
        ("tests/unit/table/test_schema.py",),
    ),
)
