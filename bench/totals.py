"""What a table adds up to, and whether that is what was produced."""

from collections.abc import Iterable
from typing import NamedTuple


class WrongRowsError(RuntimeError):
    """The lake does not hold exactly what was produced: whatever was measured does not count."""


class Group(NamedTuple):
    """The rows of one key in one Hive partition, its values as the folders spell them."""

    key: str
    location: str
    year: str
    month: str
    day: str


class Sums(NamedTuple):
    """Numbers of a group; temperature in hundredths and humidity in tenths, so that sums are exact."""

    rows: int
    distinct: int
    seq: int
    ts_ms: int
    temperature: int
    humidity: int
    battery: int


Totals = dict[Group, Sums]

# One text for DuckDB and Spark. The fields of Group, then those of Sums.
TOTALS_SQL = """
SELECT __key, location, year, month, day,
       count(*), count(DISTINCT seq), sum(seq), sum(ts_ms),
       sum(CAST(round(temperature * 100) AS BIGINT)), sum(CAST(round(humidity * 10) AS BIGINT)), sum(battery)
FROM {source}
GROUP BY __key, location, year, month, day
"""


def totals_of(rows: Iterable[tuple[object, ...]]) -> Totals:
    """The totals in the result of ``TOTALS_SQL``."""
    width = len(Group._fields)
    return {Group(*map(str, row[:width])): Sums(*(int(str(number)) for number in row[width:])) for row in rows}


def differences(expected: Totals, found: Totals) -> list[str]:
    """One line for each group that is not as expected; nothing if the tables are the same."""
    lines = []
    for group in sorted(expected.keys() | found.keys()):
        wanted, got = expected.get(group), found.get(group)
        if wanted == got:
            continue
        where = f"{group.key} in {group.location}/{group.year}/{group.month}/{group.day}"
        if wanted is None or got is None:
            lines.append(f"{where}: {'not produced, but in the lake' if got else 'produced, but not in the lake'}")
        else:
            wrong = [
                f"{name} {is_now:,} instead of {should:,}"
                for name, is_now, should in zip(Sums._fields, got, wanted, strict=True)
                if is_now != should
            ]
            lines.append(f"{where}: {', '.join(wrong)}")
    return lines


def row_count(totals: Totals) -> int:
    return sum(sums.rows for sums in totals.values())
