"""Declares the environment variables: a variable's name, default and parser, and the variable that it depends on."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

IN_QUOTES: Final = "the value is in quotes; docker's env files keep them: remove them"

Contradictions = Iterator[tuple[str, str]]

_NOT_UTF_8 = re.compile("[\ud800-\udfff]")  # Python replaces invalid bytes in variables by surrogates


def env(
    variable: str,
    default: Any = None,
    *,
    secret: bool = False,
    only_with: str = "",
    needed_with: str = "",
    deprecated: str | None = None,
) -> Any:
    """Declare a field with the value of a variable. The docstring of the field (Markdown) is the users' description.

    secret: The value is never shown.
    only_with: The variable has no effect without this condition, such as ``A``, ``A=x`` or ``A=x or y``.
    needed_with: Like ``only_with``, and if the condition is true, the variable must be set.
    deprecated: Advice about the setting that replaces this variable. A later version removes the variable.
    """
    extra: Any = {"other": only_with or needed_with, "is_needed": bool(needed_with)}
    return Field(default, validation_alias=variable, repr=not secret, json_schema_extra=extra, deprecated=deprecated)


def is_quoted(text: str) -> bool:
    return len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]


def options(field: FieldInfo) -> list[str]:
    """Return the allowed values of the variable; empty if the variable accepts any text."""
    if field.annotation is bool:
        return ["true", "false"]
    kinds = (field.annotation, *get_args(field.annotation))
    return [word for kind in kinds for word in get_args(kind) if isinstance(word, str)]


class Area(BaseSettings):
    """A group of related variables. The name of the class is the heading of the group in the pages."""

    model_config = SettingsConfigDict(
        frozen=True,
        hide_input_in_errors=True,
        case_sensitive=True,
        arbitrary_types_allowed=True,  # for types of pyarrow
        enable_decoding=False,  # otherwise pydantic expects lists as JSON
        validate_default=False,
        use_attribute_docstrings=True,
        defer_build=True,  # only the schema of Settings is used, not the schemas of the areas
    )

    @model_validator(mode="before")
    @classmethod
    def _blank_is_unset(cls, raw: dict[str, str]) -> dict[str, str]:
        return {variable: text.strip() for variable, text in raw.items() if text.strip()}

    @field_validator("*", mode="before")
    @classmethod
    def _is_text(cls, raw: str, info: ValidationInfo) -> str:
        """Return the text. If the text differs from an allowed value only in upper and lower case, return this value.

        Bytes that are not UTF-8 are refused, because errors of libraries would quote the value of a secret. Values in
        quotes are refused, except secrets: ``app.config.environment.remarks`` only warns of secrets in quotes.
        """
        field = cls.model_fields[str(info.field_name)]
        if _NOT_UTF_8.search(raw):
            raise ValueError("must be text in UTF-8")
        if is_quoted(raw) and field.repr:
            raise ValueError(IN_QUOTES)
        return next((word for word in options(field) if word.lower() == raw.lower()), raw)

    def contradictions(self) -> Contradictions:
        """Yield each variable whose valid value contradicts other variables, with a text about the problem.

        The text names the other variables. If one of the other variables is wrong, the problem is ignored.
        """
        yield from ()

    def incomplete(self) -> Contradictions:
        """Yield the variables that break ``only_with`` or ``needed_with`` of ``env``, with the problem."""
        values = self.by_variable()
        for field in type(self).model_fields.values():
            match field.json_schema_extra:
                case {"other": str(needed), "is_needed": is_needed} if needed:
                    variable, (other, _, choices) = str(field.validation_alias), needed.partition("=")
                    if values[other] in (None, ()) or (choices and values[other] not in choices.split(" or ")):
                        yield from self.refuse(f"has no effect without {needed}", variable)
                    elif is_needed and values[variable] is None:
                        chosen = f"={values[other]}" if choices else ""
                        words = f", to one of {', '.join(options(field))}" if options(field) else ""
                        yield variable, f"must be set with {other}{chosen}{words}"

    def by_variable(self) -> dict[str, Any]:
        return {str(field.validation_alias): getattr(self, name) for name, field in type(self).model_fields.items()}

    def refuse(self, problem: str, *variables: str) -> Contradictions:
        """Yield the problem for each of these variables that is set."""
        yield from ((variable, problem) for variable in variables if self.by_variable()[variable] is not None)


def checked(variable: str, parser: Callable[[str], Any], text: str) -> Contradictions:
    """If the parser refuses the text, yield the variable and the error message."""
    try:
        parser(text)
    except ValueError as error:
        yield variable, str(error)
