"""Reads the settings from environment variables and from files, and finds misspelled names of variables."""

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
# A name with this similarity is reported. At 0.88, two correct names of ``tests/unit/config/ordinary_variables.txt``
# would be reported.
_NEAR: Final = 0.9
_PLATFORM: Final = "Quix__"  # the platform sets more variables than the connector reads
_OF_OTHERS: Final = frozenset({"HTTPS_HOST", "HTTPS_PORT"})  # other programs use these similar names
_LONGEST_SHOWN = 100


class SettingsError(ConfigError):
    """Reports all wrong or missing settings. The message has one line for each problem and each possible cause."""

    def __init__(self, problems: tuple[str, ...], remarks: tuple[str, ...] = ()) -> None:
        self.problems = tuple(map(escape_control, problems))
        self.remarks = tuple(map(escape_control, remarks))
        super().__init__("reading the settings", "; ".join(problems))

    def __str__(self) -> str:
        count = "1 setting is" if len(self.problems) == 1 else f"{len(self.problems)} settings are"
        return "\n".join([f"{count} wrong:", *(f"  - {line}" for line in self.problems), *self.remarks])


def load_settings(*, needs_broker: bool = True, needs_store: bool = True) -> Settings:
    """Read and check the settings. If no broker or store is needed, these settings may be empty, but not wrong."""
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
    # This error is raised outside the except clause. Otherwise, its cause would contain values, for example secrets.
    in_order = (variable for variable in settings.by_variable() if variable in problems)
    raise SettingsError(tuple(f"{name}{_as_set(name)}: {problems[name]}" for name in in_order), remarks())


def remarks() -> tuple[str, ...]:
    """Return a line for each environment variable that is probably a mistake. The line omits the variable's value."""
    near = misspelled(os.environ, [*VARIABLES, *(f"{name}_FILE" for name in VARIABLES)])
    lines = [f"{name} is set but unknown: did you mean {meant}?" for name, meant in near.items()]
    secrets = sorted(name for name, field in VARIABLES.items() if not field.repr)
    quoted = [name for name in secrets if is_quoted(os.environ.get(name, "").strip())]
    return (*lines, *(f"{variable}: {IN_QUOTES}, unless they belong to it" for variable in quoted))


def _as_set(variable: str) -> str:
    """Return ``="value"`` with the value of the environment variable. For secrets, return an empty text."""
    value = os.environ.get(variable, "").strip()
    text = cut(shown(variable, value), _LONGEST_SHOWN) if value else ""
    return text and f"={text}"


def _values_in_files(variables: Collection[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Read the files in ``<variable>_FILE``. Return, by variable, the values and the problems with unreadable files."""
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
    """Read a small regular file. Refuse anything else, because reading a pipe might never end."""
    if path.exists() and not path.is_file():
        raise OSError(EINVAL, "it is not a file")
    if path.stat().st_size > _MOST_BYTES:
        raise OSError(EFBIG, "it has more than 1 MB")
    return path.read_text(encoding="utf-8-sig")


def misspelled(names: Collection[str], variables: Collection[str]) -> dict[str, str]:
    """Return the unknown names that are similar to a variable's name. Each name maps to the similar variable.

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
