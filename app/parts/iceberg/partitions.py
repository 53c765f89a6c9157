"""Partitions of an Iceberg table: the folders of files, and the values in its metadata.

The values of partitions by text columns come from the records, as in plain folders. The connector calculates all other
values from the columns of the file, so that no row can be in the file of another partition.
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
_HASH: Final = 40  # digits of a hash in a folder's name; values in names are shorter, so none looks like a hash
_LONGEST_NAME: Final = 200  # of at most 255 bytes


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A partition of a table.

    Attributes:
        name: Name of the folders. It does not depend on the name in the catalog, which an engine may reuse.
        column: Column of the files.
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
        """The partition as in ``HIVE_COLUMNS``."""
        function, _, number = str(self.transform).rstrip("]").partition("[")
        if function == transforms.IDENTITY:
            return self.name
        return f"{function}({number},{self.column.name})" if number else f"{function}({self.column.name})"

    @property
    def is_text_column(self) -> bool:
        return isinstance(self.transform, transforms.IdentityTransform) and isinstance(self.kind, t.StringType)

    def texts(self, rows: pa.Table) -> pa.Array:
        """Return the value of each row as text.

        Raises:
            FatalError: the column has another type in the table.
        """
        if self.column.name not in rows.column_names:
            return pa.repeat(HIVE_NULL, len(rows))
        values = rows[self.column.name].combine_chunks()
        if not _fits(values.type, self.column.type):
            raise FatalError(
                f"partitioning by {self.words}",
                f"the type in the records is {values.type}, and the type of the table's column is {self.column.type}",
                "Somebody has added this column: drop it in the table, or see "
                f"{DOCUMENTS}/iceberg.md#columns-that-your-engines-change",
            )
        encoded = _to_numbers(values, self.transform).dictionary_encode()
        apply = self.transform.transform(self.kind)
        texts = [HIVE_NULL if each is None else _text(apply(each)) for each in encoded.dictionary.to_pylist()]
        return pc.fill_null(pa.array(texts, pa.string()).take(encoded.indices), HIVE_NULL)

    def value(self, text: str) -> Any:
        """Return the value in the metadata for this text."""
        kind = self.transform.result_type(self.kind)
        if self.is_text_column or text == HIVE_NULL or not isinstance(kind, t.StringType):
            assert isinstance(kind, t.PrimitiveType)  # noqa: S101 - results have no parts
            return _wrapped(partition_to_py(kind, text), kind)
        return text[1:]

    def folder(self, text: str) -> str:
        """Return the text in the name of a folder: Iceberg's text, or its hash if the text cannot be in a name."""
        if text == HIVE_NULL:
            return text
        try:
            shown: str = self.transform.to_human_string(self.kind, self.value(text))
        except (OverflowError, ValueError):  # a time after the year 9999
            shown = text
        if shown == HIVE_NULL or len(escape(shown).encode()) >= _HASH:
            return hashlib.sha256(text.encode()).hexdigest()[:_HASH]
        return shown


def folder_name(transform: str, column: str) -> str:
    """Return the name of the folders, such as ``at_day`` or ``id_bucket_16``, for a transform in Iceberg's notation."""
    return column if transform == transforms.IDENTITY else f"{column}_{transform.replace('[', '_').rstrip(']')}"


def is_written(transform: transforms.Transform[Any, Any], kind: t.IcebergType) -> bool:
    """Whether the connector can write files of a partition by this transform of a column of this type."""
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
    """Return the table's partitions.

    Raises:
        ValueError: two have the same folders, a folder's name is too long, or files have no column of a partition.
    """
    fields = list(_partitions(metadata, metadata.spec()))
    names = [field.name for field in fields]
    if len({*names}) < len(names):
        raise ValueError(f"has two partitions whose folders would be {max(names, key=names.count)}=…")
    sizes = [len(escape(field.name).encode()) for field in fields if not field.is_text_column]
    if max(sizes, default=0) > _LONGEST_NAME or sum(size + _HASH for size in sizes) > COMPUTED_BYTES:
        raise ValueError("has partitions whose folders would have too long names")
    return fields


def spec_of(metadata: TableMetadata, folders: Collection[str]) -> PartitionSpec | None:
    """Return the newest spec whose partitions all have a folder column here.

    This is an older spec if an engine has changed the table's partitions while the file was written.
    """
    for spec in (metadata.spec(), *reversed(metadata.partition_specs)):
        try:
            if all(each.name in folders for each in _partitions(metadata, spec)):
                return spec
        except ValueError:  # a column of an older spec was dropped
            continue
    return None


def new_record(metadata: TableMetadata) -> Callable[[Mapping[str, str]], Record]:
    """Return a function from a file's folder values to its values in the default spec."""
    active = _partitions(metadata, metadata.spec())
    fields = [
        None if isinstance(field.transform, transforms.VoidTransform) else next(active)
        for field in metadata.spec().fields
    ]
    return lambda values: Record(*(field and field.value(values[field.name]) for field in fields))


def _partitions(metadata: TableMetadata, spec: PartitionSpec) -> Iterator[PartitionField]:
    schema, fields = metadata.schema(), fields_of_files(metadata)
    columns = {field.field_id: field for field in schema.fields}
    for field in spec.fields:
        if isinstance(field.transform, transforms.VoidTransform):
            continue
        source = columns.get(field.source_id)
        column = fields.get(source.name) if source else None
        if source is None or column is None:
            raise ValueError(f"is partitioned by {field.name}, whose source is not a column of the files")
        yield PartitionField(field.transform, column, source.field_type)


def _fits(values: pa.DataType, column: pa.DataType) -> bool:
    """Whether these values fit into the column. The commit adds digits to a decimal column if they are needed."""
    if pa.types.is_decimal(values) and pa.types.is_decimal(column):
        return bool(values.scale == column.scale)
    return bool(values == column or (pa.types.is_integer(values) and pa.types.is_integer(column)))


def _text(value: Any) -> str:
    """Return a value other than null as text. ``=`` distinguishes texts from null."""
    return f"={value}" if isinstance(value, str) else str(value).lower()


def _wrapped(value: Any, kind: t.IcebergType) -> Any:
    """Return a whole number in the bits of its type, as in Java, where the smallest number wraps if rounded down."""
    if not isinstance(kind, t.IntegerType | t.LongType) or value is None:
        return value
    half = 2 ** (31 if isinstance(kind, t.IntegerType) else 63)
    return (value + half) % (2 * half) - half


def _to_numbers(values: pa.Array, transform: transforms.Transform[Any, Any]) -> pa.Array:
    """Return times as numbers. Times of an hour become one number, so that few numbers are different."""
    if pa.types.is_date32(values.type):
        return values.view(pa.int32())
    if not pa.types.is_timestamp(values.type):
        return values
    if isinstance(transform, transforms.TimeTransform):  # without the zone, which would need a database of zones
        values = pc.floor_temporal(values.view(pa.timestamp("us")), unit="hour")
    return values.view(pa.int64())
