"""Step 6: registers the stored files in the catalog, and the table itself before its first files."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from app.catalog.base import Catalog, NotTakenError, TooLargeError
from app.catalog.column_stats import column_stats
from app.errors import ConfigError, FatalError, cut
from app.formatting import counted
from app.model import Mark, StoredFile
from app.storage.base import ObjectStore, StoredObject
from app.table.catalog_table import CatalogTable, TableProperties
from app.table.compatibility import check_catalog_table
from app.table.location import TableLocation
from app.table.parquet_reader import read_footer

logger = logging.getLogger(__name__)

_LEFT_OUT = (
    "%s left out of column %s: it was dropped from the table, or has two names there and a record has both. "
    "docs/iceberg.md says how to get it back"
)


def stored_file(
    store: ObjectStore, found: StoredObject, partition_values: Mapping[str, str], stats_columns: frozenset[str] | None
) -> StoredFile:
    """Returns what the catalog learns of a file in the store, with the zone maps of these columns (``None``: of all).

    Raises:
        ConnectorError: of the store; ``FatalError`` also for an object that is no Parquet file.
    """
    footer = read_footer(store, found.key, found.size)
    return StoredFile(
        key=found.key,
        uri=f"{store.uri}/{found.key}",
        size=found.size,
        rows=footer.num_rows,
        partition_values=partition_values,
        last_modified=found.last_modified,
        column_stats=column_stats(footer, stats_columns),
        footer=footer,
    )


class MovedError(FatalError):
    """The table was registered at another location since the start; the next start writes there."""

    exit_code = 75


class Registrar:
    """Registers files and the table in the table's catalog.

    Args:
        catalog: ``None`` registers nothing.
        known: the table as the catalog held it at the start, checked already; ``None`` if it did not know it.
        on_registered: called with files after they were registered; must neither wait nor fail.
    """

    def __init__(
        self,
        catalog: Catalog | None,
        location: TableLocation,
        wanted: TableProperties,
        topic: str,
        known: CatalogTable | None,
        on_registered: Callable[[Sequence[StoredFile]], None] | None = None,
    ) -> None:
        self._catalog = catalog
        self._location = location
        self._wanted = wanted
        self._topic = topic
        self._known = known
        self._on_registered = on_registered
        self._is_prepared = False
        self._left_out: set[str] = set()
        self._address = location.uri
        self._lock = threading.Lock()  # claims register too, and the catalog is for one thread at a time

    def in_files(self, rows: pa.Table) -> pa.Table:
        """Returns the rows with one column for all names of a column, without those dropped in the catalog."""
        fields = self._known.fields() if self._known else {}
        kept: dict[str, pa.ChunkedArray] = {}
        for name, values in zip(rows.column_names, rows.columns, strict=True) if fields else ():
            its, left = fields.get(name, rows.field(name)), len(rows) - values.null_count
            is_partition = its is not None and its.name in self._wanted.partition_order
            if left and is_partition and its is not None and its.name != name:
                raise ConfigError(
                    f"writing the column {cut(repr(name), 80)}",
                    f"it is another name of the partition column {its.name}, whose values are those of that name alone",
                    f"Rename the field to {its.name} in transform(), or rename the column back in the table",
                )
            if its is not None and not is_partition:
                former, kind = kept.get(its.name), values.type if name == its.name else its.type
                with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
                    cast = values.cast(kind if former is None else former.type)
                    kept[its.name] = cast if former is None else pc.coalesce(former, cast)
                    left -= (len(rows) if former is None else former.null_count) - kept[its.name].null_count
            if left:
                level = logging.INFO if name in self._left_out else logging.WARNING
                logger.log(level, _LEFT_OUT, counted(left, "value"), cut(repr(name), 80))
                self._left_out.add(name)
        return pa.table(kept) if kept else rows

    @property
    def is_needed(self) -> bool:
        """Whether files are registered in a catalog."""
        return self._catalog is not None

    @property
    def is_prepared(self) -> bool:
        """Whether the catalog is ready for an upload."""
        return self._catalog is None or self._is_prepared

    def prepare(self) -> None:
        """Checks, before the first upload, that the catalog has the table here; creates it where it is unknown.

        Raises:
            MovedError: the catalog has it elsewhere.
        """
        with self._lock:
            if self._catalog is not None and not self._is_prepared:
                self._prepare(self._catalog)

    def new_registration(self, marks: Sequence[Mark] = ()) -> "Registration":
        """Returns a registration for the files of one batch, with the marks of its partitions."""
        return Registration(self._portions, partial(self._add, marks=marks))

    def register_again(self, files: Sequence[StoredFile], marks: Sequence[Mark] = ()) -> None:
        """Registers files that may be registered already, without counting them for their source once more."""
        Registration(self._portions, partial(self._add, marks=marks), has_counted=True).run(files)

    def has(self, marks: Sequence[Mark]) -> bool:
        """Whether the catalog knows that it has the rows up to these marks."""
        with self._lock:
            return self._catalog is not None and self._catalog.has(marks)

    def _portions(self, files: Sequence[StoredFile]) -> Iterator[Sequence[StoredFile]]:
        return self._catalog.portions(files) if self._catalog else iter(())

    def _add(self, files: Sequence[StoredFile], *, count: bool, marks: Sequence[Mark]) -> None:
        """Sends one request. The files get the address under which the catalog has the table."""
        self.prepare()
        if self._catalog is None:
            return
        named = [replace(file, uri=self._address + file.uri.removeprefix(self._location.uri)) for file in files]
        with self._lock:
            self._catalog.add_files(named, self._topic if count else None, marks)
        if self._on_registered is not None:
            self._on_registered(named)

    def _prepare(self, catalog: Catalog) -> None:
        table = self._known or self._found_meanwhile(catalog)
        if table is None:
            table = catalog.create_table(self._location.uri, self._wanted)
            self._check(table)
            logger.info("registered the table at %s in the catalog", self._location.uri)
        else:
            catalog.sync_properties(table, self._wanted)
        self._known = table
        self._address = table.location if "://" in table.location else self._location.uri
        self._is_prepared = True
        catalog.add_source(self._topic)

    def _found_meanwhile(self, catalog: Catalog) -> CatalogTable | None:
        """Returns the table, if another member has created it since the start."""
        table = catalog.table()
        if table is not None:
            self._check(table)
        return table

    def _check(self, table: CatalogTable) -> None:
        check_catalog_table(table, self._wanted.partition_order, self._wanted.virtual_columns)
        if table.location and not self._location.is_named_by(table.location):
            raise MovedError(
                f"registering the table at {self._location.uri}",
                f"meanwhile another writer has registered it at {table.location}",
                "Restart: the connector then writes there, beginning with what is not in the lake yet",
            )


class Registration:
    """Registers one batch's files, in several requests if needed, and remembers the finished ones.

    A request without an answer may have been carried out. Asked again, its files come without their source, in whose
    totals they would count twice; files that were not asked for yet come with it.

    Args:
        portions: divides files into those that one request takes.
        add: sends one request; safe to repeat with the same files.
        has_counted: whether the source's totals may have all of the files already.
    """

    def __init__(
        self,
        portions: Callable[[Sequence[StoredFile]], Iterator[Sequence[StoredFile]]],
        add: Callable[..., None],
        *,
        has_counted: bool = False,
    ) -> None:
        self._portions = portions
        self._add = add
        self._has_counted = has_counted
        self._registered: set[str] = set()
        self._doubtful: set[str] = set()

    def run(self, files: Sequence[StoredFile]) -> None:
        """Registers those of the files that are not registered yet; safe to repeat, also with others."""
        missing = [file for file in files if file.key not in self._registered]
        doubtful = [file for file in missing if self._has_counted or file.key in self._doubtful]
        fresh = [file for file in missing if not self._has_counted and file.key not in self._doubtful]
        for these, count in ((doubtful, False), (fresh, True)):
            for portion in self._portions(these):
                self._ask(portion, count=count)

    def _ask(self, files: Sequence[StoredFile], *, count: bool) -> None:
        keys = {file.key for file in files}
        try:
            self._add(files, count=count)
        except TooLargeError:
            if len(files) == 1:
                raise
            half = len(files) // 2
            self._ask(files[:half], count=count)
            self._ask(files[half:], count=count)
        except NotTakenError:
            raise
        except Exception:
            self._doubtful |= keys
            raise
        else:
            self._registered |= keys
