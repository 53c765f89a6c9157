"""Reads the settings from the environment: variables, values in files, and misspelled names."""

import os
import re
from collections.abc import Collection
from difflib import get_close_matches
from errno import EFBIG, EINVAL
from itertools import chain
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from app.config.fields import IN_QUOTES, is_quoted
from app.config.settings import COMMAND, NOWHERE, VARIABLES, Settings, shown
from app.errors import ConfigError, cut
from app.formatting import escape_control

_MOST_BYTES: Final = 2**20
# Measured with the names in ``tests/unit/config/ordinary_variables.txt``: with 0.88, two of them are reported.
_NEAR: Final = 0.9
_PLATFORM: Final = "Quix__"  # the platform sets more variables than the connector reads
# Variables of other programs that differ by one letter.
_OF_OTHERS: Final = frozenset({"HTTPS_HOST", "HTTPS_PORT"})
_LONGEST_SHOWN = 100


class SettingsError(ConfigError):
    """All wrong or missing settings: one line for each problem, and for each possible cause."""

    def __init__(self, problems: tuple[str, ...], remarks: tuple[str, ...] = ()) -> None:
        self.problems = tuple(map(escape_control, problems))
        self.remarks = tuple(map(escape_control, remarks))
        super().__init__("reading the settings", "; ".join(problems))

    def __str__(self) -> str:
        count = "1 setting is" if len(self.problems) == 1 else f"{len(self.problems)} settings are"
        return "\n".join([f"{count} wrong:", *(f"  - {line}" for line in self.problems), *self.remarks])


def load_settings(*, needs_broker: bool = True, needs_store: bool = True) -> Settings:
    """Read the settings from the environment. If a broker is set, it is checked even if none is needed."""
    values, problems = _values_in_files([name for name in VARIABLES if name != COMMAND])
    try:
        settings = Settings(**values)
    except ValidationError as error:
        for details in error.errors(include_input=False):
            problem = details["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
            problems[str(details["loc"][0])] = problem
        unset: dict[str, Any] = dict.fromkeys(problems, "")
        settings = Settings(**{**values, **unset})
    stand_ins = {}
    if not needs_broker and not settings.names_broker:
        stand_ins["bootstrap_servers"] = NOWHERE
    if not needs_store and settings.uses_platform_storage and settings.platform_connection is None:
        stand_ins["s3_bucket"] = "offline"
    settings = settings.model_copy(update=stand_ins)
    for variable, problem in chain(settings.contradictions(), settings.incomplete()):
        if problems.keys().isdisjoint((variable, *re.findall(r"\w+", problem))):
            problems[variable] = problem
    if not problems:
        return settings
    # Outside the handler, because the cause would contain the values, secrets included.
    in_order = (variable for variable in settings.by_variable() if variable in problems)
    raise SettingsError(tuple(f"{name}{_as_set(name)}: {problems[name]}" for name in in_order), remarks())


def remarks() -> tuple[str, ...]:
    """Return a line for each variable of the environment that is probably a mistake, without its value."""
    near = misspelled(os.environ, [*VARIABLES, *(f"{name}_FILE" for name in VARIABLES)])
    lines = [f"{name} is set but unknown: did you mean {meant}?" for name, meant in near.items()]
    secrets = sorted(name for name, field in VARIABLES.items() if not field.repr)
    quoted = [name for name in secrets if is_quoted(os.environ.get(name, "").strip())]
    return (*lines, *(f"{variable}: {IN_QUOTES}, unless they belong to it" for variable in quoted))


def _as_set(variable: str) -> str:
    """Return ``="value"`` as the user set it, or an empty text for secrets."""
    value = os.environ.get(variable, "").strip()
    text = cut(shown(variable, value), _LONGEST_SHOWN) if value else ""
    return text and f"={text}"


def _values_in_files(variables: Collection[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of variables in files, and the problems with other files, by variable."""
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for variable in variables:
        path = os.environ.get(f"{variable}_FILE", "").strip()
        if not path:
            continue
        if os.environ.get(variable, "").strip():
            problems[variable] = f"must not be set together with {variable}_FILE: set only one of them"
            continue
        try:
            values[variable] = _text_of(Path(path))
        except (OSError, ValueError) as error:
            cause = error.strerror if isinstance(error, OSError) and error.strerror else "it is not text in UTF-8"
            problems[variable] = f"{variable}_FILE={path} cannot be read: {cause}"
    return values, problems


def _text_of(path: Path) -> str:
    """Read a short file. Other kinds are refused, because a pipe could wait for ever."""
    if path.exists() and not path.is_file():
        raise OSError(EINVAL, "it is not a file")
    if path.stat().st_size > _MOST_BYTES:
        raise OSError(EFBIG, "it has more than 1 MB")
    return path.read_text(encoding="utf-8-sig")


def misspelled(names: Collection[str], variables: Collection[str]) -> dict[str, str]:
    """Return each unknown name that is similar to a variable, with this variable.

    A variable's name with an additional ending, such as ``AWS_ENDPOINT_URL_S3``, is not a misspelling.
    """
    by_folded = {_folded(name): name for name in variables if not name.startswith(_PLATFORM)}
    meant = {}
    for name in sorted(set(names) - set(variables) - _OF_OTHERS):
        for near in get_close_matches(_folded(name), by_folded, n=1, cutoff=_NEAR):
            if not name.startswith((_PLATFORM, f"{by_folded[near]}_")):
                meant[name] = by_folded[near]
    return meant


def _folded(name: str) -> str:
    return re.sub(r"[-_.]", "", name).upper()
