"""Step 6: registers stored files in the catalog, with the indexes beside them, and the table before its first files."""

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
    """Registers files and the table in the table's catalog.

    Args:
        catalog: ``None`` registers nothing.
        known: the table as the catalog held it at the start, checked already; ``None`` if it did not know it.
    """

    def __init__(
        self,
        catalog: Catalog | None,
        location: TableLocation,
        wanted: PartitionSpec,
        topic: str,
        known: CatalogTable | None,
        new_lock: Callable[[], AbstractContextManager[Any]] = threading.Lock,
    ) -> None:
        self._catalog = catalog
        self.location = location
        self._wanted = wanted
        self._topic = topic
        self._known = known
        self.is_needed = catalog is not None  # whether files are registered in a catalog
        self.is_prepared = catalog is None  # whether the catalog is ready for an upload
        self._address = location.uri
        self._lock = new_lock()  # claims register too, and the catalog is for one thread at a time

    def as_known(self, rows: pa.Table) -> pa.Table:
        """Returns the rows with one column for all names of a column, without those dropped in the catalog."""
        return self._known.as_known(rows, self._wanted.order) if self._known else rows

    def computed(self) -> Sequence[Computed]:
        """Returns the folder columns that are in no record, as the catalog has them now."""
        return self._known.computed() if self._known else ()

    def prepare(self, *, has_batch: bool = True) -> None:
        """Checks, before the first upload, that the catalog has the table here; creates it where it is unknown.

        Args:
            has_batch: whether files may have been made already.

        Raises:
            RestartError: the catalog has it elsewhere, or with partitions that such files do not have.
        """
        with self._lock:
            if (catalog := self._catalog) is None or self.is_prepared:
                return
            found = self._known or catalog.table()  # another member may have created it since the start
            table = found or catalog.create_table(self.location.uri, self._wanted)
            if table is not self._known:
                self._check(table, has_batch=has_batch)
            if found:
                catalog.sync_properties(found, self._wanted)
            else:
                logger.info("registered the table at %s in the catalog", self.location.uri)
            self._known = table
            self._address = table.location if "://" in table.location else self.location.uri
            self.is_prepared = True
            catalog.add_source(self._topic)

    def write_indexes(self, files: Sequence[DataFile], folder: Path) -> list[LocalObject]:
        """Writes the indexes of virtual partitions that go beside these local files into this folder."""
        indexes = []
        for number, file in enumerate(files if self._wanted.virtual else ()):
            path = folder / f"index-{number}.parquet"
            if resolve_name(VIRTUAL_INDEX)(file.path, self._wanted.virtual, file.partition_values, path):
                indexes.append(LocalObject(path, index_key(file.key)))
        return indexes

    def new_registration(
        self, files: Sequence[DataFile], marks: Sequence[Mark] = (), *, has_counted: bool = False
    ) -> "Registration":
        """Returns a registration of one batch's files, with the marks of its partitions.

        Reads the footers of local files. ``has_counted``: the source's totals may have the files already.
        """
        wanted = files if self._catalog else ()
        described = [replace(file, footer=file.footer or pq.read_metadata(file.path)) for file in wanted]
        return Registration(self, described, marks, has_counted=has_counted)

    def register_again(self, files: Sequence[DataFile], marks: Sequence[Mark] = ()) -> None:
        """Registers files that may be registered already, without counting them for their source once more."""
        with blaming("catalog"):
            self.new_registration(files, marks, has_counted=True).run()

    def has(self, marks: Sequence[Mark]) -> bool:
        with self._lock, blaming("catalog"):
            return self._catalog is not None and self._catalog.has(marks)

    def portions(self, files: Sequence[DataFile]) -> Iterator[Sequence[DataFile]]:
        return self._catalog.portions(files) if self._catalog else iter(())

    def add(self, files: Sequence[DataFile], marks: Sequence[Mark], *, count: bool) -> None:
        """Sends one request; safe to repeat. The files get the address under which the catalog has the table."""
        self.prepare()
        if self._catalog is None:
            return
        named = [replace(file, uri=self._address + file.key.removeprefix(self.location.root)) for file in files]
        with self._lock:
            self._catalog.add_files(named, self._topic if count else None, marks)

    def _check(self, table: CatalogTable, *, has_batch: bool) -> None:
        if table.columns is None:
            check_catalog_table(table, self._wanted)
        elif {*table.partition_spec} != {*self._wanted.order} or (has_batch and table.computed()):
            raise self._moved(f"made it, partitioned by {', '.join(table.partitions)}", "these partitions")
        if table.location and not self.location.is_named_by(table.location):
            raise self._moved(f"registered it at {table.location}", "there")

    def _moved(self, how: str, what: str) -> RestartError:
        return RestartError(
            f"registering the table at {self.location.uri}",
            f"meanwhile another writer has {how}",
            f"Restart: the connector then writes {what}, beginning with what is not in the lake yet",
        )


class Registration:
    """Registers one batch's files, in several requests if needed, and remembers the finished ones.

    A request without an answer may have been carried out. Asked again, its files come without their source, in whose
    totals they would count twice; files that were not asked for yet come with it.
    ``has_counted``: the source's totals may have all of the files already.
    """

    def __init__(
        self, registrar: Registrar, files: Sequence[DataFile], marks: Sequence[Mark], *, has_counted: bool
    ) -> None:
        self._registrar = registrar
        self._missing = {file.key: file for file in files}
        self._marks = marks
        self._doubtful = set(self._missing if has_counted else ())

    def run(self) -> None:
        """Registers those of the files that are not registered yet; safe to repeat."""
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
