"""Which names a column cannot have, and the columns of files by the names that engines give them in the table."""

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from app import DOCUMENTS
from app.errors import ConfigError, cut
from app.formatting import counted

logger = logging.getLogger(__name__)

_LEFT_OUT = (
    "%s left out of column %s: it was dropped from the table, or has two names there and a record has both. See %s"
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
    """``fields`` has the column of files by each name that it has or had in the table, ``None`` for a dropped one."""

    def __init__(self) -> None:
        self.fields: Mapping[str, pa.Field | None] = {}
        self._left_out: set[str] = set()

    def as_known(self, rows: pa.Table, partitions: Collection[str]) -> pa.Table:
        """Returns the rows with one column for all names of a column, without those dropped in the table."""
        fields = self.fields
        kept: dict[str, pa.ChunkedArray] = {}
        for name, values in zip(rows.column_names, rows.columns, strict=True) if fields else ():
            its, left = fields.get(name, rows.field(name)), len(rows) - values.null_count
            is_partition = its is not None and its.name in partitions
            if left and is_partition and its is not None and its.name != name:
                raise ConfigError(
                    f"writing the column {cut(repr(name), 80)}",
                    f"it is another name of the partition column {its.name}, whose values are those of that name alone",
                    f"Set RENAME_COLUMNS={name}:{its.name}, or rename the column back in the table",
                )
            if its is not None and not is_partition:
                former, kind = kept.get(its.name), values.type if name == its.name else its.type
                with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
                    cast = values.cast(kind if former is None else former.type)
                    kept[its.name] = cast if former is None else pc.coalesce(former, cast)
                    left -= (len(rows) if former is None else former.null_count) - kept[its.name].null_count
            if left:
                level = logging.INFO if name in self._left_out else logging.WARNING
                logger.log(level, _LEFT_OUT, counted(left, "value"), cut(repr(name), 80), _PAGE)
                self._left_out.add(name)
        return pa.table(kept) if kept else rows
