"""Which column of an Iceberg table a name means: files have no field ids, so the table's name mapping says it.

An engine that renames a column adds its new name to the mapping, and one that drops a column leaves its names there.
New files have the first name of each column.
"""

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
from pyiceberg.io.pyarrow import pyarrow_to_schema, schema_to_pyarrow
from pyiceberg.schema import index_by_id
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import MappedField, NameMapping, update_mapping
from pyiceberg.types import IcebergType

from app.table.schema import TableSchema

_Mapped = Iterable[MappedField]


def mapping_of(metadata: TableMetadata) -> NameMapping:
    """Returns the table's name mapping, with the columns that are not in it: not every engine adds those."""
    mapping = metadata.name_mapping() or NameMapping([])
    names = {name for each in mapping for name in each.names}
    new = {field.field_id: field for field in metadata.schema().fields if field.name not in names}
    ids = {each.field_id for each in mapping}
    return update_mapping(mapping, new, {-1: [field for key, field in new.items() if key not in ids]})


def fields_of_files(metadata: TableMetadata) -> dict[str, pa.Field | None]:
    """Returns the column of files by each name; ``None`` for a dropped one, and for the name of a partition alone."""
    schema, mapping = metadata.schema(), mapping_of(metadata)
    columns = schema_to_pyarrow(schema, include_field_ids=False)
    kinds = TableSchema.of_others(_renamed(columns, schema.name_mapping, dict(_first_names(mapping)))).columns
    fields = {name: pa.field(name, kind) for name, kind in kinds.items()}
    partitions = {field.name: None for spec in metadata.partition_specs for field in spec.fields}
    mapped = [each for each in mapping if each.names[0] in fields or each.field_id not in schema.field_ids]
    return partitions | {name: fields.get(each.names[0]) for each in mapped for name in each.names}


def type_of(kind: pa.DataType) -> IcebergType:
    """Returns a type without parts as Iceberg has it."""
    mapping = NameMapping.model_validate([{"field-id": 1, "names": ["x"]}])
    return pyarrow_to_schema(pa.schema({"x": kind}), mapping).find_type(1)


def columns_of_table(metadata: TableMetadata, columns: pa.Schema) -> pa.Schema:
    """Returns a file's columns under their names in the table, without dropped ones; new ones as they are.

    Raises:
        ValueError: two of them are the same column.
    """
    names: dict[int | None, str] = {key: field.name for key, field in index_by_id(metadata.schema()).items()}
    return pa.schema(_renamed(columns, mapping_of(metadata), names))


def _first_names(mapped: _Mapped) -> Iterator[tuple[int | None, str]]:
    for each in mapped:
        yield each.field_id, each.names[0]
        yield from _first_names(each.fields)


def _renamed(fields: Iterable[pa.Field], mapped: _Mapped, names: Mapping[int | None, str]) -> list[pa.Field]:
    found: dict[str, pa.Field] = {}
    by_name = {name: each for each in mapped for name in each.names}
    for field in fields:
        known = by_name.get(field.name)
        name = field.name if known is None else names.get(known.field_id)
        if name in found:
            raise ValueError(f"{field.name} is another name of the column {name}")
        if name is not None:
            found[name] = pa.field(name, field.type if known is None else _type(field.type, known.fields, names))
    return list(found.values())


def _type(kind: pa.DataType, mapped: _Mapped, names: Mapping[int | None, str]) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct(_renamed(kind, mapped, names))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_renamed([pa.field("element", kind.value_type)], mapped, names)[0].type)
    return kind
