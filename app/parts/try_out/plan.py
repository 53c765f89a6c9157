"""Calculates the plan that ``try --topic`` prints: the table's size and cost, from the newest records of the topic."""

from argparse import Namespace
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.config.settings import Settings
from app.errors import cut, one_line
from app.formatting import counted, rate
from app.logs import RecentWarnings
from app.model import StagedFile
from app.table.layout import TIME_COLUMNS, folder
from app.table.type_names import type_name

_DAY: Final = 86_400
_MONTH_DAYS: Final = 30
_FOOTER_BYTES: Final = 2_000  # approximate size of a file's footer
_SMALL_FILE: Final = 1 << 20  # maximum size of a small file in bytes
_MANY: Final = 16  # minimum number of values of a column for an advice
_MOST_REASONS: Final = 5
_SHOWN: Final = 200  # maximum number of characters of a reason


@dataclass(frozen=True, slots=True)
class Plan:
    """The expected properties of the table, at the topic's present rate.

    Attributes:
        columns: The columns of the files, with their types.
        folders_a_batch, folders_a_day: The minimum number of folders in a batch, and in a day.
        cost_a_month: The cost of a month, in the currency of the prices.
        bad_reasons: The most frequent reasons, each with the number of bad records.
        advice: The warnings in the log, and the settings to change.
    """

    records: int
    rows: int
    bad: int
    bad_reasons: Mapping[str, int]
    rescued: int
    records_a_second: float
    columns: Mapping[str, str]
    bytes_a_row: int
    seconds_a_batch: float
    folders_a_batch: int
    bytes_a_file: int
    folders_a_day: int
    files_a_day: int
    gb_a_month: float
    requests_a_month: int
    cost_a_month: float
    advice: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return the plan as lines of text with aligned columns."""
        return [
            f"records    {self.records:,} of the newest: {counted(self.rows, 'row')}, {self.bad:,} bad, "
            f"{self.rescued:,} with values in _rescued_data; {_rate(self.records_a_second)} arrive",
            f"columns    {', '.join(f'{name} {kind}' for name, kind in self.columns.items())}",
            f"a batch    {self.seconds_a_batch:,.0f} s: {counted(self.folders_a_batch, 'file')} or more, of "
            f"{self.bytes_a_file:,} bytes",
            f"a day      {counted(self.folders_a_day, 'folder')} or more, {counted(self.files_a_day, 'file')} or more",
            f"a month    {self.gb_a_month:,.2f} GB more, {self.requests_a_month:,} writing requests: "
            f"{self.cost_a_month:,.2f} by --put-price and --gb-price",
            *(f"bad        {count:,}: {cut(one_line(reason), _SHOWN)}" for reason, count in self.bad_reasons.items()),
            *(f"advice     {each}" for each in self.advice),
        ]

    def short(self) -> str:
        """Return the plan as one line without the columns."""
        records, _, *rest = (" ".join(line.split()) for line in self.lines())
        return "; ".join([records, *rest]) if self.records else "the topic has no records yet"


def _rate(a_second: float) -> str:
    return f"{rate(a_second)} a second" if a_second >= 1 else f"{rate(a_second * 3_600)} an hour"


@dataclass
class Planner:
    """Collects the rows of staged batches, and calculates a plan."""

    settings: Settings
    scratch: Path
    a_second: float
    options: Namespace
    warnings: RecentWarnings
    _tables: list[pa.Table] = field(init=False, default_factory=list)
    _folders: list[Mapping[str, str]] = field(init=False, default_factory=list)  # the folder of each row

    def add(self, staged: StagedFile, without: Collection[str]) -> None:
        """Add the rows of a staged file. Omit the columns ``without``, which only this command adds."""
        table = pq.ParquetFile(staged.path).read()
        ids = table[staged.group_column]
        table = table.take(pc.sort_indices(ids))  # rows of one file are compressed together
        self._folders += [staged.groups[each].partition_values for each in ids.to_pylist()]
        self._tables.append(table.drop_columns([staged.group_column, *without]))

    def plan(self, records: int, bad: int, reasons: Counter[str], rescued: int) -> Plan:
        table = pa.concat_tables(self._tables, promote_options="permissive") if self._tables else pa.table({})
        rows, a_row = len(table), self._bytes_a_row(table)
        a_second = self.a_second * rows / max(1, records)
        seconds = self._seconds_a_batch(a_second * a_row)
        in_batch = self._folders[-max(1, round(a_second * seconds)) :]
        folders = max(1, len({*map(folder, in_batch)}))
        batches = _DAY * min(1 / seconds, a_second)  # 0 without records
        a_file = round(a_second * seconds * a_row / folders) + _FOOTER_BYTES
        files = round(batches * folders)
        gigabytes = _MONTH_DAYS * (a_second * _DAY * a_row + files * _FOOTER_BYTES) / 1e9
        requests = round(_MONTH_DAYS * (files + 2 * batches))  # each batch writes the journal twice
        shown = dict(reasons.most_common(_MOST_REASONS))
        shown |= {"other reasons": rest} if (rest := bad - sum(shown.values())) else {}
        cost = gigabytes * self.options.gb_price + requests / 1_000 * self.options.put_price
        names = ", ".join(self.settings.transforms)
        uncounted = f"HIVE_COLUMNS: folders by {names} are not counted, so there are more files and requests"
        return Plan(
            records=records,
            rows=rows,
            bad=bad,
            bad_reasons=shown,
            rescued=rescued,
            records_a_second=self.a_second,
            columns={name: type_name(kind) for name, kind in zip(table.column_names, table.schema.types, strict=True)},
            bytes_a_row=round(a_row),
            seconds_a_batch=round(seconds, 1),
            folders_a_batch=folders,
            bytes_a_file=a_file,
            folders_a_day=self._folders_a_day(),
            files_a_day=files,
            gb_a_month=round(gigabytes, 3),
            requests_a_month=requests,
            cost_a_month=round(cost, 2),
            advice=(
                *dict.fromkeys(each.message for each in self.warnings.newest_first()),
                *([uncounted] if names else ()),
                *self._advice(a_file),
            ),
        )

    def _bytes_a_row(self, table: pa.Table) -> float:
        if not len(table):
            return 0.0
        path = self.scratch / "plan.parquet"
        pq.write_table(table.replace_schema_metadata(), path, compression=self.settings.spark.compression)
        return max(1.0, (path.stat().st_size - _FOOTER_BYTES) / len(table))

    def _seconds_a_batch(self, bytes_a_second: float) -> float:
        interval, target = self.settings.commit_interval, self.settings.target_file_mb << 20
        folders = len({*map(folder, self._folders)})
        return min(interval, target * folders / bytes_a_second) if target and bytes_a_second else interval

    def _folders_a_day(self) -> int:
        """Return the folders in a day. Time columns are not counted in the sample, which does not cover a day."""
        others = {tuple(text for name, text in each.items() if name not in TIME_COLUMNS) for each in self._folders}
        return len(others) * (24 if "hour" in self.settings.spec.columns else 1)

    def _advice(self, bytes_a_file: int) -> list[str]:
        if bytes_a_file >= _SMALL_FILE or not self._folders:
            return []
        values = {name: {each[name] for each in self._folders} for name in self.settings.spec.columns}
        most = max(values, key=lambda name: len(values[name]), default="")
        if most and len(values[most]) >= _MANY:
            instead = "" if self.settings.spec.keeps_columns else f", or make it ~{most}"
            return [
                f"HIVE_COLUMNS: files are small, and {most} has {len(values[most]):,} values: remove {most}{instead}"
            ]
        if self.settings.compact:
            return []
        return ["files are small: a longer COMMIT_INTERVAL makes larger files, and COMPACT merges small files"]
