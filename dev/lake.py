"""Looks at a lake in a local folder the way its readers do: by footers, folders and SQL."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq


class RowCounter:
    """Counts the rows of a growing table from the footers of its files; each file is read once.

    Args:
        table: the table's folder; it may not exist yet.
    """

    def __init__(self, table: Path) -> None:
        self._table = table
        self._rows: dict[Path, int] = {}

    def count(self) -> int:
        """Rows in all finished files so far."""
        for file in self._table.rglob("*.parquet"):
            if file not in self._rows:
                self._rows[file] = pq.read_metadata(file).num_rows
        return sum(self._rows.values())


def table_source(table: Path) -> str:
    """The table as a DuckDB source, folder names read as columns and columns matched by name."""
    pattern = str(table / "**" / "*.parquet").replace("'", "''")
    return f"read_parquet('{pattern}', hive_partitioning = true, union_by_name = true)"


def query(sql: str) -> list[tuple[object, ...]]:
    """All rows that DuckDB returns for the query."""
    with duckdb.connect() as database:
        rows: list[tuple[object, ...]] = database.execute(sql).fetchall()
    return rows


def partition_tree(folder: Path, indent: str = "") -> Iterator[str]:
    """Yield the folders below ``folder`` as the lines of a tree; the innermost tell their files and rows."""
    folders = sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(("_", ".")))
    for inner in folders:
        last = inner is folders[-1]
        files = sorted(inner.glob("*.parquet"))
        line = f"{indent}{'└── ' if last else '├── '}{inner.name}"
        if files:
            rows = sum(pq.read_metadata(file).num_rows for file in files)
            line = f"{line:<40}{len(files):>3} {'file ' if len(files) == 1 else 'files'}{rows:>8,} rows"
        yield line
        yield from partition_tree(inner, indent + ("    " if last else "│   "))
