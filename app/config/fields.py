"""Declares variables: name, default, parser of the text, and the variable that it depends on."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

IN_QUOTES: Final = "the value is in quotes; docker's env files keep them: remove them"

Contradictions = Iterator[tuple[str, str]]

_NOT_UTF_8 = re.compile("[\ud800-\udfff]")  # in the environment, other bytes are surrogates


def env(
    variable: str,
    default: Any = None,
    *,
    secret: bool = False,
    only_with: str = "",
    needed_with: str = "",
    deprecated: str | None = None,
) -> Any:
    """Declare a field with the value of this variable. The value of a ``secret`` variable is never shown.

    The text below the field, in Markdown, is its description for users, in the pages and the form. Without the variable
    ``only_with``, such as ``A``, ``A=x`` or ``A=x or y``, this one has no effect. If ``needed_with`` is set, this
    variable must be set too, and otherwise it has no effect.
    ``deprecated`` says what to set instead of a variable that a later version drops.
    """
    extra: Any = {"other": only_with or needed_with, "is_needed": bool(needed_with)}
    return Field(default, validation_alias=variable, repr=not secret, json_schema_extra=extra, deprecated=deprecated)


def is_quoted(text: str) -> bool:
    return len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]


def options(field: FieldInfo) -> list[str]:
    """Return the possible values of the variable; none if it accepts other texts."""
    if field.annotation is bool:
        return ["true", "false"]
    kinds = (field.annotation, *get_args(field.annotation))
    return [word for kind in kinds for word in get_args(kind) if isinstance(word, str)]


class Area(BaseSettings):
    """Related variables. The name of the class is their heading in the pages."""

    model_config = SettingsConfigDict(
        frozen=True,
        hide_input_in_errors=True,
        case_sensitive=True,
        arbitrary_types_allowed=True,  # of pyarrow
        enable_decoding=False,  # a list is not JSON
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
        """Return the text, or the option of these words in any case.

        Refuses bytes that are not UTF-8, because errors of libraries would quote the value, secrets too. Refuses values
        in quotes, except passwords, for which ``app.config.environment.remarks`` only warns.
        """
        field = cls.model_fields[str(info.field_name)]
        if _NOT_UTF_8.search(raw):
            raise ValueError("must be text in UTF-8")
        if is_quoted(raw) and field.repr:
            raise ValueError(IN_QUOTES)
        return next((word for word in options(field) if word.lower() == raw.lower()), raw)

    def contradictions(self) -> Contradictions:
        """Yield each variable that contradicts other variables although its value is valid, and the problem.

        A problem names the other variables. It is ignored if one of those is wrong.
        """
        yield from ()

    def incomplete(self) -> Contradictions:
        """Yield each variable that is set without the other one of ``env``, or missing although it is needed."""
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
        """Yield this problem for each of the variables that is set."""
        yield from ((variable, problem) for variable in variables if self.by_variable()[variable] is not None)


def checked(variable: str, parser: Callable[[str], Any], text: str) -> Contradictions:
    """Yield the variable and the parser's error message if the parser refuses the text."""
    try:
        parser(text)
    except ValueError as error:
        yield variable, str(error)
