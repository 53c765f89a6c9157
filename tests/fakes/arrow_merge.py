"""Stands in for ``app.parts.maintenance.spark_merge.Merge``: joins files of one schema in this process."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

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
        values = ", ".join(f"'{value}' AS {name}" for name, value in partition_values.items())
        self._view = f"(SELECT *{', ' if values else ''}{values} FROM rows)"  # noqa: S608
        self._erased = " AND ".join(f"coalesce({each}, false)" for each in removal.conditions) or "false"
        if removal.newest_by:
            key = ", ".join(removal.newest_by)
            newest = f"__offset = max(__offset) OVER (PARTITION BY {key})"
            self._view = f"(SELECT *, NOT ({newest} AND NOT {self._erased}) AS is_removed FROM {self._view})"  # noqa: S608
            self._erased = "is_removed"

    def count_erased(self) -> int:
        return len(self._query(f"SELECT * FROM {self._view} WHERE {self._erased}"))  # noqa: S608

    def write(self, out: str, metadata: Mapping[str, Any]) -> None:
        """Write the other rows."""
        Path(out).mkdir()
        names = ", ".join(self._rows.column_names)
        kept = self._query(f"SELECT {names} FROM {self._view} WHERE NOT ({self._erased})")  # noqa: S608
        kept = kept.cast(self._rows.schema)
        kept = kept.replace_schema_metadata(footer_with(kept.column_names[0], metadata))
        pq.write_table(kept, f"{out}/part.parquet", compression="zstd")

    def _query(self, sql: str) -> pa.Table:
        with duckdb.connect() as connection:
            connection.register("rows", self._rows)
            return connection.execute(sql).to_arrow_table()
