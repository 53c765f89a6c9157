"""Address and login of each kind of catalog, and the table in it. Imports no client: settings are read first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class QuixTarget:
    """A table in a REST catalog of Quix, or at the query API.

    Args:
        url: the base address without a slash at its end, e.g. ``https://catalog.example.com/api/v1``.
        token: the bearer token, if there is one.
        workspace_id: of the topics that feed the table; empty outside Quix Cloud.
        stats_columns: the only columns whose bounds are sent (zone maps); empty for all that can have them.
    """

    url: str
    token: str | None = field(repr=False)
    namespace: str
    table: str
    workspace_id: str = ""
    stats_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IcebergTarget:
    """A table in an Iceberg catalog.

    Args:
        url: for messages.
        properties: of the catalog, as pyiceberg names them; its own variables (``PYICEBERG_CATALOG__DEFAULT__…``) win.
        address: of the store in Iceberg's metadata, e.g. ``s3://bucket``.
        namespace: of the table; levels are separated by dots.
        group: whose marks say how far the table is.
        keep_days: older snapshots are expired.
        transforms: partitions of a new table that are no columns: in the words of Iceberg, with the column and its type
            as far as the settings tell it.
    """

    url: str
    properties: Mapping[str, str] = field(repr=False)
    address: str
    namespace: str
    table: str
    group: str
    keep_days: float
    transforms: Sequence[tuple[str, str, pa.DataType | None]] = ()
