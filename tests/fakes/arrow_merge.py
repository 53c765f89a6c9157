"""Stands in for ``app.parts.maintenance.spark_merge.Merge``: joins files of one schema in this process."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from app.parts.maintenance.newest_rows import newest_rows
from app.parts.maintenance.removal import NOTHING, Removal
from app.parts.maintenance.spark_merge import Target
from tests.fakes.arrow_writer import footer_with


class ArrowMerge:
    """Has the interface of ``Merge``; conditions are those of DuckDB."""

    def __init__(
        self,
        _session: object,
        sources: Mapping[pa.Schema, Sequence[str]],
        target: Target,
        partition_values: Mapping[str, str | None],
        removal: Removal = NOTHING,
    ) -> None:
        self._target = target
        self._rows = pa.concat_tables(
            [pq.ParquetFile(path).read() for paths in sources.values() for path in paths], promote_options="default"
        )
        values = "".join(f", '{value}' AS {name}" for name, value in partition_values.items())
        everything = _query(f"SELECT *{values} FROM rows", self._rows)  # noqa: S608
        if removal.newest_by:
            everything = everything.filter(newest_rows(everything, removal.newest_by))
        erased = " AND ".join(f"coalesce({each}, false)" for each in removal.conditions) or "false"
        self._kept = _query(f"SELECT * FROM rows WHERE NOT ({erased})", everything)  # noqa: S608

    def count_erased(self) -> int:
        return len(self._rows) - len(self._kept)

    def write(self, out: str, metadata: Mapping[str, Any]) -> None:
        """Write the other rows."""
        Path(out).mkdir()
        kept = self._kept.select(self._rows.column_names).cast(self._rows.schema)
        kept = kept.replace_schema_metadata(footer_with(kept.column_names[0], metadata))
        pq.write_table(kept, f"{out}/part.parquet", compression="zstd")


def _query(sql: str, rows: pa.Table) -> pa.Table:
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        return connection.execute(sql).to_arrow_table()
