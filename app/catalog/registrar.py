"""Step 6: registers stored files in the catalog. Also writes indexes, and creates the table before the first files."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.catalog.base import Catalog, NotTakenError, RestartError, TooLargeError
from app.errors import blaming
from app.model import DataFile, LocalObject, Mark
from app.parts import VIRTUAL_INDEX
from app.table.existing_table import CatalogTable, Computed, TableLocation, check_catalog_table
from app.table.layout import PartitionSpec, index_key

logger = logging.getLogger(__name__)


class Registrar:
    """Registers the table and its files in the catalog.

    Args:
        catalog: The catalog; ``None`` if nothing is registered.
        table: The catalog's table at the start, already checked; ``None`` if the catalog did not contain the table.
    """

    def __init__(
        self,
        catalog: Catalog | None,
        location: TableLocation,
        spec: PartitionSpec,
        topic: str,
        table: CatalogTable | None,
        new_lock: Callable[[], AbstractContextManager[Any]] = threading.Lock,
    ) -> None:
        self._catalog = catalog
        self.location = location
        self._spec = spec
        self._topic = topic
        self._table = table
        self.is_needed = catalog is not None  # whether files are registered in a catalog
        self.is_prepared = catalog is None  # whether the catalog is ready for an upload
        self._address = location.uri
        self._lock = new_lock()  # claims register files too, and only one thread may use the catalog at a time

    def as_known(self, rows: pa.Table) -> pa.Table:
        """Returns the rows with the catalog's columns: renamed columns are merged, and dropped columns are removed."""
        return self._table.as_known(rows, self._spec.order) if self._table else rows

    def computed(self) -> Sequence[Computed]:
        """Returns the catalog's present folder columns whose values are not in the records."""
        return self._table.computed() if self._table else ()

    def prepare(self) -> None:
        """Checks the table's location in the catalog before the first upload, or creates the missing table.

        Raises ``RestartError`` if the catalog's table has a different location.
        """
        with self._lock:
            if (catalog := self._catalog) is None or self.is_prepared:
                return
            existing = self._table or catalog.table()  # another member may have created it since the start
            table = existing or catalog.create_table(self.location.uri, self._spec)
            if table is not self._table:
                self._check(table)
            if existing:
                catalog.sync_properties(existing, self._spec)
            else:
                logger.info("registered the table at %s in the catalog", self.location.uri)
            self._table = table
            self._address = table.location if "://" in table.location else self.location.uri
            self.is_prepared = True
            catalog.add_source(self._topic)

    def write_indexes(self, files: Sequence[DataFile], folder: Path) -> list[LocalObject]:
        indexes = []
        for number, file in enumerate(files if self._spec.virtual else ()):
            path = folder / f"index-{number}.parquet"
            if resolve_name(VIRTUAL_INDEX)(file.path, self._spec.virtual, file.partition_values, path):
                indexes.append(LocalObject(path, index_key(file.key)))
        return indexes

    def new_registration(
        self, files: Sequence[DataFile], marks: Sequence[Mark] = (), *, has_counted: bool = False
    ) -> "Registration":
        """Returns a registration of one batch's files. ``marks`` are the end offsets of the batch's partitions.

        Reads the footers of local files. ``has_counted``: the totals of the source may already include the files.
        """
        files = files if self._catalog else ()
        described = [replace(file, footer=file.footer or pq.read_metadata(file.path)) for file in files]
        return Registration(self, described, marks, has_counted=has_counted)

    def register_again(self, files: Sequence[DataFile], marks: Sequence[Mark] = ()) -> None:
        """Registers files that may be registered already. The totals of the source do not change."""
        with blaming("catalog"):
            self.new_registration(files, marks, has_counted=True).run()

    def has(self, marks: Sequence[Mark]) -> bool:
        with self._lock, blaming("catalog"):
            return self._catalog is not None and self._catalog.has(marks)

    def portions(self, files: Sequence[DataFile]) -> Iterator[Sequence[DataFile]]:
        return self._catalog.portions(files) if self._catalog else iter(())

    def add(self, files: Sequence[DataFile], marks: Sequence[Mark], *, count: bool) -> None:
        """Sends one request, which may be repeated. Each file's URI begins with the table's address in the catalog."""
        self.prepare()
        if self._catalog is None:
            return
        files = [replace(file, uri=self._address + file.key.removeprefix(self.location.root)) for file in files]
        with self._lock:
            self._catalog.add_files(files, self._topic if count else None, marks)

    def _check(self, table: CatalogTable) -> None:
        check_catalog_table(table, self._spec)
        if table.location and not self.location.is_named_by(table.location):
            raise RestartError(
                f"registering the table at {self.location.uri}",
                f"meanwhile another writer has registered it at {table.location}",
                "Restart: the connector then writes there, beginning with the first record that is not in the lake",
            )


class Registration:
    """Registers one batch's files, in several requests if needed. A repeated run skips the registered files.

    The catalog may have carried out a request without an answer. A repeated registration omits the source, because the
    catalog would count these files twice. Files that were not in a request yet are registered with the source.
    ``has_counted``: the totals of the source may already include all files.
    """

    def __init__(
        self, registrar: Registrar, files: Sequence[DataFile], marks: Sequence[Mark], *, has_counted: bool
    ) -> None:
        self._registrar = registrar
        self._missing = {file.key: file for file in files}
        self._marks = marks
        self._doubtful = set(self._missing if has_counted else ())

    def run(self) -> None:
        """Registers the files that are not registered yet. A call may be repeated."""
        for is_doubtful in (True, False):
            files = [file for key, file in self._missing.items() if (key in self._doubtful) == is_doubtful]
            for portion in self._registrar.portions(files):
                self._ask(portion, count=not is_doubtful)

    def _ask(self, files: Sequence[DataFile], *, count: bool) -> None:
        try:
            self._registrar.add(files, self._marks, count=count)
        except TooLargeError:
            if len(files) == 1:
                raise
            half = len(files) // 2
            self._ask(files[:half], count=count)
            self._ask(files[half:], count=count)
        except NotTakenError:
            raise
        except Exception:
            self._doubtful.update(file.key for file in files)
            raise
        else:
            for file in files:
                del self._missing[file.key]
