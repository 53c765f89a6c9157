"""Describes the settings as JSON Schema. Editors, charts and pipelines check settings with this schema."""

from typing import Any, get_args

from pydantic.fields import FieldInfo

from app.config.fields import options
from app.config.settings import VARIABLES

_NUMBERS = {int: ("integer", "^-?[0-9]+$"), float: ("number", "^[0-9.eE+-]+$")}


def json_schema() -> dict[str, Any]:
    """Return the schema of an object with all variables that users set. Numbers and flags may also be texts.

    Other names are allowed, because an environment contains many other variables.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of the Quix TS Datalake Sink",
        "type": "object",
        "properties": {name: _property(field) for name, field in VARIABLES.items() if not name.startswith("Quix__")},
    }


def shown_default(field: FieldInfo) -> str:
    """Return the default in the form that users write. Without a default, return an empty text."""
    default = field.default
    if default in (None, (), {}):
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)


def _property(field: FieldInfo) -> dict[str, Any]:
    schema: dict[str, Any] = {"description": " ".join((field.description or "").split())}
    words = options(field)
    if field.annotation is bool:
        schema["enum"] = [True, False, *words]
    elif words:
        schema["enum"] = words
    else:
        kinds = [] if isinstance(field.default, str) else [field.annotation, *get_args(field.annotation)]  # not 512m
        schema["type"] = "string"
        for number, pattern in (_NUMBERS[kind] for kind in kinds if kind in _NUMBERS):
            schema |= {"type": [number, "string"], "pattern": pattern}
    if default := shown_default(field):
        schema["default"] = default
    if not field.repr:
        schema["writeOnly"] = True
    return schema
