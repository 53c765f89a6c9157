"""Calculates the partitions of an Iceberg table: the folders of files, and the partition values in the metadata.

If a table is partitioned by a text column, the partition value is the text in the record, as in Hive folders. The
connector calculates all other values from the columns of the file, so that each row is in a file of its partition.
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
_HASH: Final = 40  # digits of a hash in a folder's name; a value in a name is shorter, so it cannot equal a hash
_LONGEST_NAME: Final = 200  # bytes of a partition's name; file systems limit a folder's name to 255 bytes


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A partition of a table.

    Attributes:
        name: The name in folders. The name in the catalog is not used, because engines may reuse such names.
        column: The column of the files that contains the values.
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
        """The partition in the notation of ``HIVE_COLUMNS``, for example ``day(at)``."""
        function, _, number = str(self.transform).rstrip("]").partition("[")
        if function == transforms.IDENTITY:
            return self.name
        return f"{function}({number},{self.column.name})" if number else f"{function}({self.column.name})"

    @property
    def is_text_column(self) -> bool:
        return isinstance(self.transform, transforms.IdentityTransform) and isinstance(self.kind, t.StringType)

    def texts(self, rows: pa.Table) -> pa.Array:
        """Return the partition value of each row as text.

        Raises:
            FatalError: The column's type in the rows differs from the type in the table.
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
        """Convert a text of ``texts`` to the value in the metadata."""
        kind = self.transform.result_type(self.kind)
        if self.is_text_column or text == HIVE_NULL or not isinstance(kind, t.StringType):
            assert isinstance(kind, t.PrimitiveType)  # noqa: S101 - results have no parts
            return _wrapped(partition_to_py(kind, text), kind)
        return text[1:]

    def folder(self, text: str) -> str:
        """Return the value in a folder's name: Iceberg's text, or a hash if the text is too long for a name."""
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
    """Return the partition's name in folders, for example ``id_bucket_16`` for ``bucket[16]`` of ``id``."""
    return column if transform == transforms.IDENTITY else f"{column}_{transform.replace('[', '_').rstrip(']')}"


def is_written(transform: transforms.Transform[Any, Any], kind: t.IcebergType) -> bool:
    """Return whether the connector supports partitions by this transform of a column of this type."""
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
        ValueError: Two partitions have the same name, a name is too long, or a partition's column is not in the files.
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
    """Return the newest partition spec whose partitions are all in ``folders``; ``None`` if there is none.

    If an engine has changed the table's partitions while the file was written, an older spec is returned.
    """
    for spec in (metadata.spec(), *reversed(metadata.partition_specs)):
        try:
            if all(each.name in folders for each in _partitions(metadata, spec)):
                return spec
        except ValueError:  # a column of an older spec was dropped
            continue
    return None


def new_record(metadata: TableMetadata) -> Callable[[Mapping[str, str]], Record]:
    """Return a function that converts a file's folder values to the partition values in the default spec."""
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
    """Return whether values of this type fit into the column. If necessary, the commit widens a decimal column."""
    if pa.types.is_decimal(values) and pa.types.is_decimal(column):
        return bool(values.scale == column.scale)
    return bool(values == column or (pa.types.is_integer(values) and pa.types.is_integer(column)))


def _text(value: Any) -> str:
    """Return a value as text. A string begins with ``=``, so that no string looks like a null."""
    return f"={value}" if isinstance(value, str) else str(value).lower()


def _wrapped(value: Any, kind: t.IcebergType) -> Any:
    """Wrap an integer that is out of the range of its type, as Java does. ``truncate`` may return such numbers."""
    if not isinstance(kind, t.IntegerType | t.LongType) or value is None:
        return value
    half = 2 ** (31 if isinstance(kind, t.IntegerType) else 63)
    return (value + half) % (2 * half) - half


def _to_numbers(values: pa.Array, transform: transforms.Transform[Any, Any]) -> pa.Array:
    """Convert times to numbers. All times within an hour become one number, so few distinct numbers remain."""
    if pa.types.is_date32(values.type):
        return values.view(pa.int32())
    if not pa.types.is_timestamp(values.type):
        return values
    if isinstance(transform, transforms.TimeTransform):  # without the zone, which would need a zone database
        values = pc.floor_temporal(values.view(pa.timestamp("us")), unit="hour")
    return values.view(pa.int64())
