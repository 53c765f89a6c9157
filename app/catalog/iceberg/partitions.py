"""Partitions of an Iceberg table: the folders of files, and the values in its metadata.

Partitions that are text columns come from the records, as those of plain folders do. All others are computed from the
columns of the file, so that no row can be in the file of another partition.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import partition_to_py
from pyiceberg.io.fileformat import DataFileStatistics
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from app.catalog.iceberg.columns import fields_of_files
from app.table.catalog_table import Derivation
from app.table.null_folder import HIVE_NULL

_TIMES: Final = (YearTransform, MonthTransform, DayTransform, HourTransform)
_WHOLE: Final = (IntegerType, LongType, DecimalType)
_AS_THEY_ARE: Final = (*_WHOLE, StringType, BooleanType, DateType, TimestampType, TimestamptzType)
_LONGEST: Final = 50  # characters of a text in the name of a folder: it may have 255 bytes


def is_written(transform: Transform[Any, Any], kind: IcebergType) -> bool:
    """Whether files can be written for this partition."""
    match transform:
        case VoidTransform():
            return True
        case IdentityTransform():
            return isinstance(kind, _AS_THEY_ARE)
        case TruncateTransform():
            return isinstance(kind, _WHOLE) or (isinstance(kind, StringType) and transform.width <= _LONGEST)
        case BucketTransform() | YearTransform() | MonthTransform() | DayTransform() | HourTransform():
            return transform.can_transform(kind)
    return False


def text_columns(metadata: TableMetadata) -> tuple[str, ...]:
    """Returns the partitions that are text columns, by their names in files."""
    schema = metadata.schema()
    return tuple(name for name, field in _folders(metadata, metadata.spec()) if _is_text(field, schema))


def derivations(metadata: TableMetadata) -> Mapping[str, Derivation]:
    """Returns how to compute the others, by the names of their folders."""
    schema, fields = metadata.schema(), fields_of_files(metadata)
    found = {}
    for name, field in _folders(metadata, metadata.spec()):
        column = fields[schema.find_field(field.source_id).name]
        if column is not None and not _is_text(field, schema):
            found[name] = _derivation(field.transform, schema.find_type(field.source_id), column.name)
    return found


def in_words(metadata: TableMetadata) -> tuple[str, ...]:
    """Returns the partitions as ``HIVE_COLUMNS`` has them."""
    schema = metadata.schema()
    words = []
    for name, field in _folders(metadata, metadata.spec()):
        column = schema.find_field(field.source_id).name
        match field.transform:
            case IdentityTransform():
                words.append(name if _is_text(field, schema) else column)
            case BucketTransform(num_buckets=number) | TruncateTransform(width=number):
                words.append(f"{str(field.transform).partition('[')[0]}({number},{column})")
            case _:
                words.append(f"{field.transform}({column})")
    return tuple(words)


def spec_of(metadata: TableMetadata, values: Mapping[str, str]) -> PartitionSpec | None:
    """Returns the newest spec of which a file with these folders has one value each.

    It is not the newest of all if an engine has changed the table's partitions while the file was written.
    """
    for spec in (metadata.spec(), *reversed(metadata.partition_specs)):
        try:
            if all(name in values for name, _ in _folders(metadata, spec)):
                return spec
        except ValueError:  # a column of a former one was dropped
            continue
    return None


def partition_of(
    spec: PartitionSpec, schema: Schema, statistics: DataFileStatistics, values: Mapping[str, str]
) -> Record:
    """Returns a file's values: from its bounds or, where these do not tell, from its folders."""
    return Record(*(_value(field, schema, statistics, values) for field in spec.fields))


def _value(field: PartitionField, schema: Schema, statistics: DataFileStatistics, values: Mapping[str, str]) -> Any:
    if isinstance(field.transform, BucketTransform | TruncateTransform):
        kind = field.transform.result_type(schema.find_type(field.source_id))
        return partition_to_py(kind, values[field.name])  # type: ignore[arg-type]  # results are primitive
    return statistics.partition(PartitionSpec(field), schema)[0]


def _folders(metadata: TableMetadata, spec: PartitionSpec) -> Iterator[tuple[str, PartitionField]]:
    """Yields the names of the folders, and the fields that they are of."""
    schema, fields = metadata.schema(), fields_of_files(metadata)
    for field in spec.fields:
        column = fields.get(schema.find_field(field.source_id).name)
        if not isinstance(field.transform, VoidTransform):
            yield column.name if column is not None and _is_text(field, schema) else field.name, field


def _is_text(field: PartitionField, schema: Schema) -> bool:
    return isinstance(field.transform, IdentityTransform) and schema.find_type(field.source_id) == StringType()


def _derivation(transform: Transform[Any, Any], kind: IcebergType, column: str) -> Derivation:
    apply: Callable[[Any], Any] = transform.transform(kind)

    def text(value: Any) -> str:
        return HIVE_NULL if value is None else transform.to_human_string(kind, apply(value))

    def texts(rows: pa.Table) -> pa.Array:
        if column not in rows.column_names:
            return pa.repeat(HIVE_NULL, len(rows))
        encoded = _as_iceberg_has(rows[column].combine_chunks(), transform).dictionary_encode()
        shown = pa.array(map(text, encoded.dictionary.to_pylist()), pa.string())
        return pc.fill_null(shown.take(encoded.indices), HIVE_NULL)

    return texts


def _as_iceberg_has(values: pa.Array, transform: Transform[Any, Any]) -> pa.Array:
    """Returns times as numbers, those of an hour as one: so few of them are different."""
    if pa.types.is_date32(values.type):
        return values.view(pa.int32())
    if not pa.types.is_timestamp(values.type):
        return values
    if isinstance(transform, _TIMES):  # without its zone, which would need a database of zones
        values = pc.floor_temporal(values.view(pa.timestamp("us")), unit="hour")
    return values.view(pa.int64())
