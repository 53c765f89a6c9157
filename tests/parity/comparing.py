"""Lays what the two sinks have left behind side by side, and names every point where they part."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from app.table.layout import RESCUED_COLUMN, folder
from tests.parity.case import Case, Record
from tests.parity.lake import FoundFile, Outcome, Request, Row

_ADD_FILES = "POST manifest/add-files"
# Sizes and times are no two sinks' to share; the folders, values and bounds are compared by themselves.
_ELSEWHERE = ("file_path", "file_size", "last_modified", "partition_values", "column_stats")
_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Finding:
    """A point where the sinks part.

    Args:
        kind: ``failed`` (theirs lost the batch), ``rejected`` (ours put the record aside), ``lost``, ``name``,
            ``folder``, ``value`` (of a partition in the catalog), ``type``, ``cell``, ``rescued``, ``order``,
            ``bounds``, ``index``, ``entry``, ``requests``, ``request``.
        where: the column, the path inside it, or the field of a request.
        records: those that it is about: one for a row, all of a file, or of its Kafka partition for types.
        rescued: fields of the row that are in ``_rescued_data``, in all rows of the file where it is about a file.
        batch: all records that were flushed together with them.
        earlier: the records of the batches before, that have given the table its types.
    """

    kind: str
    where: str
    theirs: Any
    ours: Any
    case: Case
    records: Sequence[Record]
    rescued: Mapping[str, Any]
    batch: Sequence[Record]
    earlier: Sequence[Record]

    def __str__(self) -> str:
        return f"{self.kind} {self.where}: theirs {self.theirs!r:.300}, ours {self.ours!r:.300}"

    @property
    def column(self) -> str:
        """The top-level column that a path lies in: the longest of those whose names it begins with."""
        names = {name for record in self.batch if isinstance(record.value, dict) for name in record.value}
        own = [name for name in names if self.where == name or self.where.startswith((f"{name}.", f"{name}["))]
        return max(own, key=len, default=self.where)


def compare(case: Case, theirs: Sequence[Outcome], ours: Sequence[Outcome]) -> list[Finding]:
    """Every point where the outcomes of a case's batches part."""
    findings = list(_requests(case, theirs, ours))
    earlier: list[Record] = []
    for batch, their, our in zip(case.numbered, theirs, ours, strict=True):
        findings += _Batch(case, batch, tuple(earlier), their, our).findings()
        earlier += batch
    return findings


@dataclass(frozen=True)
class _Batch:
    case: Case
    batch: Sequence[Record]
    earlier: Sequence[Record]
    theirs: Outcome
    ours: Outcome

    def findings(self) -> Iterator[Finding]:
        if self.theirs.error is not None:
            yield self._finding("failed", "", repr(self.theirs.error), sorted(self.ours.rejected))
            return
        their_rows, our_rows = _by_number(self.theirs.files), _by_number(self.ours.files)
        for record in self.batch:
            if record.number in self.ours.rejected:
                yield self._finding("rejected", "", "written", "rejected", [record])
            elif record.number not in their_rows or record.number not in our_rows:
                yield self._finding("lost", "", record.number in their_rows, record.number in our_rows, [record])
            else:
                yield from self._row(record, *their_rows[record.number], *our_rows[record.number])
        pairs = {
            (id(their_rows[number][0]), id(our_rows[number][0])): (their_rows[number][0], our_rows[number][0])
            for number in their_rows.keys() & our_rows.keys()
        }
        for their_file, our_file in pairs.values():
            yield from self._files(their_file, our_file)

    def _row(
        self, record: Record, their_file: FoundFile, theirs: Row, our_file: FoundFile, ours: Row
    ) -> Iterator[Finding]:
        rescued = _rescued(ours)
        here = [record]
        their_values, our_values = _partition_values(their_file), _partition_values(our_file)
        follows = their_values != our_values and our_file.folder == folder(our_values)
        if their_file.folder != our_file.folder and not follows:
            yield self._finding("folder", "", their_file.folder, our_file.folder, here)
        for name in _union(their_values, our_values):
            if their_values.get(name) != our_values.get(name):
                yield self._finding("value", name, their_values.get(name), our_values.get(name), here)
        for name in _union(theirs, ours):
            if name != RESCUED_COLUMN:
                for path, their, our in _parts(name, theirs.get(name), ours.get(name)):
                    yield self._finding("cell", path, their, our, here, rescued)
        for name, value in rescued.items():
            yield self._finding("rescued", name, None, value, here, rescued)

    def _files(self, theirs: FoundFile, ours: FoundFile) -> Iterator[Finding]:
        rescued = {name: value for row in ours.rows for name, value in _rescued(row).items()}
        if theirs.name != ours.name:
            yield self._finding("name", "", theirs.name, ours.name)
        together = self._of_one_partition(theirs)
        for path in _union(theirs.types, ours.types):
            if path != RESCUED_COLUMN and theirs.types.get(path) != ours.types.get(path):
                yield self._finding("type", path, theirs.types.get(path), ours.types.get(path), together, rescued)
        if sorted(theirs.numbers) != sorted(ours.numbers):
            return  # their folders part, which is told already, or ours has rows of several Kafka partitions
        records = [record for record in self.batch if record.number in ours.numbers]
        if theirs.numbers != ours.numbers:
            yield self._finding("order", "", theirs.numbers, ours.numbers, records)
        yield from self._entries(theirs, ours, records, rescued)
        yield from self._indexes(theirs, ours, records, rescued)

    def _of_one_partition(self, file: FoundFile) -> list[Record]:
        """The records that theirs has made into one table: those of the file's Kafka partition."""
        partitions = {record.partition for record in self.batch if record.number in file.numbers}
        return [record for record in self.batch if record.partition in partitions]

    def _entries(
        self, theirs: FoundFile, ours: FoundFile, records: Sequence[Record], rescued: Mapping[str, Any]
    ) -> Iterator[Finding]:
        their_entry, our_entry = theirs.entry or _NOTHING, ours.entry or _NOTHING
        for name in _union(their_entry, our_entry):
            pair = their_entry.get(name), our_entry.get(name)
            if pair[0] != pair[1] and name not in _ELSEWHERE:
                yield self._finding("entry", name, *pair, records)
        their_stats, our_stats = their_entry.get("column_stats", {}), our_entry.get("column_stats", {})
        for name in _union(their_stats, our_stats):
            if their_stats.get(name) != our_stats.get(name):
                yield self._finding("bounds", name, their_stats.get(name), our_stats.get(name), records, rescued)

    def _indexes(
        self, theirs: FoundFile, ours: FoundFile, records: Sequence[Record], rescued: Mapping[str, Any]
    ) -> Iterator[Finding]:
        their_rows = theirs.index.rows if theirs.index else []
        our_rows = ours.index.rows if ours.index else []
        if bool(their_rows) != bool(our_rows):
            yield self._finding("index", "", bool(their_rows), bool(our_rows), records, rescued)
            return
        for name in _union(*({name: None for row in rows for name in row} for rows in (their_rows, our_rows))):
            their, our = ({_comparable(row.get(name)) for row in rows} - {None} for rows in (their_rows, our_rows))
            if their != our:
                yield self._finding("index", name, their, our, records, rescued)
        if len(their_rows) != len(our_rows):
            yield self._finding("index", "rows", len(their_rows), len(our_rows), records, rescued)

    def _finding(
        self,
        kind: str,
        where: str,
        theirs: Any,
        ours: Any,
        records: Sequence[Record] | None = None,
        rescued: Mapping[str, Any] = _NOTHING,
    ) -> Finding:
        about = self.batch if records is None else records
        return Finding(kind, where, theirs, ours, self.case, about, rescued, self.batch, self.earlier)


def _requests(case: Case, theirs: Sequence[Outcome], ours: Sequence[Outcome]) -> Iterator[Finding]:
    """Where the requests part, but for the files in them, which are compared with the rows that they hold."""
    records = list(case.records())

    def finding(kind: str, where: str, their: Any, our: Any) -> Finding:
        return Finding(kind, where, their, our, case, records, _NOTHING, records, ())

    told = [[request for outcome in side for request in outcome.requests] for side in (theirs, ours)]
    theirs_about, ours_about = (_once([each for each in side if each.about != _ADD_FILES]) for side in told)
    if [each.about for each in theirs_about] != [each.about for each in ours_about]:
        yield finding("requests", "", [each.about for each in theirs_about], [each.about for each in ours_about])
    else:
        for their, our in zip(theirs_about, ours_about, strict=True):
            for path, one, other in _parts(their.about, their.body, our.body):
                yield finding("request", path, one, other)
    for their_batch, our_batch in zip(theirs, ours, strict=True):
        if their_batch.error is not None or not our_batch.files:
            continue  # the one has lost all records of the batch, or the other has put all of them aside
        their_added, our_added = (
            [each.body for each in side.requests if each.about == _ADD_FILES] for side in (their_batch, our_batch)
        )
        if len(their_added) != len(our_added):
            yield finding("requests", _ADD_FILES, len(their_added), len(our_added))
        for body, other_body in zip(their_added[:1], our_added[:1], strict=False):
            bodies = [{name: value for name, value in each.items() if name != "files"} for each in (body, other_body)]
            for path, one, other in _parts(_ADD_FILES, *bodies):
                yield finding("request", path, one, other)


def _once(requests: Sequence[Request]) -> list[Request]:
    """Without repetitions: a sink that begins anew after a failed batch tells again what is known."""
    return [each for index, each in enumerate(requests) if each not in requests[:index]]


def _by_number(files: Sequence[FoundFile]) -> Mapping[int, tuple[FoundFile, Row]]:
    found: dict[int, tuple[FoundFile, Row]] = {}
    for file in files:
        for number, row in zip(file.numbers, file.rows, strict=True):
            assert number not in found, f"record {number} is in two files"
            found[number] = file, row
    return found


def _rescued(row: Row) -> Mapping[str, Any]:
    text = row.get(RESCUED_COLUMN)
    return json.loads(text) if text else {}


def _partition_values(file: FoundFile) -> Mapping[str, Any]:
    return file.entry["partition_values"] if file.entry else {}


def _comparable(value: Any) -> Any:
    """A value by which equal ones are known, in a set too: 1 is not 1.0, and NaN is NaN."""
    if value is None or isinstance(value, Decimal | date):
        return value
    return type(value).__name__, repr(value)


def _union(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys((*one, *other)))


def _parts(path: str, theirs: Any, ours: Any) -> Iterator[tuple[str, Any, Any]]:
    """The innermost places at which two values differ; a missing field is null."""
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        for name in _union(theirs, ours):
            yield from _parts(f"{path}.{name}", theirs.get(name), ours.get(name))
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for one, other in zip(theirs, ours, strict=True):
            yield from _parts(f"{path}[]", one, other)
    elif not _same(theirs, ours):
        yield path, theirs, ours


def _same(theirs: Any, ours: Any) -> bool:
    if type(theirs) is not type(ours):
        return False
    if isinstance(theirs, float):
        is_nan = math.isnan(theirs), math.isnan(ours)
        return all(is_nan) or (
            not any(is_nan) and theirs == ours and math.copysign(1, theirs) == math.copysign(1, ours)
        )
    return bool(theirs == ours)
