"""Reads the nodes of an Avro schema, as JSON has them: a name, a list (a union), or an object."""

from collections.abc import Mapping
from typing import Any

Node = Any  # str | list[Node] | dict[str, Node]

SIZE_OF_UUID = 16
# Before the names of logical types that are read by our rules: fastavro's own readers raise errors, and round decimals.
OURS = "lake-"
# Nanoseconds stay whole numbers: the table has microseconds, and nothing is cut off. A UUID in text is text.
_KNOWN = {
    ("int", "date"),
    ("int", "time-millis"),
    ("long", "time-micros"),
    ("long", "timestamp-millis"),
    ("long", "timestamp-micros"),
    ("long", "local-timestamp-millis"),
    ("long", "local-timestamp-micros"),
    ("bytes", "decimal"),
    ("fixed", "decimal"),
    ("fixed", "uuid"),
}


def logical_type(node: Mapping[str, Any]) -> str | None:
    """Returns the logical type of a node if it changes the value; an invalid one has no effect, as Avro has it."""
    logical = node.get("logicalType")
    if (node["type"], logical) not in _KNOWN:
        return None
    if logical == "uuid" and node["size"] != SIZE_OF_UUID:
        return None
    if logical == "decimal":
        precision, scale = node.get("precision"), node.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision:
            return None
    return str(logical)
