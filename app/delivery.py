"""Steps 5 and 6: upload the written files with a pool of threads, then make them known to the catalog."""

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from app.catalog.base import Catalog, CatalogTable, TableProperties
from app.errors import RetryableError
from app.model import StoredFile
from app.retry import Stopped
from app.storage.base import ObjectStore, StoredObject
from app.table import check_catalog_table

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Parcel:
    """A local file that is to be stored under ``key``, as long as the assignment with this token stands."""

    path: Path
    key: str
    owner: str


class Upload:
    """The upload of one batch's files. It remembers what is stored already, so that it can be repeated.

    Args:
        parcels: what to store.
        store: where to.
        pool: its size is the number of uploads at the same time.
        may_upload: whether the assignment with this token still writes its partition. Files of others are left out,
            also at a repetition: while an upload waits for its store to come back, the partition's next owner writes
            the same rows. Asked right before each upload, on its thread; may raise as an upload may.
    """

    def __init__(
        self,
        parcels: Sequence[Parcel],
        store: ObjectStore,
        pool: ThreadPoolExecutor,
        may_upload: Callable[[str], bool],
    ) -> None:
        self._missing = list(parcels)
        self._stored: list[tuple[Parcel, StoredObject]] = []
        self._store = store
        self._pool = pool
        self._may_upload = may_upload

    def run(self) -> None:
        """Upload what is not stored yet.

        Raises:
            FatalError, ConfigError: if any file failed for good.
            RetryableError: if files are missing that a repetition may bring.
            Stopped: the pool was shut down meanwhile.
        """
        attempts = [(parcel, self._begin(parcel)) for parcel in self._missing]
        self._missing = []
        errors: list[BaseException] = []
        for parcel, attempt in attempts:
            error = _error_of(attempt)
            if error is not None:
                self._missing.append(parcel)
                errors.append(error)
            elif (stored := attempt.result()) is not None:
                self._stored.append((parcel, stored))
        lasting = [error for error in errors if not isinstance(error, RetryableError)]
        if errors:
            raise (lasting or errors)[0]

    def stored(self, owners: Collection[str]) -> Mapping[str, StoredObject]:
        """The uploaded files of these assignments, by their keys."""
        return {parcel.key: stored for parcel, stored in self._stored if parcel.owner in owners}

    def _begin(self, parcel: Parcel) -> Future[StoredObject | None]:
        try:
            return self._pool.submit(self._put, parcel)
        except RuntimeError:  # the pool was shut down between two of them
            raise Stopped from None

    def _put(self, parcel: Parcel) -> StoredObject | None:
        return self._store.upload(parcel.path, parcel.key) if self._may_upload(parcel.owner) else None


def _error_of(attempt: Future[StoredObject | None]) -> BaseException | None:
    """Wait for the upload. ``concurrent.futures.wait`` would wait for ever for one that a shutdown has cancelled."""
    try:
        return attempt.exception()
    except CancelledError:
        raise Stopped from None


class Registrar:
    """Makes files known to the catalog, and the table itself before its first files.

    Args:
        catalog: where; ``None`` registers nothing.
        location: the table's URI.
        wanted: what the settings say about the table.
        topic: where the files come from.
        known: the table as the catalog held it at the start, checked already; ``None`` if it did not know it.
    """

    def __init__(
        self, catalog: Catalog | None, location: str, wanted: TableProperties, topic: str, known: CatalogTable | None
    ) -> None:
        self._catalog = catalog
        self._location = location
        self._wanted = wanted
        self._topic = topic
        self._known = known
        self._is_prepared = False
        self._lock = threading.Lock()  # claims register too, and the catalog is for one thread at a time

    @property
    def is_needed(self) -> bool:
        """Whether there is a catalog that gets to know anything."""
        return self._catalog is not None

    def register(self, files: Sequence[StoredFile]) -> None:
        """Register the files in one request; safe to repeat.

        Raises:
            ConnectorError: of the class that tells whether a repetition may help.
        """
        self._register(files, self._topic)

    def register_again(self, files: Sequence[StoredFile]) -> None:
        """Register files that may be registered already, without counting them for their source once more.

        Raises:
            ConnectorError: as ``register``.
        """
        self._register(files, None)

    def _register(self, files: Sequence[StoredFile], topic: str | None) -> None:
        if self._catalog is None or not files:
            return
        with self._lock:
            if not self._is_prepared:
                self._prepare(self._catalog)
            self._catalog.add_files(files, topic)

    def _prepare(self, catalog: Catalog) -> None:
        if self._known is None:
            self._known = self._found_meanwhile(catalog)
        if self._known is None:
            self._check(catalog.create_table(self._location, self._wanted))
            logger.info("registered the table at %s in the catalog", self._location)
        else:
            catalog.sync_properties(self._known, self._wanted)
        self._is_prepared = True
        catalog.add_source(self._topic)

    def _found_meanwhile(self, catalog: Catalog) -> CatalogTable | None:
        """The table that another member has created since the start, if any has."""
        table = catalog.table()
        if table is not None:
            self._check(table)
        return table

    def _check(self, table: CatalogTable) -> None:
        check_catalog_table(table, self._location, self._wanted.partition_order, self._wanted.virtual_columns)
