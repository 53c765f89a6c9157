"""The location of a table: that of the catalog, otherwise that of the settings."""

import logging
import re
from dataclasses import dataclass

from app.errors import ConfigError
from app.table.catalog_table import CatalogTable

logger = logging.getLogger(__name__)

_DOING = "finding the location of the table"
_WITHOUT_HOST = re.compile(r"^([^/@]+)@[^/]+")  # of Azure: abfss://container@account.dfs.core.windows.net/folder
_NEW_NAME = "or choose another TABLE_NAME"


@dataclass(frozen=True, slots=True)
class TableLocation:
    """The address of the store, and the key of the table's folder in it."""

    store_uri: str
    root: str

    @property
    def uri(self) -> str:
        """The folder's own address, without a slash at its end."""
        return f"{self.store_uri}/{self.root}"

    def is_named_by(self, location: str) -> bool:
        """Whether a registered location is this folder; raises ``ConfigError`` if it is in another store, or none."""
        return _root_of(location, self.store_uri) == self.root


def adopted(table: CatalogTable | None, configured: TableLocation, workspace_id: str | None) -> TableLocation:
    """Returns the catalog's location, because readers use it; the configured one if the catalog has none.

    On the platform's own storage, keys must not leave the folder ``workspace_id``.

    Raises:
        ConfigError: the location is not in the configured store, not in the workspace, or no folder.
    """
    if table is None or not table.location:
        return configured
    root = _root_of(table.location, configured.store_uri)
    if workspace_id and not root.startswith(f"{workspace_id}/"):
        raise ConfigError(
            _DOING,
            f"the catalog has it at {table.location}, outside of the workspace's folder {workspace_id}",
            f"Deploy the connector in the table's workspace, {_NEW_NAME}",
        )
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
        raise ConfigError(
            _DOING,
            f"the catalog has it at {location}, which is not in {store_uri}",
            f"Point the storage to where the table is, {_NEW_NAME}",
        )
    root = path.removeprefix(bucket).strip("/")
    if {"", ".", ".."}.intersection(root.split("/")):
        raise ConfigError(
            _DOING, f"the catalog has it at {location}, which is no folder of its own", f"Correct it there, {_NEW_NAME}"
        )
    return root
