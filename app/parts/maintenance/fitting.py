"""Fits columns of a file into the types of the table, and keeps the values that do not fit as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql import types as t

_MAX_LONG = 2**63 - 1
_JSON = {  # by default without microseconds
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@dataclass(frozen=True, slots=True)
class Fitted:
    """A column in the table's type, and where that does not hold its value; ``None`` where it always does."""

    value: Column
    is_misfit: Column | None = None


def with_misfits(before: Column, column: str, misfits: Mapping[str, Column]) -> Column:
    """Returns the JSON object in ``before``, with the values that do not fit.

    A name that the object has already gets ``_`` in front, more of them than any other name begins with. Any other text
    in ``before``, which another program has written, becomes one of the values, by the name of its ``column``.
    """
    if not misfits:
        return before
    kept = f.trim(before)
    names = f.when(kept.startswith("{") & kept.endswith("}"), f.json_object_keys(kept))
    most = f.array_max(f.transform(names, lambda name: f.length(name) - f.length(f.ltrim(name, f.lit("_")))))
    of_misfits = max(len(name) - len(name.lstrip("_")) for name in misfits)
    prefix = f.repeat(f.lit("_"), f.greatest(most, f.lit(of_misfits)) + 1)

    def member(alone: Column) -> Column:
        is_taken = f.array_contains(names, f.json_object_keys(alone)[0])
        return f.when(is_taken, f.concat(f.lit('"'), prefix, _inside(alone, 2))).otherwise(_inside(alone))

    alone = f.array(*(_object(name, value) for name, value in misfits.items()))  # one tree of all would be too deep
    added = f.array_join(f.transform(f.filter(alone, lambda each: each != "{}"), member), ",")
    former = f.when(names.isNull(), _inside(_object(column, before))).when(f.size(names) > 0, _inside(kept))

    def united(added: Column) -> Column:
        both = f.concat_ws(",", f.when(before.isNotNull(), former), added)
        return f.when(added == "", before).otherwise(f.concat(f.lit("{"), both, f.lit("}")))

    return f.transform(f.array(added), united)[0]  # else the tree would have all of it twice


def _object(name: str, value: Column) -> Column:
    """Writes a JSON object of this value; an empty one for null."""
    return f.to_json(f.struct(value.alias(name)), _JSON)


def _inside(json: Column, characters: int = 1) -> Column:
    """Returns the text of an object without its braces, or without more characters of its beginning."""
    return f.substring(json, f.lit(characters + 1), f.length(json) - characters - 1)


def is_part(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether the type is the wanted one but for fields that it lacks, which Spark then reads as nulls."""
    if pa.types.is_struct(found) and pa.types.is_struct(wanted):
        indexes = ((field.type, wanted.get_field_index(field.name)) for field in found)
        return all(index >= 0 and is_part(kind, wanted.field(index).type) for kind, index in indexes)
    if pa.types.is_list(found) and pa.types.is_list(wanted):
        return is_part(found.value_type, wanted.value_type)
    return bool(found == wanted)


def absent(wanted: t.DataType, partition_value: str | None) -> Fitted:
    """Makes a column that the files lack. Where it is the folder's too, other files have the folder's value in it."""
    value = f.lit(partition_value).cast("string")
    return Fitted(value.try_cast(wanted) if isinstance(wanted, t.AtomicType) else f.lit(None).cast(wanted))


def fitted(column: Column, found: t.DataType, wanted: t.DataType, stored: pa.DataType) -> Fitted:
    """Fits a column into the wanted type; Spark reads nanoseconds as numbers, so ``stored`` has the type by Arrow."""
    if isinstance(found, t.LongType) and pa.types.is_timestamp(stored) and stored.unit == "ns":
        return _fitted_ns(column, wanted)
    if found.simpleString() == wanted.simpleString():
        return Fitted(column)
    if isinstance(found, t.StructType) and isinstance(wanted, t.StructType):
        return _fitted_struct(column, found, wanted, stored)
    if isinstance(found, t.ArrayType) and isinstance(wanted, t.ArrayType):
        kinds = found.elementType, wanted.elementType, stored.value_type
        value = f.transform(column, lambda item: fitted(item, *kinds).value)
        return Fitted(value, f.exists(column, lambda item: _is_misfit(fitted(item, *kinds))))
    return _fitted_scalar(column, found, wanted)


def _fitted_ns(column: Column, wanted: t.DataType) -> Fitted:
    if not isinstance(wanted, t.TimestampType | t.TimestampNTZType):
        return Fitted(f.lit(None).cast(wanted), column.isNotNull())
    micros = f.call_function("div", column, f.lit(1000))  # the quotient of / is a double
    return _fitting(f.timestamp_micros(micros).cast(wanted), column % 1000 != 0)


def _fitted_scalar(column: Column, found: t.DataType, wanted: t.DataType) -> Fitted:
    if isinstance(wanted, t.StringType) and not isinstance(found, t.AtomicType):
        return Fitted(f.to_json(column, _JSON))
    if not _is_castable(found, wanted):
        return Fitted(f.lit(None).cast(wanted), column.isNotNull())
    value = column.try_cast(wanted)
    fits = value.try_cast(found) == column
    if isinstance(found, t.BinaryType):
        fits &= f.is_valid_utf8(value)
    for one, other, whole in ((found, wanted, column), (wanted, found, value)):
        if isinstance(one, t.LongType) and isinstance(other, t.DoubleType | t.FloatType):
            fits &= whole != _MAX_LONG  # casts make it of 2**63 and beyond, and it is no double itself
    return _fitting(value, column.isNotNull() & ~f.coalesce(fits, f.lit(False)))


def _fitting(value: Column, is_misfit: Column) -> Fitted:
    return Fitted(f.when(~is_misfit, value), is_misfit)


def _fitted_struct(column: Column, found: t.StructType, wanted: t.StructType, stored: pa.DataType) -> Fitted:
    kinds = {field.name: field.dataType for field in found}
    fields = {
        field.name: fitted(
            column.getField(field.name), kinds[field.name], field.dataType, stored.field(field.name).type
        )
        if field.name in kinds
        else Fitted(f.lit(None).cast(field.dataType))
        for field in wanted
    }
    value = f.struct(*(each.value.alias(name) for name, each in fields.items()))
    misfits = [each.is_misfit for each in fields.values() if each.is_misfit is not None]
    misfits += (column.getField(name).isNotNull() for name in kinds.keys() - fields.keys())
    # As "or", without nulls; that of many would be too deep a tree.
    is_misfit = f.greatest(f.lit(False), *misfits) if misfits else None
    return Fitted(f.when(column.isNotNull(), value), is_misfit)


def _is_misfit(each: Fitted) -> Column:
    return f.lit(False) if each.is_misfit is None else f.coalesce(each.is_misfit, f.lit(False))


def _is_castable(found: t.DataType, wanted: t.DataType) -> bool:
    """Whether values of the one type mean the same in the other one."""
    times = t.DateType | t.TimestampType | t.TimestampNTZType
    return isinstance(wanted, t.StringType) or any(
        isinstance(found, kinds) and isinstance(wanted, kinds) for kinds in (t.NumericType, times)
    )
