"""A table that may exist already: as the catalog holds it, where it is, and whether its partitions fit the settings."""

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
_MOST_FILES = 10_000  # ten requests


class Computed(Protocol):
    """A folder column that is computed from the columns of a file."""

    @property
    def name(self) -> str: ...

    @property
    def source(self) -> str:
        """The column of the files."""

    def texts(self, rows: pa.Table, /) -> pa.Array:
        """Returns the value of each row as text, without nulls; of a missing one the name of the null folder."""

    def folder(self, text: str, /) -> str:
        """Returns what the folder shows for this text."""


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table as the catalog holds it.

    ``location`` has no slash at its end and is empty where the catalog holds none; ``partition_spec`` is empty until
    the first files fill it. ``columns`` are those of an Iceberg table, ``None`` for any other. ``as_known`` takes
    rows and the partitions, and returns the rows with the columns that files have; ``computed`` returns the folder
    columns that are in no record. ``partitions`` has all partitions as ``HIVE_COLUMNS`` does.
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
    """The address of the store, and the key of the table's folder in it."""

    store_uri: str
    root: str

    @property
    def uri(self) -> str:
        """The folder's own address, without a slash at its end."""
        return f"{self.store_uri}/{self.root}"

    @property
    def name(self) -> str:
        """The table's."""
        return self.root.rpartition("/")[2]

    def is_named_by(self, location: str) -> bool:
        """Whether a registered location is this folder; raises ``ConfigError`` if it is in another store, or none."""
        return _root_of(location, self.store_uri) == self.root


def adopted(table: CatalogTable | None, configured: TableLocation, workspace_id: str | None) -> TableLocation:
    """Returns the catalog's location, because readers use it; the configured one if the catalog has none.

    On the platform's own storage, keys must not leave the folder ``workspace_id``.

    Raises:
        ConfigError: the location is not in the configured store or the workspace, no folder, or above ``configured``.
    """
    if table is None or not table.location:
        return configured
    root = _root_of(table.location, configured.store_uri)
    if workspace_id and not root.startswith(f"{workspace_id}/"):
        outside = f"outside of the workspace's folder {workspace_id}"
        raise _misplaced(table.location, outside, "Deploy the connector in the table's workspace")
    if configured.root.startswith(f"{root}/"):  # other tables may be in it
        raise _misplaced(table.location, f"above {configured.uri} as configured")
    if root != configured.root:
        logger.warning(
            "the catalog has the table at %s: it is written there, and not to %s as configured",
            table.location,
            configured.uri,
        )
    return TableLocation(configured.store_uri, root)


def _root_of(location: str, store_uri: str) -> str:
    """Returns the key of the folder that a location names.

    The scheme says nothing: other writers call every bucket ``s3://bucket``, and a folder of the machine by its last
    name. Only where both are full paths of a machine they are compared as such.
    """
    before, separator, behind = location.strip().partition("://")
    scheme, path = (before, behind) if separator else ("", before)
    own_scheme, _, own_path = store_uri.partition("://")
    are_paths = scheme == own_scheme == "file"
    bucket = own_path if are_paths else own_path.rpartition("/")[2]
    path = path if are_paths else _WITHOUT_HOST.sub(r"\1", path.strip("/"))
    if not f"{path}/".startswith(f"{bucket}/"):
        raise _misplaced(location, f"which is not in {store_uri}", "Point the storage to where the table is")
    root = path.removeprefix(bucket).strip("/")
    if {"", ".", ".."}.intersection(root.split("/")):
        raise _misplaced(location, "which is no folder of its own")
    return root


def _misplaced(location: str, where: str, remedy: str = "Correct it there") -> ConfigError:
    cause = f"the catalog has it at {location}, {where}"
    return ConfigError("finding the location of the table", cause, f"{remedy}, or choose another TABLE_NAME")


def existing_layout(
    store: ObjectStore, table_root: str, hive_columns: Sequence[str], most_files: int
) -> tuple[set[tuple[str, ...]], set[str]]:
    """Reads partition specs and values from the keys of the first ``most_files`` data files; empty for a new table.

    The null folder comes late in the order of keys, after all numbers: at the first level it is looked for by itself.
    """
    folders = [folder({hive_columns[0]: name}) for name in (QUIX_NULL, HIVE_NULL)] if hive_columns else []
    looked_at = [_data_keys(store, table_root, f"{name}/", 1) for name in folders]
    looked_at.append(_data_keys(store, table_root, "", most_files))
    layouts = [spec_of_key(key, table_root) for key in chain.from_iterable(looked_at)]
    return {columns for columns, _ in layouts}, {value for _, values in layouts for value in values}


def _data_keys(store: ObjectStore, table_root: str, below: str, most: int) -> Iterator[str]:
    keys = (item.key for item in store.list(f"{table_root}/{below}"))
    return islice((key for key in keys if is_data_file(key, table_root)), most)


def open_table(
    store: ObjectStore,
    known: CatalogTable | None,
    table_root: str,
    wanted: PartitionSpec,
    default_null: str,
    most_files: int = _MOST_FILES,
) -> PartitionSpec:
    """Compares the settings with the table in the store and in the catalog, and decides on the null folder's name.

    ``known`` is ``None`` without a catalog, and for a table that it does not know. One of Iceberg is partitioned as
    the catalog says. With ``auto`` a table without a null folder gets ``default_null``.

    Raises what ``check_spec`` does.
    """
    if wanted.keeps_columns:
        columns = known.partition_spec if known else wanted.columns
        return replace(wanted, columns=columns, order=columns, null_value=HIVE_NULL)
    location = f"{store.uri}/{table_root}"
    found, values = existing_layout(store, table_root, wanted.columns, most_files)
    check_spec(wanted.columns, found, f"the table at {location}", wanted.virtual)
    if known:
        check_catalog_table(known, wanted)
    if wanted.null_value != "auto":
        return wanted
    return replace(wanted, null_value=null_folder_of(values) or default_null)


def check_catalog_table(table: CatalogTable, wanted: PartitionSpec) -> None:
    """Compares the partition columns with those of a table in the catalog, as ``check_spec`` does."""
    if table.partition_spec:  # the first files fill an empty one
        check_spec(wanted.order, [table.partition_spec], "the table in the catalog", wanted.virtual)


def check_spec(
    configured: Sequence[str], existing: Collection[tuple[str, ...]], where: str, virtual: Sequence[str] = ()
) -> None:
    """Compares the configured columns with those a table already has; warns if only the order differs.

    ``configured`` are the folders or, where a catalog is compared, all levels of the tree. ``virtual`` are those of
    them that are no folders. ``where`` names the table in messages. Raises ``ConfigError`` with both specs.
    """
    for spec in existing:
        if set(spec) != set(configured):
            raise ConfigError(
                "checking the table's partitioning",
                f"{where} is partitioned by {_listed(spec)}, HIVE_COLUMNS says {_listed(configured)}",
                f"Set HIVE_COLUMNS={_setting(spec, configured, virtual)} to go on with this table, "
                "or TABLE_NAME to begin another",
            )
    other = next((spec for spec in existing if tuple(configured) != spec), None)
    if other is not None:
        logger.warning(
            "%s has its partition columns in the order %s, HIVE_COLUMNS in the order %s: both work, but readers that "
            "list folders find two orders",
            where,
            _listed(other),
            _listed(configured),
        )


def _listed(columns: Sequence[str]) -> str:
    return "[" + ", ".join(columns) + "]" if columns else "[] (no partitioning)"


def _setting(spec: Sequence[str], configured: Sequence[str], virtual: Sequence[str]) -> str:
    """Formats HIVE_COLUMNS for a spec that was found; virtual levels stay virtual, for no folder shows them."""
    found = [f"~{name}" if name in virtual and name in configured else name for name in spec]
    others = [f"~{name}" for name in virtual if name not in spec and name not in configured]
    return ",".join(found + others)


def likely_meant(column: str, names: Iterable[str], setting: str = "HIVE_COLUMNS") -> str:
    """Advises on a column that rows lack: a similar name, or no path into an object. Empty without a guess."""
    folded = {name.casefold(): name for name in names if name != column}
    near = difflib.get_close_matches(column.casefold(), folded, n=1, cutoff=0.8)  # locaton is near to location
    if near:
        return f"Did you mean {folded[near[0]]}?"
    *_, last = path = column.split(".")
    if len(path) == 1 or setting == "HIVE_COLUMNS":  # the one that takes a path
        return ""
    keys = "".join(f'["{name}"]' for name in path)
    return (
        "A column is a field of the record, and no path into an object. "
        f'Write sdf["{last}"] = sdf{keys} in transform(), and {last} in {setting}'
    )
