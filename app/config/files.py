"""Values from files: ``NAME_FILE`` names the file with the value of ``NAME``, as secrets of containers come."""

import os
from collections.abc import Collection
from errno import EFBIG, EINVAL
from pathlib import Path
from typing import Any, Final

_MOST_BYTES: Final = 2**20


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
