"""Athena's partition projection: the values of a folder column that it looks for in the store by itself."""

import re
from collections.abc import Collection, Mapping
from typing import Final

from app.table.layout import TIME_COLUMNS

YEARS: Final = 10  # to come, in the list of years
_TIMES: Final = {"month": range(1, 13), "day": range(1, 32), "hour": range(24)}
_MOST_LISTED: Final = 50  # values: Athena advises a few dozen
_WIDEST_RANGE: Final = 1_000  # of numbers, for each of which a query without a condition asks the store
_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")


def projected(name: str, found: Collection[str], null: str, year: int) -> tuple[int, Mapping[str, str]]:
    """Returns how many values Athena looks for, 0 where each query has to name them, and the properties for it.

    Times are lists and no ranges, because rows without a time are in the null folder. ``found`` are the values that the
    table has, and ``year`` is this one.
    """
    values = {*found}
    if name in TIME_COLUMNS:
        due = _TIMES.get(name, range(year, year + YEARS))
        values |= {null, *(f"{number:02}" for number in due)}
    else:
        numbers = sorted(map(int, found)) if all(map(_WHOLE.fullmatch, found)) else []
        if numbers and (count := numbers[-1] - numbers[0] + 1) <= _WIDEST_RANGE:
            return count, {"type": "integer", "range": f"{numbers[0]},{numbers[-1]}"}
        if not 0 < len(found) <= _MOST_LISTED or "," in "".join(found):
            return 0, {"type": "injected"}
    return len(values), {"type": "enum", "values": ",".join(sorted(values))}
