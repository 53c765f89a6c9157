"""Refuses names that Iceberg doesn't allow for a column, and maps the columns of files to the columns of the table."""

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from app import DOCUMENTS
from app.errors import ConfigError, cut
from app.formatting import counted

logger = logging.getLogger(__name__)

_DROPPED = (
    "%s dropped from column %s: the table has no such column any more, or a record contains two of its names. See %s"
)
_PAGE = f"{DOCUMENTS}/iceberg.md#columns-that-your-engines-change"

_RESERVED = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
)


def refusal_of_name(name: str) -> str | None:
    if "." in name:
        return "has a name with a dot, which Iceberg reads as a path"
    return "has a name that Iceberg reserves" if name.lower() in _RESERVED else None


class KnownColumns:
    """The columns of the table. ``fields`` maps each present or former name to a column, ``None`` if dropped."""

    def __init__(self) -> None:
        self.fields: Mapping[str, pa.Field | None] = {}
        self._reported: set[str] = set()

    def as_known(self, rows: pa.Table, partitions: Collection[str]) -> pa.Table:
        """Return the rows without dropped columns. Columns that are names of one table column become one column."""
        fields = self.fields
        kept: dict[str, pa.ChunkedArray] = {}
        for name, values in zip(rows.column_names, rows.columns, strict=True) if fields else ():
            field, dropped = fields.get(name, rows.field(name)), len(rows) - values.null_count
            is_partition = field is not None and field.name in partitions
            if dropped and is_partition and field is not None and field.name != name:
                raise ConfigError(
                    f"writing the column {cut(repr(name), 80)}",
                    f"it is another name of the partition column {field.name}, whose values only come from that name",
                    f"Set RENAME_COLUMNS={name}:{field.name}, or rename the column back in the table",
                )
            if field is not None and not is_partition:
                former, kind = kept.get(field.name), values.type if name == field.name else field.type
                with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
                    cast = values.cast(kind if former is None else former.type)
                    kept[field.name] = cast if former is None else pc.coalesce(former, cast)
                    dropped -= (len(rows) if former is None else former.null_count) - kept[field.name].null_count
            if dropped:
                level = logging.INFO if name in self._reported else logging.WARNING
                logger.log(level, _DROPPED, counted(dropped, "value"), cut(repr(name), 80), _PAGE)
                self._reported.add(name)
        return pa.table(kept) if kept else rows
