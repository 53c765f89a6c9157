"""Stores the table's schema, which all members of the group share. The schema is one small object, and only grows."""

import heapq
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa

from app.errors import ConfigError, FatalError, cut
from app.storage.base import ChangedError, ObjectStore
from app.storage.document import Document, Form
from app.table.layout import UTC_ZONE, is_data_file, schema_key
from app.table.parquet_reader import read_footer
from app.table.schema import EMPTY, NEWEST_VERSION, TableSchema, join_types
from app.table.type_names import Types, parts, type_name

logger = logging.getLogger(__name__)

_FILES_READ = 20
_LISTED = 5  # columns in one log line
_SHOWN = 80  # characters of a name
_INTEGERS = (pa.int32(), pa.int64())
_FORM = Form(
    "the table's schema",
    lambda body: TableSchema.from_document(json.loads(body)),
    lambda schema: json.dumps(schema.to_document(), indent=1).encode(),
    "If a newer release wrote it, update this one. Otherwise restore the object, "
    "or delete it: the connector then makes it from the newest files",
    NEWEST_VERSION,
)


def schema_document(store: ObjectStore, table_root: str) -> Document[TableSchema]:
    """Returns the document of the stored schema, which is not read yet."""
    return Document(store, schema_key(table_root), _FORM)


@dataclass(slots=True)
class SchemaStore:
    """Keeps the schema, and writes an extended schema before the first file that needs it. For one thread.

    After a ``RetryableError``, the schema is unchanged, and the call can be repeated. ``types`` contains the types in
    ``COLUMN_TYPES``. ``iceberg`` contains the columns of an Iceberg table in the catalog. ``time_zone`` is the time
    zone of the time folders. The time zone is stored with the columns, and never changes. ``current`` is the schema
    that was last read or written. It is empty before ``open``, and while the table has no columns.
    """

    store: ObjectStore
    table_root: str
    types: Types
    iceberg: TableSchema | None = None
    time_zone: str = UTC_ZONE
    current: TableSchema = field(init=False, default=EMPTY)
    _document: Document[TableSchema] = field(init=False)
    _widens: bool = field(init=False)

    def __post_init__(self) -> None:
        self._document = schema_document(self.store, self.table_root)
        self._widens = self.iceberg is None  # Iceberg does not support a change from bigint to double

    def open(self) -> None:
        """Reads the schema. If no schema is stored, creates it from the footers of the table's newest files.

        Raises:
            ConfigError: The settings contradict a type or the time zone of the table.
            FatalError: The schema or a footer cannot be read. The connector does not guess the schema.
        """
        schema = self._read()
        self._replace_current(schema)
        self.extend(self._types_in_settings(schema))

    def would_be(self) -> TableSchema:
        """Returns the schema that ``open`` would store, without writing. Raises the errors of ``open``."""
        schema = self._read()
        return self._merged(schema, self._types_in_settings(schema))

    def extend(self, schema: TableSchema) -> TableSchema:
        """Adds the columns of ``schema`` and returns the result. An existing column may keep a different type.

        Raises:
            ConfigError: Another member has stored a type of a column that contradicts this member's ``COLUMN_TYPES``.
        """
        while True:
            merged = self._merged(self.current, schema)
            if merged == (self._document.current or EMPTY):
                return merged
            try:
                self._document.write(merged)
            except ChangedError:  # another member has written; if the table was deleted, the current schema is kept
                theirs = self._document.read()
                if theirs is not None:
                    self._check_zone(theirs)
                    self._check(theirs)
                    self._replace_current(self._merged(theirs, self._types_in_settings(theirs)))
            else:
                self._replace_current(merged)
                return merged

    def _read(self) -> TableSchema:
        schema = self._document.read() or (self._from_footers() if self.iceberg is None else EMPTY)
        self._check_zone(schema)
        if self.iceberg is not None:
            schema = self._merged(self.iceberg, schema)
        self._check(schema)
        return schema

    def _merged(self, first: TableSchema, second: TableSchema) -> TableSchema:
        return replace(first.merge(second, widens=self._widens), time_zone=self.time_zone)

    def _types_in_settings(self, schema: TableSchema) -> TableSchema:
        """Returns the columns of the schema whose types the settings fix."""
        return TableSchema({name: kind for name, kind in self.types.items() if name in schema.columns})

    def _from_footers(self) -> TableSchema:
        """Returns the schema of the newest files. If two types have no common type, the newer file's type is used."""
        newest = heapq.nlargest(
            _FILES_READ,
            (file for file in self.store.list(self.table_root + "/") if is_data_file(file.key, self.table_root)),
            key=lambda file: (file.last_modified, file.key),
        )
        schema = EMPTY
        for file in newest:
            footer = read_footer(self.store, file.key, file.size)
            try:
                schema = schema.merge(TableSchema.from_arrow(footer.schema.to_arrow_schema()))
            except (ValueError, pa.ArrowException) as error:
                raise FatalError(
                    f"making the table's schema from {self.store.uri}/{file.key}",
                    str(error),
                    "Move that file out of the table's folder, or set TABLE_NAME to begin another table",
                ) from error
        if newest:
            text = "table %s has no stored schema: made it from the footers of its newest files (%d read)"
            logger.info(text, self.table_root, len(newest))
        return schema

    def _check_zone(self, schema: TableSchema) -> None:
        if schema.columns and schema.time_zone != self.time_zone:
            raise ConfigError(
                "checking the table's partitioning",
                f"the folders of {self.store.uri}/{self.table_root} have their times in {schema.time_zone}, "
                f"TIME_ZONE says {self.time_zone}",
                f"Set TIME_ZONE={schema.time_zone} to continue this table, or TABLE_NAME to begin another table",
            )

    def _check(self, schema: TableSchema) -> None:
        """Refuses types in the settings to which the table's types cannot widen."""
        wrong = [
            f"column {name!r} is {type_name(schema.columns[name])} in the table and {type_name(kind)} in COLUMN_TYPES"
            for name, kind in self.types.items()
            if name in schema.columns and join_types(schema.columns[name], kind, widens=self._widens) != kind
        ]
        if wrong:
            raise ConfigError(
                f"comparing COLUMN_TYPES with the schema of the table {self.store.uri}/{self.table_root}",
                "; ".join(wrong),
                "Set the table's type or leave the column out, or set TABLE_NAME to begin another table",
            )

    def _replace_current(self, schema: TableSchema) -> None:
        """Replaces the current schema, and logs columns that now have two types in the table's files."""
        paths = [
            path
            for column, kind in self.current.columns.items()
            for path in _now_double(column, kind, schema.columns.get(column, kind))
        ]
        if paths:
            more = f" and {len(paths) - _LISTED:,} more" if len(paths) > _LISTED else ""
            logger.warning(
                "column %s%s: bigint in the table's files so far, double from now on. Spark cannot read both types "
                "together (DuckDB and Polars can, pyarrow below 2^53). Run `python main.py compact` to rewrite the old "
                "files. In a new table, set the type in COLUMN_TYPES",
                ", ".join(cut(repr(path), _SHOWN) for path in paths[:_LISTED]),
                more,
            )
        self.current = schema


def _now_double(path: str, before: pa.DataType, after: pa.DataType) -> Iterator[str]:
    """Yields the column or the nested fields whose type changed from integer to double."""
    if before in _INTEGERS and after == pa.float64():
        yield path
    elif pa.types.is_struct(before) and pa.types.is_struct(after):
        types = {field.name: field.type for field in after}
        for field in before:
            yield from _now_double(f"{path}.{field.name}", field.type, types.get(field.name, field.type))
    elif pa.types.is_nested(before) and before.id == after.id:
        yield from _now_double(f"{path}[]", parts(before)[-1], parts(after)[-1])
