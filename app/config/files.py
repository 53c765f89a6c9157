"""Values from files: ``NAME_FILE`` names the file with the value of ``NAME``, as secrets of containers come."""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any


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
            values[variable] = Path(path).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            cause = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
            problems[variable] = f"{variable}_FILE={path} cannot be read: {cause}"
    return values, problems
