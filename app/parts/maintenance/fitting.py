"""Converts columns of a file to the table's types. Values that cannot be converted become JSON in one column."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql import types as t

from app.table.type_names import parts

_MAX_LONG = 2**63 - 1
_JSON = {  # formats with microseconds, which Spark's default formats omit
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@dataclass(frozen=True, slots=True)
class Fitted:
    """A column in the table's type. ``is_misfit`` is true for a value that does not fit; ``None`` if all values fit."""

    value: Column
    is_misfit: Column | None = None


def with_misfits(before: Column, column: str, misfits: Mapping[str, Column]) -> Column:
    """Return the JSON object in ``before``, and add ``misfits``, the values that do not fit, by their columns' names.

    If the object already contains a name, the added name begins with more ``_`` than any other name. If ``before``
    contains a text that is not a JSON object, the text becomes a value with the name ``column``.
    """
    if not misfits:
        return before
    kept = f.trim(before)
    names = f.when(kept.startswith("{") & kept.endswith("}"), f.json_object_keys(kept))
    most = f.array_max(f.transform(names, lambda name: f.length(name) - f.length(f.ltrim(name, f.lit("_")))))
    of_misfits = max(len(name) - len(name.lstrip("_")) for name in misfits)
    prefix = f.repeat(f.lit("_"), f.greatest(most, f.lit(of_misfits)) + 1)

    def member(json: Column) -> Column:
        is_taken = f.array_contains(names, f.json_object_keys(json)[0])
        return f.when(is_taken, f.concat(f.lit('"'), prefix, _inside(json, 2))).otherwise(_inside(json))

    objects = f.array(*(_object(name, value) for name, value in misfits.items()))  # one object needs too deep a tree
    added = f.array_join(f.transform(f.filter(objects, lambda text: text != "{}"), member), ",")
    former = f.when(names.isNull(), _inside(_object(column, before))).when(f.size(names) > 0, _inside(kept))

    def united(added: Column) -> Column:
        both = f.concat_ws(",", f.when(before.isNotNull(), former), added)
        return f.when(added == "", before).otherwise(f.concat(f.lit("{"), both, f.lit("}")))

    return f.transform(f.array(added), united)[0]  # otherwise the tree would contain ``added`` twice


def _object(name: str, value: Column) -> Column:
    """Return a JSON object that contains this value; an empty object if the value is null."""
    return f.to_json(f.struct(value.alias(name)), _JSON)


def _inside(json: Column, characters: int = 1) -> Column:
    """Remove this number of characters at the start of a JSON object's text, and the last character."""
    return f.substring(json, f.lit(characters + 1), f.length(json) - characters - 1)


def is_part(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether Spark can read ``source`` as ``target``: types are equal, but ``source`` may have fewer fields."""
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        indexes = ((field.type, target.get_field_index(field.name)) for field in source)
        return all(index >= 0 and is_part(kind, target.field(index).type) for kind, index in indexes)
    if pa.types.is_nested(source) and source.id == target.id:
        return all(map(is_part, parts(source), parts(target)))
    return bool(source == target)


def absent(target: t.DataType, partition_value: str | None) -> Fitted:
    """Return a column that is missing in the files. Partition columns contain the folder's value."""
    value = f.lit(partition_value).cast("string")
    return Fitted(value.try_cast(target) if isinstance(target, t.AtomicType) else f.lit(None).cast(target))


def fitted(column: Column, source: t.DataType, target: t.DataType, stored: pa.DataType) -> Fitted:
    """Convert a column to the target type. ``stored`` is its Arrow type: Spark's type hides nanosecond timestamps."""
    if isinstance(source, t.LongType) and pa.types.is_timestamp(stored) and stored.unit == "ns":
        return _fitted_ns(column, target)
    if source.simpleString() == target.simpleString():
        return Fitted(column)
    if isinstance(source, t.StructType) and isinstance(target, t.StructType):
        return _fitted_struct(column, source, target, stored)
    if isinstance(source, t.ArrayType) and isinstance(target, t.ArrayType):
        kinds = source.elementType, target.elementType, stored.value_type
        value = f.transform(column, lambda item: fitted(item, *kinds).value)
        return Fitted(value, f.exists(column, lambda item: _is_misfit(fitted(item, *kinds))))
    if isinstance(source, t.MapType) and isinstance(target, t.MapType) and source.keyType == target.keyType:
        kinds = source.valueType, target.valueType, stored.item_type
        value = f.transform_values(column, lambda _, item: fitted(item, *kinds).value)
        return Fitted(value, f.exists(f.map_values(column), lambda item: _is_misfit(fitted(item, *kinds))))
    return _fitted_scalar(column, source, target)


def _fitted_ns(column: Column, target: t.DataType) -> Fitted:
    if not isinstance(target, t.TimestampType | t.TimestampNTZType):
        return Fitted(f.lit(None).cast(target), column.isNotNull())
    micros = f.call_function("div", column, f.lit(1000))  # the operator / would return a double
    return _fitting(f.timestamp_micros(micros).cast(target), column % 1000 != 0)


def _fitted_scalar(column: Column, source: t.DataType, target: t.DataType) -> Fitted:
    if isinstance(target, t.StringType) and not isinstance(source, t.AtomicType):
        return Fitted(f.to_json(column, _JSON))
    if not _is_castable(source, target):
        return Fitted(f.lit(None).cast(target), column.isNotNull())
    value = column.try_cast(target)
    fits = value.try_cast(source) == column
    if isinstance(source, t.BinaryType):
        fits &= f.is_valid_utf8(value)
    for kind, other, number in ((source, target, column), (target, source, value)):
        if isinstance(kind, t.LongType) and isinstance(other, t.DoubleType | t.FloatType):
            fits &= number != _MAX_LONG  # Spark casts 2**63 and larger doubles to this number
    return _fitting(value, column.isNotNull() & ~f.coalesce(fits, f.lit(False)))


def _fitting(value: Column, is_misfit: Column) -> Fitted:
    return Fitted(f.when(~is_misfit, value), is_misfit)


def _fitted_struct(column: Column, source: t.StructType, target: t.StructType, stored: pa.DataType) -> Fitted:
    kinds = {field.name: field.dataType for field in source}
    fields = {
        field.name: fitted(
            column.getField(field.name), kinds[field.name], field.dataType, stored.field(field.name).type
        )
        if field.name in kinds
        else Fitted(f.lit(None).cast(field.dataType))
        for field in target
    }
    value = f.struct(*(field.value.alias(name) for name, field in fields.items()))
    misfits = [field.is_misfit for field in fields.values() if field.is_misfit is not None]
    misfits += (column.getField(name).isNotNull() for name in kinds.keys() - fields.keys())
    # ``greatest`` works like "or", but ignores nulls. "or" of many columns would need too deep a tree.
    is_misfit = f.greatest(f.lit(False), *misfits) if misfits else None
    return Fitted(f.when(column.isNotNull(), value), is_misfit)


def _is_misfit(item: Fitted) -> Column:
    return f.lit(False) if item.is_misfit is None else f.coalesce(item.is_misfit, f.lit(False))


def _is_castable(source: t.DataType, target: t.DataType) -> bool:
    """Return whether a cast between these types keeps the meaning of values."""
    times = t.DateType | t.TimestampType | t.TimestampNTZType
    return isinstance(target, t.StringType) or any(
        isinstance(source, kinds) and isinstance(target, kinds) for kinds in (t.NumericType, times)
    )
