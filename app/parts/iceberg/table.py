"""Commits the files of each batch to an Iceberg table, through pyiceberg. This is step 6 of a delivery.

A repeated Iceberg commit would list the files twice. Therefore a table property contains the end offset of each
topic-partition. Each try reads the table first. One transaction on this snapshot adds the files and sets the property.
After a conflict, a refusal, an HTML page or a lost answer, the next try reads the table again. Comparing names of files
is not enough, because compaction moves rows to other files.
"""

import logging
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, TypeVar
from uuid import UUID

import pyarrow as pa
from pydantic import ValidationError as InvalidAnswerError
from pyiceberg import catalog as libraries
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NotInstalledError,
    OAuthError,
    TableAlreadyExistsError,
    UnauthorizedError,
    ValidationError,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IDENTITY, TimeTransform, parse_transform

from app import DOCUMENTS
from app.catalog.base import Catalog, RestartError
from app.errors import ConfigError, ConnectorError, FatalError, RetryableError, cut, innermost, last_words, one_line
from app.model import DataFile, Mark
from app.parts.iceberg.catalog_address import IcebergTarget
from app.parts.iceberg.column_names import KnownColumns
from app.parts.iceberg.entries import columns_of_table, entries, fields_of_files, map_names, prepare, type_of
from app.parts.iceberg.partitions import PartitionField, folder_name, is_written, new_record, partitions, spec_of
from app.parts.iceberg.restricted_catalog import NAME, PROVIDER, properties_with, refuse_provider, restrict
from app.parts.iceberg.store_io import ADDRESS, OWNS, STORE, StoreIO
from app.parts.iceberg.table_metadata import are_in, expired, properties_of
from app.storage.base import ObjectStore
from app.table.existing_table import CatalogTable
from app.table.layout import PartitionSpec
from app.table.parquet_reader import schema_of
from app.work_pool import WorkPool

logger = logging.getLogger(__name__)

DEADLINE_SECONDS = 60.0  # for each request, because pyiceberg has no time-outs
_SECONDS_A_FILE = 0.1  # more for each file: a manifest entry needs 30 ms if the table has 300 columns
_MOST_SILENT = 30  # maximum number of requests without an answer; then the process restarts
_MOST_CONFLICTS = 50  # maximum in one try; then the pipeline reports the error
_MOST_REFUSALS = 10  # maximum for one commit; then the process restarts
_LONGEST_PAUSE = 2.0  # after a conflict, in seconds
_COMMITS_BETWEEN_EXPIRIES = 50
_LONGEST_CAUSE = 1_000  # characters; a library may quote a whole answer
_FORMAT = 2  # the newest format version that pyiceberg writes
_ANOTHER = "If it cannot be changed back, set TABLE_NAME to begin another table"
_PARTITIONS = "Check HIVE_COLUMNS and COLUMN_TYPES"
_RESTART = "A restart creates it, or continues with the table of this name"
_NEW_TABLE: Final = {
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
    # pyiceberg merges manifests in Python. Merging manifests of the default size, 8 MB, needed 5 s.
    "commit.manifest.target-size-bytes": str(512 << 10),
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
# After one of these errors, the result of a commit is unknown. Some catalogs answer 400 after a conflict. If a gateway
# answers with an HTML page, pyiceberg raises ValueError.
REFUSALS = (BadRequestError, ValueError)
_LASTING = (*REFUSALS, ArithmeticError, NotImplementedError, NotInstalledError, TypeError, ValidationError)
_T = TypeVar("_T")


class IcebergTable(Catalog):
    """A table of an Iceberg catalog. Users may change the table's properties. Only one thread may use this object."""

    def __init__(self, target: IcebergTarget, store: ObjectStore, _: object = None) -> None:
        own = {**target.properties, "py-io-impl": f"{StoreIO.__module__}.{StoreIO.__name__}"}
        self._properties = properties_with(own, delegation=None)
        self._properties |= {STORE: store, ADDRESS: target.address, OWNS: self._owns}
        self._store = store
        self._address = target.address
        self._namespace = tuple(target.namespace.split("."))
        self._identifier = (*self._namespace, target.table)
        self.words = f"the Iceberg table {'.'.join(self._identifier)}"
        self._group = target.group
        self._keep_days = target.keep_days
        self._catalog: libraries.Catalog | None = None
        self._table: Table | None = None  # the table as last read; ``None`` after each error
        self._uuid: UUID | None = None
        self._location: str | None = None  # the location in the first answer
        self._transforms = target.transforms
        self._columns = KnownColumns()
        self._partitions: Sequence[PartitionField] = ()
        self._texts: frozenset[str] | None = None  # the text columns of partitions in the first answer
        self._commits = 0
        self._silent: list[Future[Any]] = []  # requests that have not been answered yet

    # --- the interface ``app.catalog.base.Catalog`` -----------------------------------------------------------------

    def check(self) -> CatalogTable | None:
        """Return the table, see ``table``. Raise ``ConfigError`` if the table is missing and cannot be created."""
        table = self.table()
        if table is None:
            self._check_transforms()
        return table

    def table(self) -> CatalogTable | None:
        """Return the table, see ``Catalog.table``. Raise ``ConfigError`` if the connector cannot write this table."""
        return self.ask(f"reading {self.words}", self._read)

    def create_table(self, location: str, spec: PartitionSpec) -> CatalogTable:
        """Create the table with its partition columns. The first commit adds the other columns."""
        address = self._address + location.removeprefix(self._store.uri)
        self._check_transforms()
        self.ask(f"creating {self.words}", lambda: self._create(address, spec.order))
        created = self.table()
        if created is None:
            hint = "If a view has this name, set TABLE_NAME to another name"
            raise RetryableError(f"creating {self.words}", "it is not in the catalog yet", hint)
        return created

    def has(self, marks: Sequence[Mark]) -> bool:
        def has() -> bool:
            table = self.load()
            return table is not None and are_in(table.properties, self._group, marks)

        return self.ask(f"reading {self.words}", has)

    def add_files(self, files: Sequence[DataFile], topic: str | None, marks: Sequence[Mark] = ()) -> None:  # noqa: ARG002
        """Append the files of a batch if the table doesn't contain them yet; see ``app.catalog.base.Catalog``."""
        seconds = DEADLINE_SECONDS + len(files) * _SECONDS_A_FILE
        self.ask(f"committing files to {self.words}", lambda: self._append(files, marks), seconds)

    # --- on a separate thread ---------------------------------------------------------------------------------------

    def ask(self, doing: str, work: Callable[[], _T], seconds: float | None = None) -> _T:
        """Run ``work`` on a thread, and raise ``RetryableError`` after the deadline. The thread may still continue."""
        self._silent = [answer for answer in self._silent if not answer.done()]
        if len(self._silent) >= _MOST_SILENT:
            raise RestartError(doing, f"{_MOST_SILENT} requests had no answer", "A restart opens new connections")
        answer = WorkPool("iceberg").submit(work)
        try:
            return answer.result(DEADLINE_SECONDS if seconds is None else seconds)
        except TimeoutError:
            self._silent.append(answer)
            raise RetryableError(doing, "no answer in time") from None
        except Exception as error:  # noqa: BLE001 - of any catalog's library
            self._table = None
            failure = translated(doing, error.with_traceback(None))  # the traceback would keep data in memory
        raise failure

    def load(self) -> Table | None:
        if self._catalog is None:
            self._catalog = restrict(libraries.load_catalog(NAME, **self._properties))
        try:
            table = self._catalog.load_table(self._identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        if self._uuid not in (None, table.metadata.table_uuid):
            raise RestartError(f"reading {self.words}", "somebody has dropped it and created it again", _RESTART)
        self._uuid = table.metadata.table_uuid
        return table

    def _read(self) -> CatalogTable | None:
        table = self.load()
        if table is None:
            return None
        self._check(table.metadata)
        self._learn(table.metadata)
        self._location = self._location or table.location().rstrip("/")
        columns = pa.schema(
            [field.with_name(name) for name, field in self._columns.fields.items() if field is not None]
        )
        texts = tuple(each.name for each in self._partitions if each.is_text_column)
        if self._texts is None:
            self._texts = frozenset(texts)
            if table.metadata.sort_order().fields:
                logger.warning("%s has a sort order, but the connector does not use it. See SORT_COLUMN", self.words)
        return CatalogTable(
            table.location().rstrip("/"),
            texts,
            columns=columns,
            as_known=self._columns.as_known,
            computed=lambda: [each for each in self._partitions if not each.is_text_column],
            partitions=tuple(each.words for each in self._partitions),
        )

    def _owns(self, location: str) -> bool:
        return self._location is not None and location.rpartition("/")[0] == f"{self._location}/metadata"

    def _learn(self, metadata: TableMetadata) -> None:
        """Store the columns and partitions for the next files."""
        self._columns.fields, self._partitions = fields_of_files(metadata), partitions(metadata)

    def _check(self, metadata: TableMetadata) -> None:
        """Raise ``ConfigError`` if the connector cannot write files for this table."""
        if provider := metadata.properties.get(PROVIDER):
            refuse_provider(provider, metadata.location, metadata.properties)
        schema = metadata.schema()
        required = ", ".join(field.name for field in schema.fields if field.required)
        cause = f"requires values in {required}" if required else ""
        if metadata.format_version > _FORMAT:
            cause = f"has format version {metadata.format_version}"
        try:
            refused = (each for each in partitions(metadata) if not is_written(each.transform, each.kind))
            texts = ", ".join(f"{each.words}, of type {each.kind}" for each in refused)
            cause = cause or (f"is partitioned by {texts}" if texts else "")
        except ValueError as error:
            cause = cause or str(error)
        if cause:
            raise ConfigError(f"continuing {self.words}", f"it {cause}, which this connector cannot write", _ANOTHER)

    def _check_transforms(self) -> None:
        """Raise ``ConfigError`` if the connector does not support the partitions of the new table."""
        of_time = [name for words, name, _ in self._transforms if isinstance(parse_transform(words), TimeTransform)]
        if len({*of_time}) < len(of_time):
            cause = f"it is partitioned by several times of {max(of_time, key=of_time.count)}: keep only one of them"
            raise ConfigError(f"creating {self.words}", cause, _PARTITIONS)
        for words, name, kind in self._transforms:
            if kind is None or pa.types.is_nested(kind) or not is_written(parse_transform(words), type_of(kind)):
                cause = f"{words} does not accept {name}, whose type is {kind}"
                cause = f"a new table by {words} needs the type of {name}" if kind is None else cause
                raise ConfigError(f"creating {self.words}", cause, _PARTITIONS)

    def _create(self, location: str, partition_columns: Sequence[str]) -> None:
        assert self._catalog is not None, "``load`` was called before"  # noqa: S101
        try:
            for depth in range(1, len(self._namespace) + 1):
                self._catalog.create_namespace_if_not_exists(self._namespace[:depth])
        except ForbiddenError:
            logger.debug("the namespace exists, or the next request fails")
        sources = {name: kind for _, name, kind in self._transforms}
        schema = pa.schema({**sources, **dict.fromkeys(partition_columns, pa.string())}.items())
        fields = [(IDENTITY, name) for name in partition_columns]
        fields += [(words, name) for words, name, _ in self._transforms]
        try:
            with self._catalog.create_table_transaction(
                self._identifier, schema, location=location, properties=dict(_NEW_TABLE)
            ) as transaction:
                with transaction.update_spec() as spec:
                    for words, name in fields:
                        # DuckDB crashes if a manifest contains a name that is not ASCII. größe becomes gr_xf6_xdfe.
                        ascii_name = folder_name(words, name).encode("ascii", "backslashreplace").decode()
                        spec.add_field(name, parse_transform(words), ascii_name.replace("\\", "_"))
                map_names(transaction)
        except (TableAlreadyExistsError, CommitFailedException, BadRequestError, InvalidAnswerError) as error:
            if isinstance(error, REFUSALS) and self.load() is None:
                raise
            logger.debug("another member has created %s", self.words)
        except ValueError as error:
            raise ConfigError(f"creating {self.words}", one_line(str(error)), _PARTITIONS) from None

    def _append(self, files: Sequence[DataFile], marks: Sequence[Mark]) -> None:
        doing = f"committing files to {self.words}"
        table, self._table = self._table, None  # no table is shared with a try after its deadline
        for tries in range(1, _MOST_CONFLICTS + 1):
            try:
                self._table = self._try_append(table or self.load(), files, marks)
            except FileNotFoundError as error:
                raise self._broken(str(error)) from None
            except (CommitFailedException, NoSuchTableError, *REFUSALS) as error:
                if tries >= _MOST_REFUSALS and isinstance(error, REFUSALS):
                    cause = translated(doing, error).cause
                    raise RestartError(doing, cause, "Check the catalog and CATALOG_URL") from None
                logger.debug("%s: another commit was quicker: %s", self.words, error)
                table = None
                time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.025 * 2**tries)))  # noqa: S311
            else:
                self._expire()
                self._follow()
                return
        raise RetryableError(doing, f"{_MOST_CONFLICTS} other commits were quicker")

    def _try_append(self, table: Table | None, files: Sequence[DataFile], marks: Sequence[Mark]) -> Table:
        """Append the files if the table doesn't contain them yet, and return the table."""
        if table is None:
            raise RestartError(f"committing files to {self.words}", "it is not in the catalog", _RESTART)
        if are_in(table.properties, self._group, marks):
            logger.info("%s has the files of this batch already", self.words)
            return table
        self._check(table.metadata)
        spec = spec_of(table.metadata, files[0].partition_values)  # equal in all files
        if spec is None:
            raise FatalError(
                f"committing files to {self.words}",
                f"{files[0].uri} fits no present or former partitions of the table",
                "Restore the table's partitions in your engine",
            )
        prepare(table, spec.spec_id)
        self._commit(table, files, marks)
        with suppress(ValueError):  # ``_check`` refuses the next batch
            self._learn(table.metadata)
        return table

    def _follow(self) -> None:
        """Raise ``RestartError`` if an engine has partitioned the table by another text column."""
        texts = [each.name for each in self._partitions if each.is_text_column]
        if self._texts is not None and (new := [name for name in texts if name not in self._texts]):
            raise RestartError(
                f"writing to {self.words}", f"it is now partitioned by {', '.join(new)}", "A restart adopts this"
            )

    def _commit(self, table: Table, files: Sequence[DataFile], marks: Sequence[Mark]) -> None:
        schemas = [*map(schema_of, files)]
        with table.transaction() as transaction:
            with transaction.update_schema() as schema:
                try:
                    for arrow in dict.fromkeys(schemas):
                        schema.union_by_name(columns_of_table(table.metadata, arrow))
                except (ValueError, ValidationError) as error:
                    raise FatalError(
                        f"adding columns to {self.words}",
                        one_line(str(error)),
                        "Somebody has added or renamed this column: drop it in the table, or see "
                        f"{DOCUMENTS}/iceberg.md#columns-that-your-engines-change",
                    ) from None
            map_names(transaction)
            transaction.set_properties(properties_of(table.properties, self._group, marks))
            metadata = transaction.table_metadata
            record = new_record(metadata)
            with transaction.update_snapshot().merge_append() as append:
                values = (record(file.partition_values) for file in files)
                for entry in entries(metadata, zip(files, schemas, values, strict=True)):
                    append.append_data_file(entry)

    def _broken(self, missing: str) -> ConnectorError:
        """Return the error for a missing metadata object. The error names the newest complete snapshot."""
        table = self.load()
        assert table is not None, "it was read before"  # noqa: S101

        def exists(location: str) -> bool:
            return table.io.new_input(location).exists()

        complete = (
            snapshot.snapshot_id
            for snapshot in reversed(table.snapshots())
            if exists(snapshot.manifest_list)
            and all(exists(each.manifest_path) for each in snapshot.manifests(table.io))
        )
        return FatalError(
            f"committing files to {self.words}",
            f"{missing} is missing, so that nobody can read the newest snapshot",
            f"Restore it, or the last complete snapshot ({next(complete, 'there is none')}). "
            f"See {DOCUMENTS}/iceberg.md#if-metadata-is-missing",
        )

    def _expire(self) -> None:
        """Expire old snapshots at every 50th commit. The engines' maintenance deletes the files of the snapshots."""
        self._commits += 1
        if self._commits % _COMMITS_BETWEEN_EXPIRIES != 1:
            return
        try:
            table = self.load()
            if table and (old := expired(table.metadata, self._keep_days, time.time() * 1_000)):
                table.maintenance.expire_snapshots().by_ids(old).commit()
        except Exception as error:  # noqa: BLE001 - the files are committed
            logger.info("expiring snapshots of %s: %s; retrying later", self.words, one_line(str(error)))
            self._table = None


def translated(doing: str, error: Exception) -> ConnectorError:
    if isinstance(error, ConnectorError):
        return error
    cause = last_words(error) if innermost(error) is not error else str(error) or repr(error)
    if isinstance(error, InvalidAnswerError):  # its text contains the answer, which may contain a login
        cause = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
    cause = cut(one_line(cause), _LONGEST_CAUSE)
    if isinstance(error, AuthorizationExpiredError | ForbiddenError | OAuthError | UnauthorizedError):
        hint = "Check CATALOG_AUTH_TOKEN, or CATALOG_CLIENT_ID and CATALOG_CLIENT_SECRET, and the rights on the table"
        return FatalError(doing, cause, hint)
    if isinstance(error, FileNotFoundError):
        return FatalError(doing, f"{cause} is missing", "Restore this object of the table's metadata")
    if isinstance(error, _LASTING):
        return FatalError(doing, cause, "The same request will be refused again; check CATALOG_URL and the table")
    unreachable = isinstance(error, OSError)  # includes the errors of the HTTP client
    return RetryableError(doing, cause, "Check CATALOG_URL, the catalog and the network" if unreachable else "")
