"""What a sink has left behind: files, their entries in the catalog, and the requests that brought these there."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.fakes.catalog_server import CatalogServer, Received
from tests.parity.case import BUCKET, NUMBER, ROOT, TABLE

Row = Mapping[str, Any]
_CHANGING = ("PUT", "POST", "PATCH")


@dataclass(frozen=True)
class FoundFile:
    """A Parquet file of the table: ``types`` are those of its leaves, by paths such as ``a.b`` and ``a[]``."""

    folder: str
    name: str
    rows: Sequence[Row]
    types: Mapping[str, pa.DataType]
    entry: Mapping[str, Any] | None = None
    index: "FoundFile | None" = None

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(row[NUMBER] for row in self.rows)


@dataclass(frozen=True)
class Request:
    """A request that changes the catalog; ``about`` is its method and what follows the table's name in its path."""

    about: str
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    files: Sequence[FoundFile]
    requests: Sequence[Request]


@dataclass
class Lake:
    """Looks at a folder and a catalog again and again, and gives what is new each time."""

    folder: Path
    catalog: CatalogServer
    _seen: set[Path] = field(default_factory=set)
    _requests: int = 0

    def news(self) -> Outcome:
        """What has come since the last look."""
        received = self.catalog.requests
        requests = [_request(each) for each in received[self._requests :] if each.method in _CHANGING]
        self._requests = len(received)
        entries = {_key(file["file_path"]): file for file in self.catalog.files(TABLE)}
        paths = sorted(set(self.folder.rglob("*.parquet")) - self._seen)
        self._seen.update(paths)
        return Outcome([self._file(path, entries) for path in paths if path.parent.name != ".vidx"], requests)

    def _file(self, path: Path, entries: Mapping[str, Any]) -> FoundFile:
        sidecar = path.parent / ".vidx" / path.name
        entry = entries.get(path.relative_to(self.folder).as_posix())
        return _read(path, self.folder / ROOT, entry, _read(sidecar, self.folder) if sidecar.exists() else None)


def _read(path: Path, root: Path, entry: Any = None, index: FoundFile | None = None) -> FoundFile:
    table = pq.ParquetFile(path).read()
    types = dict(leaf for column in table.schema for leaf in _scalars(column.name, column.type))
    return FoundFile(path.parent.relative_to(root).as_posix(), path.name, table.to_pylist(), types, entry, index)


def _scalars(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """The columns of a file as its readers see them: structs and lists taken apart."""
    if pa.types.is_struct(kind):
        for inner in kind:
            yield from _scalars(f"{path}.{inner.name}", inner.type)
    elif pa.types.is_list(kind):
        yield from _scalars(f"{path}[]", kind.value_type)
    else:
        yield path, kind


def _key(address: str) -> str:
    """The key in a file's address, as a folder has it: no name of a folder is empty there, or ``..``."""
    return posixpath.normpath(address.removeprefix(f"s3://{BUCKET}/"))


def _request(received: Received) -> Request:
    _, _, tail = received.path.partition(f"/tables/{TABLE}")
    return Request(f"{received.method} {tail.strip('/')}".strip(), received.body)
