"""Declares variables: name, default, parser of the text, and the variable without which it has no effect."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

IN_QUOTES: Final = "the value is in quotes; docker's env files keep them: remove them"

Contradictions = Iterator[tuple[str, str]]

_NOT_UTF_8 = re.compile("[\ud800-\udfff]")  # the environment has other bytes as surrogates


def env(
    variable: str,
    default: Any = None,
    *,
    secret: bool = False,
    only_with: str = "",
    needed_with: str = "",
    deprecated: str | None = None,
) -> Any:
    """Declares a field that is read from this variable; the value of a ``secret`` one is never shown.

    The text below the field, in Markdown, is its description for users: the pages and the form are made of it.
    ``only_with`` is the variable without which this one has no effect, such as ``A``, ``A=x`` or ``A=x or y``, and
    ``needed_with`` one that must not be set without this one either. ``deprecated`` tells users of a variable that a
    later version drops what to do instead.
    """
    extra: Any = {"other": only_with or needed_with, "is_needed": bool(needed_with)}
    return Field(default, validation_alias=variable, repr=not secret, json_schema_extra=extra, deprecated=deprecated)


def is_quoted(text: str) -> bool:
    return len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]


def options(field: FieldInfo) -> list[str]:
    """Returns the words that the variable may have; none if it takes other texts."""
    if field.annotation is bool:
        return ["true", "false"]
    kinds = (field.annotation, *get_args(field.annotation))
    return [word for kind in kinds for word in get_args(kind) if isinstance(word, str)]


class Area(BaseSettings):
    """Variables that belong together. Its name is their heading in the pages."""

    model_config = SettingsConfigDict(
        frozen=True,
        hide_input_in_errors=True,
        case_sensitive=True,
        arbitrary_types_allowed=True,  # of pyarrow
        enable_decoding=False,  # a list is no JSON
        validate_default=False,
        use_attribute_docstrings=True,
        defer_build=True,  # each area has a schema of its own, and that of Settings alone is used
    )

    @model_validator(mode="before")
    @classmethod
    def _blank_is_unset(cls, raw: dict[str, str]) -> dict[str, str]:
        return {variable: text.strip() for variable, text in raw.items() if text.strip()}

    @field_validator("*", mode="before")
    @classmethod
    def _is_text(cls, raw: str, info: ValidationInfo) -> str:
        """Refuses bytes that are not UTF-8: the error of a library that sends them would quote the value, secrets too.

        Refuses a value in quotes; a password may have them, so ``app.config.environment.remarks`` warns of those.
        Returns the option that the text is, ignoring case.
        """
        field = cls.model_fields[str(info.field_name)]
        if _NOT_UTF_8.search(raw):
            raise ValueError("must be text in UTF-8")
        if is_quoted(raw) and field.repr:
            raise ValueError(IN_QUOTES)
        return next((word for word in options(field) if word.lower() == raw.lower()), raw)

    def contradictions(self) -> Contradictions:
        """Yields each variable that contradicts others although its own value is right, and the problem.

        A problem names the other variables that it depends on. It does not count if one of those is wrong.
        """
        yield from ()

    def incomplete(self) -> Contradictions:
        """Yields each variable that is set without the one it needs, or not set although that one is; see ``env``."""
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
        """Yields this problem for each of the variables that is set."""
        yield from ((variable, problem) for variable in variables if self.by_variable()[variable] is not None)


def checked(variable: str, parser: Callable[[str], Any], text: str) -> Contradictions:
    """Yields the variable and the parser's complaint if the parser refuses the text."""
    try:
        parser(text)
    except ValueError as error:
        yield variable, str(error)
