"""Partitions of an Iceberg table: the folders of files, and the values in its metadata.

Partitions that are text columns come from the records, as those of plain folders do. All others are computed from the
columns of the file, so that no row can be in the file of another partition.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import transforms
from pyiceberg import types as t
from pyiceberg.conversions import partition_to_py
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record

from app import DOCUMENTS
from app.errors import FatalError
from app.parts.iceberg.entries import fields_of_files
from app.table.layout import COMPUTED_BYTES, HIVE_NULL, escape

_EXACT: Final = (t.IntegerType, t.LongType, t.DecimalType, t.StringType, t.DateType, t.TimestampType, t.TimestamptzType)
_HASH: Final = 40  # digits in the name of a folder, where a value has fewer bytes: no value looks like a hash
_LONGEST_NAME: Final = 200  # bytes, of 255


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A partition of a table.

    Attributes:
        name: of its folders. It does not depend on the name in the catalog, which an engine may give to another one.
        column: of the files.
    """

    transform: transforms.Transform[Any, Any]
    column: pa.Field
    kind: t.IcebergType

    @property
    def name(self) -> str:
        return folder_name(str(self.transform), self.column.name)

    @property
    def source(self) -> str:
        return str(self.column.name)

    @property
    def words(self) -> str:
        """As in ``HIVE_COLUMNS``."""
        made, _, number = str(self.transform).rstrip("]").partition("[")
        if made == transforms.IDENTITY:
            return self.name
        return f"{made}({number},{self.column.name})" if number else f"{made}({self.column.name})"

    @property
    def is_text_column(self) -> bool:
        return isinstance(self.transform, transforms.IdentityTransform) and isinstance(self.kind, t.StringType)

    def texts(self, rows: pa.Table) -> pa.Array:
        """Returns the value of each row as text.

        Raises:
            FatalError: the column has another type in the table.
        """
        if self.column.name not in rows.column_names:
            return pa.repeat(HIVE_NULL, len(rows))
        values = rows[self.column.name].combine_chunks()
        if not _fits(values.type, self.column.type):
            raise FatalError(
                f"partitioning by {self.words}",
                f"the records have {values.type}, and the column of the table has {self.column.type}",
                "Somebody has added such a column: drop it in the table, or see "
                f"{DOCUMENTS}/iceberg.md#columns-that-your-engines-change",
            )
        encoded = _as_iceberg_has(values, self.transform).dictionary_encode()
        apply = self.transform.transform(self.kind)
        texts = [HIVE_NULL if each is None else _text(apply(each)) for each in encoded.dictionary.to_pylist()]
        return pc.fill_null(pa.array(texts, pa.string()).take(encoded.indices), HIVE_NULL)

    def value(self, text: str) -> Any:
        """Returns the value in the metadata that this text stands for."""
        kind = self.transform.result_type(self.kind)
        if self.is_text_column or text == HIVE_NULL or not isinstance(kind, t.StringType):
            assert isinstance(kind, t.PrimitiveType)  # noqa: S101 - results have no parts
            return _wrapped(partition_to_py(kind, text), kind)
        return text[1:]

    def folder(self, text: str) -> str:
        """Returns the text in the name of a folder: that of Iceberg, or a hash of it where it cannot be a folder's."""
        if text == HIVE_NULL:
            return text
        try:
            shown: str = self.transform.to_human_string(self.kind, self.value(text))
        except (OverflowError, ValueError):  # a time beyond the year 9999
            shown = text
        if shown == HIVE_NULL or len(escape(shown).encode()) >= _HASH:
            return hashlib.sha256(text.encode()).hexdigest()[:_HASH]
        return shown


def folder_name(transform: str, column: str) -> str:
    """Returns the name of the folders, as ``at_day`` or ``id_bucket_16``; the transform is in the words of Iceberg."""
    return column if transform == transforms.IDENTITY else f"{column}_{transform.replace('[', '_').rstrip(']')}"


def is_written(transform: transforms.Transform[Any, Any], kind: t.IcebergType) -> bool:
    """Whether files can be written for a partition by this transform of a column of this type."""
    match transform:
        case transforms.IdentityTransform():
            return isinstance(kind, (*_EXACT, t.BooleanType))
        case transforms.BucketTransform():
            return isinstance(kind, (*_EXACT, t.BinaryType))
        case transforms.TruncateTransform():
            return isinstance(kind, t.IntegerType | t.LongType | t.StringType)
        case transforms.TimeTransform():
            return transform.can_transform(kind)
    return False


def partitions(metadata: TableMetadata) -> list[PartitionField]:
    """Returns the table's partitions.

    Raises:
        ValueError: some cannot be told apart by their folders, or have no column of files.
    """
    found = list(_partitions(metadata, metadata.spec()))
    names = [each.name for each in found]
    if len({*names}) < len(names):
        raise ValueError(f"has two partitions whose folders would be {max(names, key=names.count)}=…")
    sizes = [len(escape(each.name).encode()) for each in found if not each.is_text_column]
    if max(sizes, default=0) > _LONGEST_NAME or sum(size + _HASH for size in sizes) > COMPUTED_BYTES:
        raise ValueError("has partitions whose folders would have too long names")
    return found


def spec_of(metadata: TableMetadata, folders: Collection[str]) -> PartitionSpec | None:
    """Returns the newest spec of which a file with these folder columns has one value each.

    It is not the newest of all if an engine has changed the table's partitions while the file was written.
    """
    for spec in (metadata.spec(), *reversed(metadata.partition_specs)):
        try:
            if all(each.name in folders for each in _partitions(metadata, spec)):
                return spec
        except ValueError:  # a column of a former one was dropped
            continue
    return None


def new_record(metadata: TableMetadata) -> Callable[[Mapping[str, str]], Record]:
    """Returns what makes a file's values in the default spec of those of its folders."""
    found = _partitions(metadata, metadata.spec())
    made = [
        None if isinstance(field.transform, transforms.VoidTransform) else next(found)
        for field in metadata.spec().fields
    ]
    return lambda values: Record(*(each and each.value(values[each.name]) for each in made))


def _partitions(metadata: TableMetadata, spec: PartitionSpec) -> Iterator[PartitionField]:
    schema, fields = metadata.schema(), fields_of_files(metadata)
    columns = {field.field_id: field for field in schema.fields}
    for field in spec.fields:
        if isinstance(field.transform, transforms.VoidTransform):
            continue
        its = columns.get(field.source_id)
        column = fields.get(its.name) if its else None
        if its is None or column is None:
            raise ValueError(f"is partitioned by {field.name}, whose source is no column of its files")
        yield PartitionField(field.transform, column, its.field_type)


def _fits(values: pa.DataType, column: pa.DataType) -> bool:
    """Whether these values can be in the column: the commit gives it more digits if they need some."""
    if pa.types.is_decimal(values) and pa.types.is_decimal(column):
        return bool(values.scale == column.scale)
    return bool(values == column or (pa.types.is_integer(values) and pa.types.is_integer(column)))


def _text(value: Any) -> str:
    """Returns a value that is not null as text; that of a text is not the one of null."""
    return f"={value}" if isinstance(value, str) else str(value).lower()


def _wrapped(value: Any, kind: t.IcebergType) -> Any:
    """Returns what a whole number becomes in the bits of its type, as Java has it: the smallest one rounded down."""
    if not isinstance(kind, t.IntegerType | t.LongType) or value is None:
        return value
    half = 2 ** (31 if isinstance(kind, t.IntegerType) else 63)
    return (value + half) % (2 * half) - half


def _as_iceberg_has(values: pa.Array, transform: transforms.Transform[Any, Any]) -> pa.Array:
    """Returns times as numbers, those of an hour as one: so few of them are different."""
    if pa.types.is_date32(values.type):
        return values.view(pa.int32())
    if not pa.types.is_timestamp(values.type):
        return values
    if isinstance(transform, transforms.TimeTransform):  # without its zone, which would need a database of zones
        values = pc.floor_temporal(values.view(pa.timestamp("us")), unit="hour")
    return values.view(pa.int64())
