"""Declares variables: name, default, and the parser of the text."""

from collections.abc import Callable
from typing import Any, Final, TypeVar, get_args

from pydantic import BeforeValidator, Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

from app.config import parsers as parse

IN_QUOTES: Final = "the value is in quotes; docker's env files keep them: remove them"

_Value = TypeVar("_Value")
_QUOTES = ("'", '"')


def env(variable: str, default: Any) -> Any:
    """A field that is read from this variable."""
    return Field(default, validation_alias=variable)


def parsed(parser: Callable[[str], Any]) -> BeforeValidator:
    """Parse the variable's text with ``parser``; an unset variable stays ``None``."""
    return BeforeValidator(lambda raw: None if raw is None else parser(raw))


def whole(low: int, high: int | None = None) -> BeforeValidator:
    """A whole number from ``low`` to ``high``, both included."""
    return parsed(parse.whole_number(low, high))


def option(words: Any, fold: Callable[[str], str]) -> BeforeValidator:
    """One of the words of a ``Literal``, after ``fold`` brought the text to their case."""
    return parsed(parse.one_of(get_args(words), fold))


def together(value: _Value, info: ValidationInfo, other: str, variable: str) -> _Value:
    """Return the value, if it and the field ``other``, which is read from ``variable``, are both set or both unset.

    Raises:
        ValueError: one of the two is missing.
    """
    if other not in info.data:
        return value
    if value is None and info.data[other] is not None:
        raise ValueError(f"must be set, because {variable} is")
    if value is not None and info.data[other] is None:
        raise ValueError(f"has no effect without {variable}: set both or none")
    return value


def is_quoted(text: str) -> bool:
    """Whether the text begins and ends with the same quote."""
    return len(text) > 1 and text[0] in _QUOTES and text[-1] == text[0]


def is_secret(field: FieldInfo) -> bool:
    """Whether the variable's value must never be shown."""
    return field.annotation == (SecretStr | None)


class Area(BaseSettings):
    """Variables that belong together. Each area builds on the one before, whose fields its rules may look at.

    A validator that looks at several fields belongs to the one it complains about and sees those declared above it.
    A field that is wrong itself is missing there and is not judged twice.
    """

    model_config = SettingsConfigDict(
        frozen=True,
        hide_input_in_errors=True,
        case_sensitive=True,
        arbitrary_types_allowed=True,  # of pyarrow
        validate_default=True,  # the rules about what must be set look at defaults
    )

    @model_validator(mode="before")
    @classmethod
    def _blank_is_unset(cls, raw: dict[str, str]) -> dict[str, str]:
        return {variable: text.strip() for variable, text in raw.items() if text.strip()}

    @field_validator("*", mode="before")
    @classmethod
    def _no_quotes(cls, raw: _Value, info: ValidationInfo) -> _Value:
        """Refuse a value in quotes; a password may have them, so ``app.config.settings.remarks`` warns of those."""
        field = cls.model_fields[str(info.field_name)]
        if isinstance(raw, str) and is_quoted(raw) and not is_secret(field):
            raise ValueError(IN_QUOTES)
        return raw
