"""Stores other than the MinIO of every benchmark, each with a server of its own where it needs one."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from app.parts.azure.store import AzureStore
from app.parts.gcs.store import GcsStore
from app.storage.base import ObjectStore, StoredObject
from app.storage.local.store import LocalStore
from app.storage.targets import AzureTarget, GcsTarget
from bench.lake import DOWNLOADS_AT_ONCE
from dev.azurite import LocalAzurite
from dev.gcs_server import LocalGcsServer

_EMULATOR = "STORAGE_EMULATOR_HOST"


class Home(Protocol):
    """Where the connector may keep a table."""

    def variables(self, name: str) -> Mapping[str, str]:
        """The connector's variables for the bucket, container or folder of that name."""
        ...

    def make(self, name: str) -> None:
        """Make the bucket, container or folder."""
        ...

    def open(self, name: str) -> ObjectStore:
        """Open it for reading."""
        ...


class AzureHome:
    """A container of Azurite."""

    def __init__(self, server: LocalAzurite) -> None:
        self._server = server

    def variables(self, name: str) -> Mapping[str, str]:
        return {"STORAGE_URL": f"az://{name}", "AZURE_STORAGE_CONNECTION_STRING": self._server.connection_string}

    def make(self, name: str) -> None:
        self._server.client().create_container(name)

    def open(self, name: str) -> ObjectStore:
        return AzureStore(
            AzureTarget(name, connection_string=self._server.connection_string),
            max_workers=DOWNLOADS_AT_ONCE,
        )


class GcsHome:
    """A bucket of fake-gcs-server."""

    def __init__(self, server: LocalGcsServer) -> None:
        self._server = server

    def variables(self, name: str) -> Mapping[str, str]:
        return {"STORAGE_URL": f"gs://{name}"}

    def make(self, name: str) -> None:
        self._server.client().create_bucket(name)

    def open(self, name: str) -> ObjectStore:
        return GcsStore(GcsTarget(name), max_workers=DOWNLOADS_AT_ONCE)


class FolderHome:
    """A folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def variables(self, name: str) -> Mapping[str, str]:
        return {"STORAGE_URL": (self._folder / name).as_uri()}

    def make(self, name: str) -> None:
        (self._folder / name).mkdir()

    def open(self, name: str) -> ObjectStore:
        return LocalStore(self._folder / name)


@contextmanager
def azurite() -> Iterator[Home]:
    with LocalAzurite() as server:
        yield AzureHome(server)


@contextmanager
def gcs_server() -> Iterator[Home]:
    with LocalGcsServer() as server:
        os.environ[_EMULATOR] = server.endpoint_url  # read by Google's library, here and in the connector
        try:
            yield GcsHome(server)
        finally:
            del os.environ[_EMULATOR]


@contextmanager
def local_folder() -> Iterator[Home]:
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        yield FolderHome(Path(folder))


def copy(store: ObjectStore, folder: Path) -> None:
    """Bring all objects of the store into the folder, under their keys and with the times that they came in."""
    with ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as pool:
        list(pool.map(lambda found: _copy_one(store, found, folder), store.list("")))


def _copy_one(store: ObjectStore, found: StoredObject, folder: Path) -> None:
    path = folder / found.key
    path.parent.mkdir(parents=True, exist_ok=True)
    store.download(found.key, path)
    came_in = found.last_modified.timestamp()
    os.utime(path, (came_in, came_in))
