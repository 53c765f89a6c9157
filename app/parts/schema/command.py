import json
import re
from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import prod
from typing import Final
from urllib.parse import urlsplit
from zlib import crc32

import pyarrow as pa

from app.config.settings import Settings
from app.errors import ConfigError
from app.parts.commands import print_line
from app.parts.commands.find_tables import CHECK_THE_NAME, find_table
from app.parts.schema.json_schema import json_schema
from app.service.lake import new_lake
from app.storage.base import ObjectStore
from app.storage.targets import S3Target
from app.table.layout import HIVE_NULL, RESCUED_COLUMN, TIME_COLUMNS, escape, is_data_file, spec_of_key

_KINDS = (
    *(pa.bool_(), pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.binary(), pa.date32()),
    *(pa.timestamp("us", "UTC"), pa.timestamp("us")),
)
_YEARS: Final = 10  # number of years, from the present year on, in Athena's list of years
_TIMES: Final = {"month": range(1, 13), "day": range(1, 32), "hour": range(24)}
_MOST_LISTED: Final = 50  # maximum number of values in a list: Athena recommends a few dozen
_WIDEST_RANGE: Final = 1_000  # maximum size of a range: without a condition, a query sends a request for each number
_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
_BREAKS = {"\n": r"\n", "\r": r"\r"}  # because BigQuery does not accept line breaks in texts


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the name, the addresses in the store and by HTTP, the columns, and the folder columns with their values.

    ``folders`` contains values only for Athena. ``null`` is the name of the folder for missing values.
    """

    name: str
    uri: str
    https: str
    columns: Mapping[str, pa.DataType]
    folders: Mapping[str, Collection[str]]
    null: str = HIVE_NULL
    year: int = field(default_factory=lambda: datetime.now(UTC).year)

    @property
    def plain_name(self) -> str:
        """The name for engines. Many engines accept only letters, digits and underscores in names."""
        return _plain(self.name)


def _plain(name: str) -> str:
    return re.sub(r"\W", "_", name, flags=re.ASCII)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The notation of an engine for types, names and texts.

    Attributes:
        plain: The names of primitive types, in the order of ``_KINDS``.
        decimal, array, map, struct: The patterns of other types. ``field`` is the pattern of a struct's field.
        quote: The quotation mark of names. All names are quoted, because a name may be a reserved word.
        escaping: The quotation marks that need a backslash as escape. For other quotation marks, the mark is doubled.
        column: The pattern of a nullable column's type.
    """

    plain: Sequence[str]
    decimal: str
    array: str
    map: str
    struct: str
    field: str
    quote: str
    escaping: str = ""
    column: str = "{}"

    def name(self, text: str) -> str:
        return self._quoted(text, self.quote)

    def text(self, text: str) -> str:
        return self._quoted(text, "'")

    def _quoted(self, text: str, mark: str) -> str:
        if mark not in self.escaping:
            return mark + text.replace(mark, mark * 2) + mark
        return mark + re.sub(rf"[\\{mark}\n\r]", lambda match: _BREAKS.get(match[0], f"\\{match[0]}"), text) + mark

    def kind(self, kind: pa.DataType) -> str:
        if pa.types.is_decimal(kind):
            return self.column.format(self.decimal.format(kind.precision, kind.scale))
        if pa.types.is_list(kind):
            return self.array.format(self.kind(kind.value_type))
        if pa.types.is_map(kind):
            return self.map.format(self.kind(kind.item_type))
        if pa.types.is_struct(kind):
            fields = (self.field.format(self.name(each.name), self.kind(each.type)) for each in kind)
            return self.struct.format(", ".join(fields))
        return self.column.format(dict(zip(_KINDS, self.plain, strict=True))[kind])

    def columns(self, columns: Mapping[str, pa.DataType]) -> str:
        return ",\n".join(f"  {self.name(name)} {self.kind(kind)}" for name, kind in columns.items())

    def folders(self, names: Iterable[str], kind: str) -> str:
        return ", ".join(f"{self.name(name)} {kind}" for name in names)


_HIVE = Dialect(
    ("boolean", "int", "bigint", "double", "string", "binary", "date", "timestamp", "timestamp"),
    *("decimal({},{})", "array<{}>", "map<string,{}>", "struct<{}>", "{}:{}", "`", "'"),
)
_SPARK = Dialect(
    ("BOOLEAN", "INT", "BIGINT", "DOUBLE", "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"),
    *("DECIMAL({},{})", "ARRAY<{}>", "MAP<STRING, {}>", "STRUCT<{}>", "{}: {}", "`", "'"),
)
_TRINO = Dialect(
    ("boolean", "integer", "bigint", "double", "varchar", "varbinary", "date", "timestamp", "timestamp"),
    *("decimal({},{})", "array({})", "map(varchar, {})", "row({})", "{} {}", '"'),
)
_BIGQUERY = Dialect(
    ("BOOL", "INT64", "INT64", "FLOAT64", "STRING", "BYTES", "DATE", "TIMESTAMP", "DATETIME"),
    *("BIGNUMERIC({},{})", "ARRAY<{}>", "STRUCT<key_value ARRAY<STRUCT<key STRING, value {}>>>", "STRUCT<{}>", "{} {}"),
    *("`", "'`"),
)
_CLICKHOUSE = Dialect(
    ("Bool", "Int32", "Int64", "Float64", "String", "String", "Date32", "DateTime64(6, 'UTC')", "DateTime64(6)"),
    *("Decimal({}, {})", "Array({})", "Map(String, {})", "Tuple({})", "{} {}", "`", "'`"),
    column="Nullable({})",
)


def _pattern(address: str, table: Table) -> str:
    return "/".join([address, *(f"{escape(name)}=*" for name in table.folders), "*.parquet"])


def _with_folders(table: Table) -> Mapping[str, pa.DataType]:
    return {**table.columns, **dict.fromkeys(table.folders, pa.string())}


def _repair(table: Table) -> list[str]:
    """Return the statement that makes Hive and similar engines find the folders."""
    return [f"\nMSCK REPAIR TABLE `{table.plain_name}`;"] if table.folders else []


def _duckdb(table: Table) -> str:
    return (
        f'CREATE VIEW "{table.plain_name}" AS\nSELECT * FROM read_parquet(\n'
        f"  {_TRINO.text(_pattern(table.uri, table))},\n"  # Trino quotes like standard SQL
        "  hive_partitioning = true, hive_types_autocast = false, union_by_name = true\n);"
    )


def _athena(table: Table) -> str:
    lines = [
        f"CREATE EXTERNAL TABLE `{table.plain_name}` (\n{_HIVE.columns(table.columns)}\n)",
        *([f"PARTITIONED BY ({_HIVE.folders(table.folders, 'string')})"] if table.folders else []),
        f"STORED AS PARQUET\nLOCATION {_HIVE.text(table.uri + '/')}",
    ]
    columns = {name: _projected(name, values, table.null, table.year) for name, values in table.folders.items()}
    injected = [name for name, (count, _) in columns.items() if not count]
    if not columns or (why := _unprojected(table, injected)):
        notes = [f"-- Repeat MSCK REPAIR TABLE for new folders: {why}."] if columns else []
        return "\n".join([*notes, *lines]) + ";" + "".join(f"\n{line}" for line in _repair(table))
    where = "".join(f"{escape(name)}=${{{name.lower()}}}/" for name in columns)
    properties = {"projection.enabled": "true", "storage.location.template": f"{table.uri}/{where}"}
    for name, (_, of_column) in columns.items():
        properties |= {f"projection.{name.lower()}.{key}": value for key, value in of_column.items()}
    properties_text = ",\n".join(f"  {_HIVE.text(key)} = {_HIVE.text(value)}" for key, value in properties.items())
    until = f", or before the year {table.year + _YEARS}" if "year" in columns else ""
    most, named = prod(count or 1 for count, _ in columns.values()), "no other values" if injected else "no values"
    return "\n".join(
        [
            "-- Athena finds new folders without MSCK REPAIR TABLE, but no rows in folders of other values than these.",
            f"-- If there are other values{until}, print this statement again and recreate the table.",
            *([f"-- Each query has to set values of {', '.join(injected)}, with = or IN."] if injected else []),
            f"-- A query that sets {named} looks for {most:,} folders. More than 1,000,000 are refused.",
            "-- Redshift Spectrum, EMR and Glue need MSCK REPAIR TABLE for new folders.",
            *lines,
            f"TBLPROPERTIES (\n{properties_text}\n);",
        ]
    )


def _projected(name: str, existing: Collection[str], null: str, year: int) -> tuple[int, Mapping[str, str]]:
    """Return how many values Athena searches (0 if each query must contain a value), and the column's properties.

    Times are lists and not ranges, because rows without a time are in the null folder. ``existing`` are the values in
    the table, and ``year`` is the present year.
    """
    values = {*existing}
    if name in TIME_COLUMNS:
        due = _TIMES.get(name, range(year, year + _YEARS))
        values |= {null, *(f"{number:02}" for number in due)}
    else:
        numbers = sorted(map(int, existing)) if all(map(_WHOLE.fullmatch, existing)) else []
        if numbers and (count := numbers[-1] - numbers[0] + 1) <= _WIDEST_RANGE:
            return count, {"type": "integer", "range": f"{numbers[0]},{numbers[-1]}"}
        if not 0 < len(existing) <= _MOST_LISTED or "," in "".join(existing):
            return 0, {"type": "injected"}
    return len(values), {"type": "enum", "values": ",".join(sorted(values))}


def _unprojected(table: Table, injected: Iterable[str]) -> str:
    """Return the reason why Athena cannot find the folders automatically; empty if Athena can find them."""
    texts = [text for values in table.folders.values() for text in values]
    if not texts:
        return "the table has none yet"
    if [*map(escape, texts)] != texts:  # Athena's documentation does not explain escaping
        return "special characters in their names are escaped"
    lacking = ", ".join(name for name in injected if table.null in table.folders[name])
    return lacking and f"{lacking} has too many values to list them, and rows without one"


def _spark(table: Table) -> str:
    uri = re.sub("^s3:", "s3a:", table.uri)
    names = ", ".join(map(_SPARK.name, table.folders))
    return "\n".join(
        [
            f"CREATE TABLE `{table.plain_name}` (\n{_SPARK.columns(_with_folders(table))}\n)\nUSING parquet",
            *([f"PARTITIONED BY ({names})"] if names else []),
            f"LOCATION {_SPARK.text(uri)};",
            *_repair(table),
        ]
    )


def _trino(table: Table) -> str:
    columns = _TRINO.columns(_with_folders(table))
    partitioned = f",\n  partitioned_by = ARRAY[{', '.join(map(_TRINO.text, table.folders))}]" if table.folders else ""
    call = f"\n\nCALL hive.system.sync_partition_metadata('default', '{table.plain_name}', 'ADD');"
    sync = call if table.folders else ""
    return (
        f'CREATE TABLE hive.default."{table.plain_name}" (\n{columns}\n)\nWITH (\n'
        f"  external_location = {_TRINO.text(table.uri)}, format = 'PARQUET'{partitioned}\n);{sync}"
    )


def _bigquery(table: Table) -> str:
    folders = f"WITH PARTITION COLUMNS ({_BIGQUERY.folders(table.folders, 'STRING')})\n" if table.folders else ""
    prefix = f"\n  hive_partition_uri_prefix = {_BIGQUERY.text(table.uri)}," if table.folders else ""
    return (
        f"CREATE EXTERNAL TABLE lake.`{table.plain_name}` (\n{_BIGQUERY.columns(table.columns)}\n)\n{folders}"
        f"OPTIONS (\n  format = 'PARQUET', uris = [{_BIGQUERY.text(table.uri + '/*.parquet')}],{prefix}\n"
        "  enable_list_inference = true\n);"
    )


def _clickhouse(table: Table) -> str:
    folders = f",\n  {_CLICKHOUSE.folders(table.folders, 'String')}" if table.folders else ""
    return (
        f"CREATE TABLE `{table.plain_name}` (\n{_CLICKHOUSE.columns(table.columns)}{folders}\n)\nENGINE = S3(\n"
        f"  {_CLICKHOUSE.text(_pattern(table.https, table))},\n  'key', 'secret', 'Parquet'\n);"
    )


ENGINES: Final[Mapping[str, Callable[[Table], str]]] = {
    "athena": _athena,
    "bigquery": _bigquery,
    "clickhouse": _clickhouse,
    "duckdb": _duckdb,
    "spark": _spark,
    "trino": _trino,
}


def schema(settings: Settings, options: Namespace) -> int:
    """Print the SQL statement for the present columns of the table."""
    if settings.catalog_kind.is_table:
        raise ConfigError("reading the schema", "the table is in the Iceberg catalog", "Engines find its columns there")
    store, location, catalog_table, _ = find_table(settings)
    lake = new_lake(settings, store, location, catalog_table)
    columns = lake.schema.would_be().columns
    if not columns:
        raise ConfigError("reading the schema", f"there is no table in {location.uri} yet", CHECK_THE_NAME)
    columns = {RESCUED_COLUMN: pa.string(), **columns}  # any later file may contain this column
    https, folders = _https(settings, location.uri), lake.spec.columns
    existing = _values(store, location.root) if options.engine == "athena" else {}
    values = {name: existing.get(name, ()) for name in folders}
    name = settings.table
    alike = [each for each in sorted({*options.beside(), name}) if _plain(each).lower() == _plain(name).lower()]
    if alike[1:]:
        print_line(f"-- Engines would read {' and '.join(alike)} as one name, so each name ends in a different hash.")
        name += f"_{crc32(name.encode()):08x}"
    table = Table(name, location.uri, https, columns, values, lake.spec.null_value)
    print_line(ENGINES[options.engine](table))
    return 0


def config_schema(_: Settings, __: Namespace) -> int:
    """Print the settings as JSON Schema."""
    print_line(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    return 0


def _values(store: ObjectStore, root: str) -> Mapping[str, Collection[str]]:
    """Return the values of each folder column in the table's folders."""
    values = defaultdict[str, set[str]](set)
    for item in store.list(f"{root}/"):
        if is_data_file(item.key, root):
            for name, value in zip(*spec_of_key(item.key, root), strict=True):
                values[name].add(value)
    return values


def _https(settings: Settings, uri: str) -> str:
    """Return the table's address for engines that read S3 by HTTP. Addresses of other stores are not changed."""
    target = settings.storage
    if not isinstance(target, S3Target):
        return uri
    parts = urlsplit(uri)
    if target.endpoint_url:
        return f"{target.endpoint_url}/{parts.netloc}{parts.path}"
    return f"https://{parts.netloc}.s3.{target.region}.amazonaws.com{parts.path}"
