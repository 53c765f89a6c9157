"""How far topic-partitions are, as properties of an Iceberg table: what makes a repeated commit harmless. Pure.

``lake.<group>.<topic>.<partition>`` is ``<end>@<series>``, followed by those of a few former series. A damaged property
is a ``FatalError``.
"""

import math
from collections.abc import Iterable, Mapping

from app.errors import FatalError
from app.model import Mark

_SERIES_KEPT = 4  # of a topic-partition


def are_in(properties: Mapping[str, str], group: str, marks: Iterable[Mark]) -> bool:
    """Whether the table has all rows up to these marks; never if there are none."""
    reached = [_ends(properties, group, mark).get(mark.series, -math.inf) >= mark.end for mark in marks]
    return bool(reached) and all(reached)


def properties_of(properties: Mapping[str, str], group: str, marks: Iterable[Mark]) -> dict[str, str]:
    """Returns the properties to set together with the files up to these marks."""
    wanted = {}
    for mark in marks:
        ends = _ends(properties, group, mark)
        newest = max(mark.end, ends.pop(mark.series, mark.end))
        kept = [(mark.series, newest), *ends.items()][:_SERIES_KEPT]
        wanted[_name(group, mark)] = " ".join(f"{end}@{series}" for series, end in kept)
    return wanted


def _ends(properties: Mapping[str, str], group: str, mark: Mark) -> dict[str, int]:
    name = _name(group, mark)
    texts = [text.partition("@") for text in properties.get(name, "").split()]
    try:
        return {series: int(end) for end, _, series in texts}
    except ValueError:
        raise FatalError(
            f"reading the property {name} of the table",
            "it is not what a connector has written",
            "Bring the former value back: without it rows could be there twice",
        ) from None


def _name(group: str, mark: Mark) -> str:
    encoded = group.replace("%", "%25").replace(".", "%2E")  # so that it ends at the next dot
    return f"lake.{encoded}.{mark.tp.topic}.{mark.tp.partition}"
