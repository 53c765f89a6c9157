"""Creates the manifest entries of data files for a commit to an Iceberg table.

The connector's files have no field ids, so the table's name mapping assigns names to columns. If an engine renames a
column, the mapping contains the old and the new name. New files use the first name. Names of dropped columns remain.
"""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import pyarrow as iceberg_arrow
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import index_by_id
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import MappedField, NameMapping, update_mapping
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType

from app.model import DataFile
from app.table.schema import TableSchema

logger = logging.getLogger(__name__)

_Mapped = Iterable[MappedField]
_MAPPING: Final = "schema.name-mapping.default"  # the connector's files have no field ids
_RETRIES: Final = "commit.retry.num-retries"
_Plan = tuple[dict[int, iceberg_arrow.StatisticsCollector], dict[str, int]]


def mapping_of(metadata: TableMetadata) -> NameMapping:
    """Return the table's name mapping, and add the columns that an engine has created without a mapping."""
    mapping = metadata.name_mapping() or NameMapping([])
    names = {name for each in mapping for name in each.names}
    new = {field.field_id: field for field in metadata.schema().fields if field.name not in names}
    ids = {each.field_id for each in mapping}
    return update_mapping(mapping, new, {-1: [field for key, field in new.items() if key not in ids]})


def fields_of_files(metadata: TableMetadata) -> dict[str, pa.Field | None]:
    """Return the column of files for each name; ``None`` for a dropped column, or if only a partition has the name."""
    schema, mapping = metadata.schema(), mapping_of(metadata)
    columns = iceberg_arrow.schema_to_pyarrow(schema, include_field_ids=False)
    kinds = TableSchema.of_others(_renamed(columns, schema.name_mapping, dict(_first_names(mapping)))).columns
    fields = {name: pa.field(name, kind) for name, kind in kinds.items()}
    partitions = {field.name: None for spec in metadata.partition_specs for field in spec.fields}
    mapped = [each for each in mapping if each.names[0] in fields or each.field_id not in schema.field_ids]
    return partitions | {name: fields.get(each.names[0]) for each in mapped for name in each.names}


def type_of(kind: pa.DataType) -> IcebergType:
    """Return the Iceberg type that is equal to a primitive Arrow type."""
    mapping = NameMapping.model_validate([{"field-id": 1, "names": ["x"]}])
    return iceberg_arrow.pyarrow_to_schema(pa.schema({"x": kind}), mapping).find_type(1)


def columns_of_table(metadata: TableMetadata, columns: pa.Schema) -> pa.Schema:
    """Rename a file's columns to their names in the table, and omit dropped columns. New columns keep their names.

    Raises:
        ValueError: The file has two names of one column.
    """
    names: dict[int | None, str] = {key: field.name for key, field in index_by_id(metadata.schema()).items()}
    return pa.schema(_renamed(columns, mapping_of(metadata), names))


def _first_names(mapped: _Mapped) -> Iterator[tuple[int | None, str]]:
    for field in mapped:
        yield field.field_id, field.names[0]
        yield from _first_names(field.fields)


def _renamed(fields: Iterable[pa.Field], mapped: _Mapped, names: Mapping[int | None, str]) -> list[pa.Field]:
    renamed: dict[str, pa.Field] = {}
    by_name = {name: each for each in mapped for name in each.names}
    for field in fields:
        column = by_name.get(field.name)
        name = field.name if column is None else names.get(column.field_id)
        if name in renamed:
            raise ValueError(f"{field.name} is another name of the column {name}")
        if name is not None:
            kind = field.type if column is None else _type_in_table(field.type, column.fields, names)
            renamed[name] = pa.field(name, kind)
    return list(renamed.values())


def _type_in_table(kind: pa.DataType, mapped: _Mapped, names: Mapping[int | None, str]) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct(_renamed(kind, mapped, names))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_renamed([pa.field("element", kind.value_type)], mapped, names)[0].type)
    if pa.types.is_map(kind):
        key, value = _renamed([pa.field("key", kind.key_type), pa.field("value", kind.item_type)], mapped, names)
        return pa.map_(key.type, value.type)
    return kind


def prepare(table: Table, spec_id: int) -> None:
    """Change the table's metadata in memory, so that pyiceberg tries one commit with files of this partition spec.

    Otherwise, pyiceberg would repeat a commit without reading the table again. A commit also copies the list of
    snapshots twenty times. Therefore the list in memory keeps only snapshots with a branch or tag.
    """
    metadata = table.metadata
    metadata.properties[_RETRIES] = "0"
    named = {reference.snapshot_id for reference in metadata.refs.values()}
    kept = [each for each in metadata.snapshots if each.snapshot_id in named]
    table.metadata = metadata.model_copy(update={"snapshots": kept, "snapshot_log": [], "default_spec_id": spec_id})


def map_names(transaction: Transaction) -> None:
    """Add missing columns to the table's name mapping."""
    mapping = mapping_of(transaction.table_metadata)
    if mapping != transaction.table_metadata.name_mapping():
        transaction.set_properties({_MAPPING: mapping.model_dump_json()})


def entries(metadata: TableMetadata, files: Iterable[tuple[DataFile, pa.Schema, Record]]) -> Iterator[IcebergFile]:
    """Yield a manifest entry for each file, given with its ``schema_of`` and its values in the default spec."""
    plans: dict[pa.Schema, _Plan] = {}
    for file, arrow, partition in files:
        if arrow not in plans:
            plans[arrow] = _plan(metadata, arrow)
        yield _entry(metadata, plans[arrow], file, partition)


def _plan(metadata: TableMetadata, arrow: pa.Schema) -> _Plan:
    """Return the statistics to collect for a file's columns, and the id of each column. Omit dropped columns."""
    schema = iceberg_arrow.pyarrow_to_schema(arrow, mapping_of(metadata))
    plan = iceberg_arrow.compute_statistics_plan(schema, metadata.properties)
    for field_id in plan.keys() - metadata.schema().field_ids:
        plan[field_id] = replace(plan[field_id], mode=iceberg_arrow.MetricsMode(iceberg_arrow.MetricModeTypes.NONE))
        _warn_of_dropped(plan[field_id].column_name)
    return plan, iceberg_arrow.parquet_path_to_id_mapping(schema)


@cache  # one warning for each name
def _warn_of_dropped(name: str) -> None:
    if "." in name:  # a field in a structure; ``KnownColumns`` logs a warning for dropped columns
        logger.warning("%s was dropped from the table: its values are in new files, where no engine reads them", name)


def _entry(metadata: TableMetadata, plan: _Plan, file: DataFile, partition: Record) -> IcebergFile:
    statistics = iceberg_arrow.data_file_statistics_from_parquet_metadata(file.footer, *plan)
    for field_id, bounds in list(statistics.column_aggregates.items()):
        # Spark may write NaN as the largest value of a column. Readers of Iceberg would then skip the file.
        if any(isinstance(value, float) and math.isnan(value) for value in (bounds.current_min, bounds.current_max)):
            del statistics.column_aggregates[field_id]
    for name in _without_bounds(file.footer):
        statistics.column_aggregates.pop(plan[1][name], None)
    return IcebergFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.uri,
        file_format=FileFormat.PARQUET,
        partition=partition,
        file_size_in_bytes=file.size,
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def _without_bounds(footer: pq.FileMetaData) -> Iterator[str]:
    """Yield the paths of columns without bounds in a row group. Bounds are missing if a value exceeds 4 KB.

    pyiceberg would use the bounds of the other row groups as the bounds of the file.
    """
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)] if footer.num_row_groups > 1 else []
    for index in range(footer.num_columns if groups else 0):
        if footer.schema.column(index).physical_type == "BYTE_ARRAY":
            statistics = [group.column(index).statistics for group in groups]
            if any(each is not None and each.num_values and not each.has_min_max for each in statistics):
                yield footer.schema.column(index).path
