"""Variables of the table and its files."""

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
    """Name of the table. `{topic}` in it stands for the name of the topic. Empty: that of the topic."""
    partitions: Annotated[tuple[str, ...], BeforeValidator(parse.partitions)] = env("HIVE_COLUMNS", ())
    """Partition columns, outermost first, such as `location,year,month`. A table keeps them. `year`, `month`, `day` and
    `hour` come from `TIMESTAMP_COLUMN`. `meta.region` is the field `region` of the object `meta`.
    """
    timestamp_column: str = env("TIMESTAMP_COLUMN", "ts_ms")
    """Field with the time of the record. Records without this field use the Kafka timestamp."""
    timestamp_as: Name = env("TIMESTAMP_AS")
    """Name of an additional column of type `timestamp` with the time of `TIMESTAMP_COLUMN`."""
    time_zone: Annotated[str, BeforeValidator(parse.time_zone)] = env("TIME_ZONE", UTC_ZONE)
    """Time zone of `year`, `month`, `day` and `hour` in `HIVE_COLUMNS`, such as `Europe/Prague`. A table keeps it."""
    drop_columns: Annotated[tuple[str, ...], BeforeValidator(parse.columns)] = env("DROP_COLUMNS", ())
    """Fields to leave out, separated by commas."""
    rename_columns: Annotated[Mapping[str, str], BeforeValidator(parse.renames)] = env("RENAME_COLUMNS", {})
    """Fields and the columns that they become, such as `ts:ts_ms,dev:device`."""
    hash_columns: Annotated[tuple[str, ...], BeforeValidator(parse.columns)] = env("HASH_COLUMNS", ())
    """Columns of which only the salted SHA-256 hash is kept, separated by commas."""
    hash_salt: str | None = env("HASH_SALT", secret=True, only_with="HASH_COLUMNS")
    """Secret text before each value that is hashed."""
    null_partition: Annotated[str, BeforeValidator(parse.null_folder)] = env("NULL_PARTITION", "auto")
    """Folder value for missing values; not for Iceberg. `auto`: that of the table, else `__None__` with a catalog and
    `__HIVE_DEFAULT_PARTITION__` without.
    """
    parquet_compression: Compression = env("PARQUET_COMPRESSION", "zstd")
    """Compression of the files."""
    row_group_rows: PositiveInt = env("ROW_GROUP_ROWS", 1_000_000)
    """Maximum number of rows in a row group of a file."""
    column_types: Annotated[Mapping[str, pa.DataType], BeforeValidator(parse_column_types)] = env("COLUMN_TYPES", {})
    """Types of columns in the names of Spark SQL, such as `speed:double,count:bigint`. Others get their type from the
    records.
    """
    column_limit: PositiveInt = env("COLUMN_LIMIT", 5_000)
    """Maximum number of columns; fields inside objects count. Further fields go to `_rescued_data`."""
    metadata_columns: Annotated[tuple[str, ...], BeforeValidator(parse.metadata_columns)] = env("METADATA_COLUMNS", ())
    """Kafka metadata to add as columns: any of `__topic`, `__partition`, `__offset`, `__timestamp`, `__headers`."""
    sort_column: str | None = env("SORT_COLUMN")
    """Column that orders the rows inside each file. Empty: the order of arrival."""
    stats_columns: Annotated[tuple[str, ...], BeforeValidator(parse.columns)] = env("STATS_COLUMNS", ())
    """Columns whose minimum and maximum the catalog receives, separated by commas. Empty: all numbers and times."""

    @property
    def has_tables(self) -> bool:
        """Whether there are several: each topic has its own."""
        return self.has_several and EACH_TOPIC in self.table

    @property
    def table(self) -> str:
        """May have ``{topic}`` in it where there are several topics."""
        name = self.table_name or EACH_TOPIC
        return name if self.has_several else name.replace(EACH_TOPIC, self.input_topic)

    def of_topic(self, topic: str) -> Self:
        """Returns the settings for the table of this topic, as if no other were read."""
        return self.model_copy(update={"input_topic": topic})

    def has_table(self, topic: str) -> bool:
        """Whether the topic is read and its name can be that of a table."""
        return self.reads(topic) and not [*checked("TABLE_NAME", parse.name, self.of_topic(topic).table)]

    def of_table(self, table: str | None) -> Self:
        """Returns the settings of this table, for a command; ``ConfigError`` if there are several and it is none."""
        if not self.has_tables and table in (None, self.table):
            return self
        before, _, after = self.table.partition(EACH_TOPIC)
        topic = (table or "").removeprefix(before).removesuffix(after)
        of_topic = self.of_topic(topic)
        if self.has_tables and of_topic.table == table and self.has_table(topic):
            return of_topic
        cause = f"there is no table {table} of these" if table else "each of its topics has a table"
        hint = f"Name one with --table, such as {self.of_topic(self.topics[0]).table}"
        raise ConfigError("choosing the table", f"input={self.input_topic}: {cause}", hint)

    @property
    def plain_partitions(self) -> tuple[str, ...]:
        """The partitions that are no transforms."""
        return tuple(entry for entry in self.partitions if entry not in self.transforms)

    @property
    def transforms(self) -> Mapping[str, tuple[str, str]]:
        """Transforms of an Iceberg table, such as ``day(at)``, in its words and with their columns."""
        return {entry: found for entry in self.partitions if (found := parse.transform(entry))}

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
            yield "COLUMN_TYPES", f"must leave out {RESCUED_COLUMN}, which is always text"
        taken = (self.timestamp_column, *self.partitions, *self.column_types)
        if self.timestamp_as and self.timestamp_as in {name.removeprefix("~") for name in taken}:
            yield "TIMESTAMP_AS", "must name a column that no other setting names"
        if self.time_zone != UTC_ZONE and not {*TIME_COLUMNS} & {*self.partitions}:
            told = "has no effect without year, month, day or hour in HIVE_COLUMNS; transforms of Iceberg are in UTC"
            yield "TIME_ZONE", told
        if self.timestamp_column in TIME_COLUMNS and self.timestamp_column in self.partitions:
            told = "must not be a column of HIVE_COLUMNS that is derived from it: its own values would be lost"
            yield "TIMESTAMP_COLUMN", told

    def _contradictions_of_fields(self) -> Contradictions:
        if self.hash_columns and not self.hash_salt:
            yield "HASH_SALT", "must be set with HASH_COLUMNS: without a secret, whoever guesses a value finds its hash"
        derived = {*TIME_COLUMNS} & {*self.partitions}
        own = {KEY_COLUMN, RESCUED_COLUMN, *parse.METADATA_COLUMNS, self.timestamp_as}
        rules, renamed = self.field_rules, self.rename_columns
        for variable, names, taken in (
            ("HASH_COLUMNS", self.hash_columns, own | derived),
            ("RENAME_COLUMNS", renamed.values(), own | derived),
            ("DROP_COLUMNS", self.drop_columns, own),
        ):
            for name in filter(taken.__contains__, names):
                yield variable, f"must not name {name}, which is no field of the record but made by the connector"
        for name in self.hash_columns:
            if name == self.timestamp_column or self.column_types.get(name, pa.string()) != pa.string():
                setting = "TIMESTAMP_COLUMN" if name == self.timestamp_column else "COLUMN_TYPES, with another type"
                yield "HASH_COLUMNS", f"must not name {name}, which {setting} names: a hash is text"
        partitions = [*self.plain_partitions, *(column for _, column in self.transforms.values())]
        named = dict.fromkeys((name.removeprefix(parse.VIRTUAL_MARK) for name in partitions), "HIVE_COLUMNS")
        named |= dict.fromkeys(self.hash_columns, "HASH_COLUMNS") | dict.fromkeys(self.column_types, "COLUMN_TYPES")
        named |= dict.fromkeys(self.stats_columns, "STATS_COLUMNS") | {self.timestamp_column: "TIMESTAMP_COLUMN"}
        if self.sort_column:
            named[self.sort_column] = "SORT_COLUMN"
        for name, setting in named.items():
            if name not in derived and not rules.fields_of(name):
                variable = "RENAME_COLUMNS" if name in renamed else "DROP_COLUMNS"
                yield variable, f"must not name {name}, which {setting} needs"
        for name in filter(renamed.__contains__, self.drop_columns):
            yield "DROP_COLUMNS", f"must not name {name}, which RENAME_COLUMNS names"

    def _contradictions_of_paths(self) -> Contradictions:
        """Keeps rules off folders of fields inside objects: those are read behind the rules, which know no such field.

        It keeps ``HASH_COLUMNS`` off fields with dots in their names too: a record may have the object instead.
        """
        rules = self.field_rules
        for column in self.plain_partitions:
            outer, *inner = next(iter(rules.fields_of(column)), "").split(".")
            if not inner or column.startswith(parse.VIRTUAL_MARK):  # no field inside an object becomes a virtual one
                continue
            if rules.is_hashed(column):
                told = f"HIVE_COLUMNS takes it out of the object {outer} too, where it stays in clear text"
                yield "HASH_COLUMNS", f"must not name {column}: {told}. Hash it in transform()"
            told = "In transform(), copy it to a field outside, and name that in HIVE_COLUMNS"
            changed = "RENAME_COLUMNS" if outer in self.rename_columns else "DROP_COLUMNS"
            reached = {"HASH_COLUMNS": rules.is_hashed(outer), changed: outer not in rules.fields_of(outer)}
            for variable in filter(reached.get, reached):
                yield variable, f"must not name {outer}, out of which HIVE_COLUMNS takes {column}. {told}"
