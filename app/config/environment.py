"""What the environment has beside the variables themselves: values in files, and names that are nearly ours."""

import os
import re
from collections.abc import Collection
from difflib import get_close_matches
from errno import EFBIG, EINVAL
from pathlib import Path
from typing import Any, Final

_MOST_BYTES: Final = 2**20
# Measured on the names in ``tests/unit/config/ordinary_variables.txt``: at 0.88 two of them are reported.
_NEAR: Final = 0.9
_PLATFORM: Final = "Quix__"  # sets more variables than we read
# Variables of other programs, one letter away from ours.
_OF_OTHERS: Final = frozenset({"HTTPS_HOST", "HTTPS_PORT"})


def values_in_files(variables: Collection[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the values of the variables whose file is named, and the problems with the others, by variable."""
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for variable in variables:
        path = os.environ.get(f"{variable}_FILE", "").strip()
        if not path:
            continue
        if os.environ.get(variable, "").strip():
            problems[variable] = f"must not be set together with {variable}_FILE: one of the two is enough"
            continue
        try:
            values[variable] = _text_of(Path(path))
        except (OSError, ValueError) as error:
            cause = error.strerror if isinstance(error, OSError) and error.strerror else "it is no text in UTF-8"
            problems[variable] = f"{variable}_FILE={path} cannot be read: {cause}"
    return values, problems


def _text_of(path: Path) -> str:
    """Reads a short file; a pipe could wait for ever."""
    if path.exists() and not path.is_file():
        raise OSError(EINVAL, "it is no file")
    if path.stat().st_size > _MOST_BYTES:
        raise OSError(EFBIG, "it has more than 1 MB")
    return path.read_text(encoding="utf-8-sig")


def misspelled(names: Collection[str], known: Collection[str]) -> dict[str, str]:
    """Returns each unknown name that is similar to a known one, with the known one.

    A known name with an ending of its own, such as ``AWS_ENDPOINT_URL_S3``, is another name.
    """
    meant = {_folded(name): name for name in known if not name.startswith(_PLATFORM)}
    found = {}
    for name in sorted(set(names) - set(known) - _OF_OTHERS):
        for near in get_close_matches(_folded(name), meant, n=1, cutoff=_NEAR):
            if not name.startswith((_PLATFORM, f"{meant[near]}_")):
                found[name] = meant[near]
    return found


def _folded(name: str) -> str:
    return re.sub(r"[-_.]", "", name).upper()
