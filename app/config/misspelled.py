"""Finds variables with a name similar to one of ours: they are set, but not read."""

import re
from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

# Measured on the names in ``tests/unit/config/ordinary_variables.txt``: at 0.88 two of them are reported.
_NEAR: Final = 0.9
_PLATFORM: Final = "Quix__"  # sets more variables than we read
# Variables of other programs, one letter away from ours.
_OF_OTHERS: Final = frozenset({"HTTPS_HOST", "HTTPS_PORT"})


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
