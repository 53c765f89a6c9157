"""Finds variables whose names are near to one of ours: they are set, and nobody reads them.

Measured on the list of ordinary names in ``tests/unit/config/ordinary_variables.txt``: none of them is reported.
"""

import re
from collections.abc import Collection
from typing import Final

_SHORTEST_GUESSED = 7  # letters: below, a name counts only if the case or the underscores differ
_SHORTEST_GUESSED_TWICE = 12  # letters: from here on, two letters may differ
_PLATFORM: Final = "Quix__"  # sets more variables than we read
# One letter away from ours, and of others.
_OF_OTHERS: Final = frozenset({"HTTPS_HOST", "HTTPS_PORT"})


def misspelled(names: Collection[str], known: Collection[str]) -> dict[str, str]:
    """Return the unknown names that are near to a known one, each with that one.

    A name is near if the case or the underscores alone differ, or one letter (two in long names) is missing, added,
    wrong or exchanged with the next. A known name with an ending of its own, such as ``AWS_ENDPOINT_URL_S3``, is
    another name.
    """
    meant = {_folded(name): name for name in known if not name.startswith(_PLATFORM)}
    unknown = [name for name in names if name not in known and name not in _OF_OTHERS]
    found = {}
    for name in sorted(name for name in unknown if not name.startswith(_PLATFORM)):
        folded = _folded(name)
        near = meant.get(folded) or next((of for word, of in meant.items() if _is_near(folded, word)), None)
        if near and not name.upper().startswith(f"{near.upper()}_"):
            found[name] = near
    return found


def _folded(name: str) -> str:
    return re.sub(r"[-_.]", "", name).upper()


def _is_near(word: str, known: str) -> bool:
    if len(known) < _SHORTEST_GUESSED:
        return False
    allowed = 2 if len(known) >= _SHORTEST_GUESSED_TWICE else 1
    return abs(len(word) - len(known)) <= allowed and _distance(word, known) <= allowed


def _distance(one: str, other: str) -> int:
    """How many letters must be added, dropped, changed, or exchanged with the next to make one word of the other."""
    before, last = [0] * (len(other) + 1), list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        costs = [row]
        for column, wanted in enumerate(other, 1):
            cost = min(last[column] + 1, costs[-1] + 1, last[column - 1] + (letter != wanted))
            if row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == wanted:
                cost = min(cost, before[column - 2] + 1)
            costs.append(cost)
        before, last = last, costs
    return last[-1]
