"""Reads a table that may already exist: its entry in the catalog, its location, and its partitions."""

import difflib
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any, Protocol

import pyarrow as pa

from app.errors import ConfigError
from app.storage.base import ObjectStore
from app.table.layout import HIVE_NULL, QUIX_NULL, PartitionSpec, folder, is_data_file, null_folder_of, spec_of_key

logger = logging.getLogger(__name__)

_WITHOUT_HOST = re.compile(r"^([^/@]+)@[^/]+")  # of Azure: abfss://container@account.dfs.core.windows.net/folder
_MOST_FILES = 10_000  # ten requests of a thousand keys


class Computed(Protocol):
    """A partition column that is computed from columns of a file."""

    @property
    def name(self) -> str: ...

    @property
    def source(self) -> str:
        """The column of the files from which the values are computed."""

    def texts(self, rows: pa.Table, /) -> pa.Array:
        """Returns the value of each row as text. For a missing value, the text is the name of the null folder."""

    def folder(self, text: str, /) -> str:
        """Returns the form of this text in the folder's name."""


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table in the catalog.

    ``location`` has no slash at its end, and is empty if the catalog has no location. ``partition_spec`` is empty
    before the first files. ``columns`` are the columns of an Iceberg table, otherwise ``None``. ``as_known`` receives
    rows and the partitions, and returns the rows with the columns of the files. ``computed`` returns the partition
    columns that are in no record. ``partitions`` lists all partitions in the form of ``HIVE_COLUMNS``.
    """

    location: str
    partition_spec: tuple[str, ...]
    properties: Mapping[str, Any] = field(default_factory=dict)
    columns: pa.Schema | None = None
    as_known: Callable[[pa.Table, Collection[str]], pa.Table] = field(default=lambda rows, _: rows, compare=False)
    computed: Callable[[], Sequence[Computed]] = field(default=tuple, compare=False)
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableLocation:
    """The address of the store, and the key of the table's folder in this store."""

    store_uri: str
    root: str

    @property
    def uri(self) -> str:
        """The address of the folder, without a slash at its end."""
        return f"{self.store_uri}/{self.root}"

    @property
    def name(self) -> str:
        """The name of the table."""
        return self.root.rpartition("/")[2]

    def is_named_by(self, location: str) -> bool:
        """Whether a registered location is this folder. Raises ``ConfigError`` for a folder outside of this store."""
        return _root_of(location, self.store_uri) == self.root


def adopted(table: CatalogTable | None, configured: TableLocation, workspace_id: str | None) -> TableLocation:
    """Returns the catalog's location, because readers use it. Without one, returns the configured location.

    On the platform's own storage, all keys must be in the folder ``workspace_id``.

    Raises:
        ConfigError: The location is outside of the store or the workspace, is not a folder, or contains ``configured``.
    """
    if table is None or not table.location:
        return configured
    root = _root_of(table.location, configured.store_uri)
    if workspace_id and not root.startswith(f"{workspace_id}/"):
        outside = f"outside of the workspace's folder {workspace_id}"
        raise _location_error(table.location, outside, "Deploy the connector in the table's workspace")
    if configured.root.startswith(f"{root}/"):  # the folder may contain other tables
        raise _location_error(table.location, f"above {configured.uri} as configured")
    if root != configured.root:
        logger.warning(
            "the catalog has the table at %s: the connector writes there, and not to %s as configured",
            table.location,
            configured.uri,
        )
    return TableLocation(configured.store_uri, root)


def _root_of(location: str, store_uri: str) -> str:
    """Returns the key of the folder at a location.

    The scheme is ignored. Other writers use ``s3://bucket`` for every bucket, and also for the last name of a local
    folder. If both addresses have the scheme ``file``, their full paths are compared.
    """
    start, separator, rest = location.strip().partition("://")
    scheme, path = (start, rest) if separator else ("", start)
    own_scheme, _, own_path = store_uri.partition("://")
    are_paths = scheme == own_scheme == "file"
    bucket = own_path if are_paths else own_path.rpartition("/")[2]
    path = path if are_paths else _WITHOUT_HOST.sub(r"\1", path.strip("/"))
    if not f"{path}/".startswith(f"{bucket}/"):
        raise _location_error(location, f"which is not in {store_uri}", "Set the storage to the table's store")
    root = path.removeprefix(bucket).strip("/")
    if {"", ".", ".."}.intersection(root.split("/")):
        raise _location_error(location, "which is not a separate folder")
    return root


def _location_error(location: str, where: str, remedy: str = "Correct it in the catalog") -> ConfigError:
    cause = f"the catalog has it at {location}, {where}"
    return ConfigError("finding the location of the table", cause, f"{remedy}, or choose another TABLE_NAME")


def existing_layout(
    store: ObjectStore, table_root: str, hive_columns: Sequence[str], most_files: int
) -> tuple[set[tuple[str, ...]], set[str]]:
    """Reads partition specs and values from the keys of the first ``most_files`` data files. A new table has none.

    In the order of keys, a null folder follows all numbers. Therefore null folders of the first level are listed too.
    """
    folders = [folder({hive_columns[0]: name}) for name in (QUIX_NULL, HIVE_NULL)] if hive_columns else []
    listings = [_data_keys(store, table_root, f"{name}/", 1) for name in folders]
    listings.append(_data_keys(store, table_root, "", most_files))
    layouts = [spec_of_key(key, table_root) for key in chain.from_iterable(listings)]
    return {columns for columns, _ in layouts}, {value for _, values in layouts for value in values}


def _data_keys(store: ObjectStore, table_root: str, below: str, most: int) -> Iterator[str]:
    keys = (item.key for item in store.list(f"{table_root}/{below}"))
    return islice((key for key in keys if is_data_file(key, table_root)), most)


def open_table(
    store: ObjectStore,
    table: CatalogTable | None,
    table_root: str,
    spec: PartitionSpec,
    default_null: str,
    most_files: int = _MOST_FILES,
) -> PartitionSpec:
    """Compares the settings with the table in the store and in the catalog. Chooses the null folder's name.

    ``table`` is ``None`` if the settings have no catalog, or the catalog does not have the table. ``spec`` contains the
    settings. An Iceberg table has the partitions of the catalog. With ``auto``, a table without a null folder uses
    ``default_null``. Raises the errors of ``check_spec``.
    """
    if spec.keeps_columns:
        columns = table.partition_spec if table else spec.columns
        return replace(spec, columns=columns, order=columns, null_value=HIVE_NULL)
    location = f"{store.uri}/{table_root}"
    specs, values = existing_layout(store, table_root, spec.columns, most_files)
    check_spec(spec.columns, specs, f"the table at {location}", spec.virtual)
    if table:
        check_catalog_table(table, spec)
    if spec.null_value != "auto":
        return spec
    return replace(spec, null_value=null_folder_of(values) or default_null)


def check_catalog_table(table: CatalogTable, spec: PartitionSpec) -> None:
    """Compares the partition columns of the settings with the partition columns of the catalog."""
    if table.partition_spec:  # the first files fill an empty spec
        check_spec(spec.order, [table.partition_spec], "the table in the catalog", spec.virtual)


def check_spec(
    configured: Sequence[str], existing: Collection[tuple[str, ...]], where: str, virtual: Sequence[str] = ()
) -> None:
    """Compares the configured columns with those of an existing table. Warns if only the order differs.

    ``configured`` contains the partition columns or, for a catalog, all levels of the tree. ``virtual`` contains the
    levels without folders. ``where`` identifies the table in messages. Raises ``ConfigError`` with both specs.
    """
    for spec in existing:
        if set(spec) != set(configured):
            raise ConfigError(
                "checking the table's partitioning",
                f"{where} is partitioned by {_format_list(spec)}, HIVE_COLUMNS says {_format_list(configured)}",
                f"Set HIVE_COLUMNS={_format_setting(spec, configured, virtual)} to continue this table, "
                "or TABLE_NAME to begin another table",
            )
    other = next((spec for spec in existing if tuple(configured) != spec), None)
    if other is not None:
        logger.warning(
            "%s has its partition columns in the order %s, HIVE_COLUMNS in the order %s. Both work, but readers that "
            "list folders find two orders",
            where,
            _format_list(other),
            _format_list(configured),
        )


def _format_list(columns: Sequence[str]) -> str:
    return "[" + ", ".join(columns) + "]" if columns else "[] (no partitioning)"


def _format_setting(spec: Sequence[str], configured: Sequence[str], virtual: Sequence[str]) -> str:
    """Formats HIVE_COLUMNS for an existing spec. Virtual levels stay virtual, because folders do not show them."""
    existing = [f"~{name}" if name in virtual and name in configured else name for name in spec]
    missing = [f"~{name}" for name in virtual if name not in spec and name not in configured]
    return ",".join(existing + missing)


def likely_meant(column: str, names: Iterable[str], setting: str = "HIVE_COLUMNS") -> str:
    """Returns a hint for a column that is missing in rows: a similar name, or how to write a path; or an empty text."""
    folded = {name.casefold(): name for name in names if name != column}
    similar = difflib.get_close_matches(column.casefold(), folded, n=1, cutoff=0.8)  # locaton, instead of location
    if similar:
        return f"Did you mean {folded[similar[0]]}?"
    *_, last = path = column.split(".")
    if len(path) == 1 or setting == "HIVE_COLUMNS":  # HIVE_COLUMNS is the only setting that accepts a path
        return ""
    keys = "".join(f'["{name}"]' for name in path)
    return (
        "A column is a field of the record, not a path into an object. "
        f'Write sdf["{last}"] = sdf{keys} in transform(), and {last} in {setting}'
    )
