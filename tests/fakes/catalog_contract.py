"""What the catalog's contract allows in a request; everything else is refused with a reason."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Any

Json = Mapping[str, Any]

_LOCATION = re.compile(r"[a-z][a-z0-9]*://.*[^/]", re.DOTALL)
_TABLE_FIELDS: Mapping[str, type] = {"location": str, "partition_spec": list, "properties": dict}
_PROPERTIES: Mapping[str, type] = {
    "created_by": str,
    "auto_discovered": str,
    "expected_partitions": list,
    "timestamp_column": str,
}
_MORE_PROPERTIES: Mapping[str, type] = {"virtual_partitions": list, "sort_column": str, "stats_columns": list}
_CHANGES: Mapping[str, type] = {"timestamp_column": str, "sort_column": str, "stats_columns": list}
_SOURCE_FIELDS: Mapping[str, type] = {"source_type": str, "workspace_id": str, "topic": str, "properties": dict}
_STATS_FIELDS: Mapping[str, type] = {"type": str, "null_count": int, "value_count": int}
_BOUNDS: Mapping[str, type] = {"numeric": float, "timestamp": str}
_FILE_FIELDS: Mapping[str, type] = {
    "file_path": str,
    "file_size": int,
    "last_modified": str,
    "partition_values": dict,
    "row_count": int,
}


class Refused(Exception):  # noqa: N818 - an answer, not a fault
    """The request gets ``status`` and ``reason`` for an answer, and changes nothing."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass
class Table:
    """A table with its files, keyed by path, and its sources, keyed by topic, in the order in which they first came.

    ``rows_by_topic`` has the totals of the sources, to which each registration adds what it brings.
    """

    location: str
    partition_spec: list[str]
    properties: Json
    files: dict[str, Json] = field(default_factory=dict)
    sources: dict[str, Json] = field(default_factory=dict)
    rows_by_topic: Counter[str] = field(default_factory=Counter)

    def add(self, files: Sequence[Json]) -> None:
        """Keep the files, all or, when the contract forbids one, none."""
        spec = self.partition_spec
        if not self.files and not spec and files:
            spec = list(_checked_file(files[0], self.location)["partition_values"])
        folders = sorted(set(spec) - set(self.properties.get("virtual_partitions", ())))
        for file in files:
            found = list(_checked_file(file, self.location)["partition_values"])
            _require(sorted(found) == folders, f"partition_values has {found}, the table is partitioned by {spec}")
        paths = [file["file_path"] for file in files]
        _require(len(set(paths)) == len(paths), "the same file_path twice in one request")
        self.partition_spec = spec
        self.files.update(zip(paths, files, strict=True))

    def change(self, body: Any) -> None:
        wanted = _checked_fields(body, {"properties": dict}, "the request")["properties"]
        given = {name: value for name, value in wanted.items() if value is not None}
        _checked_fields(given, {}, "properties", _CHANGES)
        _require(wanted.keys() <= _CHANGES.keys(), "properties has others than those that may be changed")
        kept = {name: value for name, value in self.properties.items() if name not in wanted}
        self.properties = kept | given

    def add_source(self, source: Any) -> None:
        checked = _checked_fields(source, _SOURCE_FIELDS, "source")
        self.sources[checked["topic"]] = checked

    def count(self, files: Sequence[Json], source: Any) -> None:
        self.add_source(source)
        self.rows_by_topic[source["topic"]] += sum(file["row_count"] for file in files)

    def description(self) -> Json:
        return {"location": self.location, "partition_spec": self.partition_spec, "properties": self.properties}


def new_table(body: Any) -> Table:
    table = _checked_fields(body, _TABLE_FIELDS, "the table")
    properties = _checked_fields(table["properties"], _PROPERTIES, "properties", _MORE_PROPERTIES)
    _require(_LOCATION.fullmatch(table["location"]) is not None, "location is no URI without a slash at its end")
    for what in ("partition_spec", "expected_partitions", "virtual_partitions", "stats_columns"):
        names = {**table, **properties}.get(what, [])
        _require(all(isinstance(name, str) for name in names), f"{what} is no list of names")
    _require(
        set(properties.get("virtual_partitions", [])) <= set(table["partition_spec"]),
        "virtual_partitions are not in partition_spec",
    )
    _require(properties["auto_discovered"] in ("true", "false"), "auto_discovered is neither 'true' nor 'false'")
    return Table(table["location"], table["partition_spec"], properties)


def files_of(body: Any) -> tuple[Sequence[Json], Json | None]:
    request = _checked_fields(body, {"files": list}, "the request", {"source": dict})
    _require(bool(request["files"]), "files is empty")
    return list(request["files"]), request.get("source")


def source_of(body: Any) -> Json:
    return dict(_checked_fields(body, {"source": dict}, "the request")["source"])


def _checked_file(file: Any, location: str) -> Json:
    checked = _checked_fields(file, _FILE_FIELDS, "a file", {"column_stats": dict})
    path = checked["file_path"]
    _require(path.startswith(f"{location}/"), f"file_path {path} is outside the table's location {location}")
    _require(checked["file_size"] >= 0, "file_size is negative")
    _require(checked["row_count"] >= 0, "row_count is negative")
    _require(_has_zone(checked["last_modified"]), "last_modified is no ISO 8601 time with a zone")
    values = checked["partition_values"].values()
    _require(all(isinstance(value, str) for value in values), "a value in partition_values is no string")
    for column, stats in checked.get("column_stats", {}).items():
        _check_stats(stats, f"column_stats of {column}")
    return checked


def _check_stats(stats: Any, what: str) -> None:
    kind = stats.get("type") if isinstance(stats, dict) else None
    _require(kind in _BOUNDS, f"type of {what} is neither numeric nor timestamp")
    bound = _BOUNDS[str(kind)]
    checked = _checked_fields(stats, {**_STATS_FIELDS, "min": bound, "max": bound}, what)
    _require(checked["min"] <= checked["max"], f"min of {what} is above max")
    _require(checked["value_count"] > 0, f"{what} is about no value")


def _checked_fields(
    document: Any, fields: Mapping[str, type], what: str, more: Mapping[str, type] | None = None
) -> Json:
    """The document, which has these fields, perhaps some ``more``, and no others.

    Each is of its type and no other (a bool is no int).
    """
    _require(isinstance(document, dict), f"{what} is no JSON object")
    known = {**fields, **{name: kind for name, kind in (more or {}).items() if name in document}}
    _require(document.keys() == known.keys(), f"{what} has the fields {sorted(document)}, not {sorted(known)}")
    for name, kind in known.items():
        _require(type(document[name]) is kind, f"{name} of {what} is no {kind.__name__}")
    return dict(document)


def _has_zone(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise Refused(HTTPStatus.BAD_REQUEST, reason)
