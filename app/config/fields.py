"""Declares variables: name, default, parser of the text, and the variable without which it has no effect."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar, get_args

from pydantic import BeforeValidator, Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

IN_QUOTES: Final = "the value is in quotes; docker's env files keep them: remove them"

Contradictions = Iterator[tuple[str, str]]

_Value = TypeVar("_Value")
_QUOTES = ("'", '"')
_UTF_8 = re.compile("[^\ud800-\udfff]*")  # the environment has other bytes as surrogates


def env(variable: str, default: Any, *, only_with: str | None = None) -> Any:
    """Declares a field that is read from this variable.

    ``only_with`` is the variable without which this one has no effect, such as ``A``, ``A=x`` or ``A=x or y``.
    """
    return Field(default, validation_alias=variable, json_schema_extra={"only_with": only_with})


def parsed(parser: Callable[[str], Any]) -> BeforeValidator:
    """Parses the variable's text with ``parser``; an unset variable stays ``None``."""
    return BeforeValidator(lambda raw: None if raw is None else parser(raw))


def is_quoted(text: str) -> bool:
    """Whether the text begins and ends with the same quote."""
    return len(text) > 1 and text[0] in _QUOTES and text[-1] == text[0]


def is_secret(field: FieldInfo) -> bool:
    """Whether the variable's value must never be shown."""
    return field.annotation == (SecretStr | None)


def _options(field: FieldInfo) -> list[str]:
    """Returns the words of a ``Literal``, which may be optional."""
    kinds = (field.annotation, *get_args(field.annotation))
    return [word for kind in kinds for word in get_args(kind) if isinstance(word, str)]


class Area(BaseSettings):
    """Variables that belong together. Each area builds on the one before, whose fields its rules may use."""

    model_config = SettingsConfigDict(
        frozen=True,
        hide_input_in_errors=True,
        case_sensitive=True,
        arbitrary_types_allowed=True,  # of pyarrow
        validate_default=True,  # some are the text of a list
    )

    @model_validator(mode="before")
    @classmethod
    def _blank_is_unset(cls, raw: dict[str, str]) -> dict[str, str]:
        return {variable: text.strip() for variable, text in raw.items() if text.strip()}

    @field_validator("*", mode="before")
    @classmethod
    def _is_text(cls, raw: _Value, info: ValidationInfo) -> _Value:
        """Refuses bytes that are not UTF-8: the error of a library that sends them would quote the value, secrets too.

        Refuse a value in quotes; a password may have them, so ``app.config.settings.remarks`` warns of those.
        """
        field = cls.model_fields[str(info.field_name)]
        if isinstance(raw, str) and not _UTF_8.fullmatch(raw):
            raise ValueError("must be text in UTF-8")
        if isinstance(raw, str) and is_quoted(raw) and not is_secret(field):
            raise ValueError(IN_QUOTES)
        return raw

    @field_validator("*", mode="before")
    @classmethod
    def _options_ignoring_case(cls, raw: Any, info: ValidationInfo) -> Any:
        options = _options(cls.model_fields[str(info.field_name)])
        return next((word for word in options if word.lower() == str(raw).lower()), raw)

    def contradictions(self) -> Contradictions:
        """Yields each variable that contradicts others although its own value is right, and the problem.

        A problem names the other variables that it depends on. It does not count if one of those is wrong.
        """
        yield from ()

    def without_effect(self) -> Contradictions:
        """Yields each variable that is set without the one it needs, see ``env``."""
        values = self.by_variable()
        for field in type(self).model_fields.values():
            match field.json_schema_extra:
                case {"only_with": str(needed)}:
                    other, _, options = needed.partition("=")
                    if values[other] is None or (options and values[other] not in options.split(" or ")):
                        yield from self.refuse(f"has no effect without {needed}", str(field.validation_alias))

    def by_variable(self) -> dict[str, Any]:
        """Returns the values by the names of their variables."""
        return {str(field.validation_alias): getattr(self, name) for name, field in type(self).model_fields.items()}

    def refuse(self, problem: str, *variables: str) -> Contradictions:
        """Yields this problem for each of the variables that is set."""
        values = self.by_variable()
        yield from ((variable, problem) for variable in variables if values[variable] is not None)

    def require(self, problem: str, *variables: str) -> Contradictions:
        """Yields this problem for each of the variables that is not set."""
        values = self.by_variable()
        yield from ((variable, problem) for variable in variables if values[variable] is None)


def checked(variable: str, parser: Callable[[str], Any], text: str) -> Contradictions:
    """Yields the variable and the parser's complaint if the parser refuses the text."""
    try:
        parser(text)
    except ValueError as error:
        yield variable, str(error)
