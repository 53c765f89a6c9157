"""The environment variables of the table and of the table's files."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

import pyarrow as pa
from pydantic import BeforeValidator, PositiveInt

from app.config import parsers as parse
from app.config.fields import Contradictions, checked, env
from app.config.input import Input
from app.config.store import Name
from app.errors import ConfigError
from app.model import EACH_TOPIC, KEY_COLUMN
from app.table.field_rules import FieldRules
from app.table.layout import RESCUED_COLUMN, TIME_COLUMNS, UTC_ZONE
from app.table.type_names import parse_column_types

Compression = Literal["snappy", "zstd", "gzip", "none"]


class Table(Input):
    table_name: Annotated[str | None, BeforeValidator(parse.table_name)] = env("TABLE_NAME")
    """Name of the table. `{topic}` in this name means the name of the topic. Empty: the name of the topic."""
    partitions: Annotated[tuple[str, ...], BeforeValidator(parse.partitions)] = env("HIVE_COLUMNS", ())
    """Partition columns, outermost folder first, such as `location,year,month`. You cannot change them for an existing
    table. `year`, `month`, `day` and `hour` are the time in `TIMESTAMP_COLUMN`. `meta.region` is `region` in `meta`.
    """
    timestamp_column: str = env("TIMESTAMP_COLUMN", "ts_ms")
    """Field with the time of the record. If a record does not contain this field, the Kafka timestamp is used."""
    timestamp_as: Name = env("TIMESTAMP_AS")
    """Name of an additional column of type `timestamp` with the time of `TIMESTAMP_COLUMN`."""
    time_zone: Annotated[str, BeforeValidator(parse.time_zone)] = env("TIME_ZONE", UTC_ZONE)
    """Time zone of `year`, `month`, `day` and `hour`, such as `Europe/Prague`. Fixed while the table has files."""
    drop_columns: Annotated[tuple[str, ...], BeforeValidator(parse.columns)] = env("DROP_COLUMNS", ())
    """Fields to drop, separated by commas."""
    rename_columns: Annotated[Mapping[str, str], BeforeValidator(parse.renames)] = env("RENAME_COLUMNS", {})
    """Fields to rename, as `field:column`, separated by commas, such as `ts:ts_ms,dev:device`."""
    hash_columns: Annotated[tuple[str, ...], BeforeValidator(parse.columns)] = env("HASH_COLUMNS", ())
    """Columns whose values are replaced by salted SHA-256 hashes, separated by commas."""
    hash_salt: str | None = env("HASH_SALT", secret=True, only_with="HASH_COLUMNS")
    """Secret text that is put in front of each value before hashing."""
    null_partition: Annotated[str, BeforeValidator(parse.null_folder)] = env("NULL_PARTITION", "auto")
    """Folder name for missing values; not for Iceberg. `auto`: the name in the existing table. For a new table:
    `__None__` with a catalog, and `__HIVE_DEFAULT_PARTITION__` without a catalog.
    """
    parquet_compression: Compression = env("PARQUET_COMPRESSION", "zstd")
    """Compression codec of the Parquet files."""
    row_group_rows: PositiveInt = env("ROW_GROUP_ROWS", 1_000_000)
    """Maximum number of rows in a row group of a file."""
    column_types: Annotated[Mapping[str, pa.DataType], BeforeValidator(parse_column_types)] = env("COLUMN_TYPES", {})
    """Types of columns, with the type names of Spark SQL, such as `speed:double,tags:map<string,double>`. Records
    define the types of all other columns.
    """
    column_limit: PositiveInt = env("COLUMN_LIMIT", 5_000)
    """Maximum number of columns, including fields inside objects. More fields are stored in `_rescued_data`."""
    metadata_columns: Annotated[tuple[str, ...], BeforeValidator(parse.metadata_columns)] = env("METADATA_COLUMNS", ())
    """Kafka metadata to add as columns: `__topic`, `__partition`, `__offset`, `__timestamp`, `__headers`."""
    sort_column: str | None = env("SORT_COLUMN")
    """Column that sorts the rows in each file. Empty: rows are in the order of arrival."""
    stats_columns: Annotated[tuple[str, ...], BeforeValidator(parse.columns)] = env("STATS_COLUMNS", ())
    """Columns, separated by commas, whose minimum and maximum the catalog stores. Empty: all numbers and times."""

    @property
    def has_tables(self) -> bool:
        """Whether there are several topics, and each topic has a separate table."""
        return self.has_several and EACH_TOPIC in self.table

    @property
    def table(self) -> str:
        """The name of the table. With several topics, the name may contain ``{topic}``."""
        name = self.table_name or EACH_TOPIC
        return name if self.has_several else name.replace(EACH_TOPIC, self.input_topic)

    def of_topic(self, topic: str) -> Self:
        """Return the settings for the table of this topic. In these settings, the topic is the only input topic."""
        return self.model_copy(update={"input_topic": topic})

    def has_table(self, topic: str) -> bool:
        """Return whether the topic is an input topic, and the topic's name is valid as the name of a table."""
        return self.reads(topic) and not [*checked("TABLE_NAME", parse.name, self.of_topic(topic).table)]

    def of_table(self, table: str | None) -> Self:
        """Return the settings of this table for a command. Raise ``ConfigError`` if no input topic has this table."""
        if not self.has_tables and table in (None, self.table):
            return self
        before, _, after = self.table.partition(EACH_TOPIC)
        topic = (table or "").removeprefix(before).removesuffix(after)
        of_topic = self.of_topic(topic)
        if self.has_tables and of_topic.table == table and self.has_table(topic):
            return of_topic
        cause = f"these topics have no table {table}" if table else "each of its topics has a table"
        hint = f"Set --table, for example to {self.of_topic(self.topics[0]).table}"
        raise ConfigError("choosing the table", f"input={self.input_topic}: {cause}", hint)

    @property
    def plain_partitions(self) -> tuple[str, ...]:
        return tuple(entry for entry in self.partitions if entry not in self.transforms)

    @property
    def transforms(self) -> Mapping[str, tuple[str, str]]:
        """The transforms of an Iceberg table, such as ``day(at)``. Each has Iceberg's notation, and the column."""
        return {entry: transform for entry in self.partitions if (transform := parse.transform(entry))}

    @property
    def field_rules(self) -> FieldRules:
        return FieldRules(self.drop_columns, self.rename_columns, self.hash_columns, self.hash_salt or "")

    def contradictions(self) -> Contradictions:
        yield from super().contradictions()
        yield from self._contradictions_of_fields()
        yield from self._contradictions_of_paths()
        for table in [self.of_topic(each).table for each in self.topics if not each.startswith("^")]:
            for variable, problem in checked("TABLE_NAME", parse.name, table):
                yield variable, f'must be set, because the topic\'s name "{table}" cannot name a table: it {problem}'
        if self.column_types.get(RESCUED_COLUMN, pa.string()) != pa.string():
            yield "COLUMN_TYPES", f"must not contain {RESCUED_COLUMN}, which is always text"
        taken = (self.timestamp_column, *self.partitions, *self.column_types)
        if self.timestamp_as and self.timestamp_as in {name.removeprefix("~") for name in taken}:
            yield "TIMESTAMP_AS", "must not be a column of another setting"
        if self.time_zone != UTC_ZONE and not {*TIME_COLUMNS} & {*self.partitions}:
            problem = "has no effect without year, month, day or hour in HIVE_COLUMNS; transforms of Iceberg are in UTC"
            yield "TIME_ZONE", problem
        if self.timestamp_column in TIME_COLUMNS and self.timestamp_column in self.partitions:
            problem = "must not be a column of HIVE_COLUMNS that is derived from it: its own values would be lost"
            yield "TIMESTAMP_COLUMN", problem

    def _contradictions_of_fields(self) -> Contradictions:
        if self.hash_columns and not self.hash_salt:
            yield (
                "HASH_SALT",
                "must be set with HASH_COLUMNS: without a secret, hashes of guessed values can be compared",
            )
        derived = {*TIME_COLUMNS} & {*self.partitions}
        own = {KEY_COLUMN, RESCUED_COLUMN, *parse.METADATA_COLUMNS, self.timestamp_as}
        rules, renamed = self.field_rules, self.rename_columns
        for variable, names, taken in (
            ("HASH_COLUMNS", self.hash_columns, own | derived),
            ("RENAME_COLUMNS", renamed.values(), own | derived),
            ("DROP_COLUMNS", self.drop_columns, own),
        ):
            for name in filter(taken.__contains__, names):
                yield variable, f"must not contain {name}, which is not a field of the record: the connector adds it"
        for name in self.hash_columns:
            if name == self.timestamp_column or self.column_types.get(name, pa.string()) != pa.string():
                setting = "TIMESTAMP_COLUMN" if name == self.timestamp_column else "COLUMN_TYPES, with another type"
                yield "HASH_COLUMNS", f"must not contain {name}, which is in {setting}: a hash is text"
        partitions = [*self.plain_partitions, *(column for _, column in self.transforms.values())]
        named = dict.fromkeys((name.removeprefix(parse.VIRTUAL_MARK) for name in partitions), "HIVE_COLUMNS")
        named |= dict.fromkeys(self.hash_columns, "HASH_COLUMNS") | dict.fromkeys(self.column_types, "COLUMN_TYPES")
        named |= dict.fromkeys(self.stats_columns, "STATS_COLUMNS") | {self.timestamp_column: "TIMESTAMP_COLUMN"}
        if self.sort_column:
            named[self.sort_column] = "SORT_COLUMN"
        for name, setting in named.items():
            if name not in derived and not rules.fields_of(name):
                variable = "RENAME_COLUMNS" if name in renamed else "DROP_COLUMNS"
                yield variable, f"must not contain {name}, which {setting} needs"
        for name in filter(renamed.__contains__, self.drop_columns):
            yield "DROP_COLUMNS", f"must not contain {name}, which is in RENAME_COLUMNS"

    def _contradictions_of_paths(self) -> Contradictions:
        """Refuse rules (hash, rename, drop) for partition columns inside objects, because rules ignore these fields.

        A rule for a name with a dot is also refused, because a record may contain the object instead of this field.
        """
        rules = self.field_rules
        for column in self.plain_partitions:
            outer, *inner = next(iter(rules.fields_of(column)), "").split(".")
            if not inner or column.startswith(parse.VIRTUAL_MARK):  # virtual columns are never inside objects
                continue
            if rules.is_hashed(column):
                cause = f"HIVE_COLUMNS also reads it from the object {outer}, where it stays in clear text"
                yield "HASH_COLUMNS", f"must not contain {column}: {cause}. Hash it in transform()"
            hint = "In transform(), copy it to a field outside the object, and use that field in HIVE_COLUMNS"
            changed = "RENAME_COLUMNS" if outer in self.rename_columns else "DROP_COLUMNS"
            reached = {"HASH_COLUMNS": rules.is_hashed(outer), changed: outer not in rules.fields_of(outer)}
            for variable in filter(reached.get, reached):
                yield variable, f"must not contain {outer}, from which HIVE_COLUMNS reads {column}. {hint}"
