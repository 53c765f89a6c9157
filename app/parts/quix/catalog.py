"""The client for the REST catalog of Quix. It sends the same requests as the data lake sink of quixstreams."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from app.catalog.base import Catalog, TooLargeError
from app.errors import ConnectorError, FatalError, RetryableError, cut
from app.formatting import counted
from app.model import DataFile, Mark
from app.parts.http.rest_client import Answer, Credentials, Patience, RestClient, Service
from app.parts.quix.catalog_address import QuixTarget
from app.parts.quix.file_entries import MOST_BYTES, column_stats, entry, portions
from app.parts.quix.query_api import QueryApi
from app.table.existing_table import CatalogTable
from app.table.layout import PartitionSpec

logger = logging.getLogger(__name__)

_OUR_NAME = "quix-ts-datalake-sink"
_DONE = frozenset({HTTPStatus.OK, HTTPStatus.CREATED})

_SERVICE = Service("the catalog", "CATALOG_URL", "CATALOG_AUTH_TOKEN")
# Long time-outs, because a catalog may write a thousand files into a database before the catalog answers.
_PATIENCE = Patience(connect=10.0, read=60.0, whole=120.0)
# Short time-outs for requests that are not necessary, because the batch waits for the answers.
_OPTIONAL = Patience(connect=5.0, read=10.0, whole=10.0)


class QuixCatalog(Catalog):
    """A table in the catalog. Only one thread may use this object. ``announces``: notify the query API of new files."""

    def __init__(
        self, target: QuixTarget, _: object = None, announces: bool = False, patience: Patience = _PATIENCE
    ) -> None:
        self._url = target.url
        self._client = RestClient(_SERVICE, target.url, Credentials(target.token))
        self._patience = patience
        self._most_bytes = MOST_BYTES
        self._path = f"/namespaces/{quote(target.namespace, safe='')}/tables/{quote(target.table, safe='')}"
        self._table_words = f"table {target.namespace}.{target.table} in the catalog at {target.url}"
        self._workspace_id = target.workspace_id
        self._stats_columns = frozenset(target.stats_columns) or None
        self._query_api = QueryApi(target.query_api) if announces and target.query_api else None

    def check(self) -> CatalogTable | None:
        """Check that the catalog answers, and return the table. Reading the table also checks the login."""
        doing = f"connecting to the catalog at {self._url}"
        answer = self._ask("GET", "/health", doing)
        if answer.status not in _DONE:
            raise FatalError(
                doing, answer.summary, "Check CATALOG_URL with its path: the catalog's /health is below this address"
            )
        return self.table()

    def table(self) -> CatalogTable | None:
        doing = f"reading {self._table_words}"
        answer = self._ask("GET", self._path, doing)
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        _require_done(answer, doing)
        return _table_of(answer.json_object(doing), doing)

    def create_table(self, location: str, spec: PartitionSpec) -> CatalogTable:
        """Create the table, and return the table in the catalog. Another member may have created this table first.

        The catalog infers the partition spec from the first files, so the request contains an empty spec. With virtual
        partitions, the request contains the complete spec, because the catalog cannot infer virtual partitions.
        """
        doing = f"creating {self._table_words}"
        order = list(spec.order)
        body = {
            "location": location,
            "partition_spec": order if spec.virtual else [],
            "properties": {
                "created_by": _OUR_NAME,
                "auto_discovered": "false",
                "expected_partitions": order,
                **_filled(
                    virtual_partitions=list(spec.virtual),
                    timestamp_column=spec.timestamp_column,
                    sort_column=spec.sort_column,
                    stats_columns=sorted(spec.stats_columns),
                ),
            },
        }
        answer = self._ask("PUT", self._path, doing, body)
        if answer.status != HTTPStatus.CONFLICT:
            _require_done(answer, doing)
        table = self.table()
        if table is None:  # the catalog also answers 404 if its store has failed
            raise RetryableError(doing, f"the catalog answered {answer.status}, but the table does not exist")
        return table

    def sync_properties(self, table: CatalogTable, spec: PartitionSpec) -> None:
        """If properties of an existing table differ from the settings, update the properties in one request.

        The connector decides which columns have bounds. The properties for the order of rows are only set if they are
        missing, because the table's owner may have set them.
        """
        stored, stats = table.properties, sorted(spec.stats_columns) or None
        changes: dict[str, Any] = {} if _listed(stored.get("stats_columns")) == stats else {"stats_columns": stats}
        ordering = _filled(timestamp_column=spec.timestamp_column, sort_column=spec.sort_column)
        changes |= {name: value for name, value in ordering.items() if not stored.get(name)}
        if changes:
            doing = f"changing {', '.join(changes)} of {self._table_words}"
            self._ask_optionally("PATCH", "properties", doing, {"properties": changes})

    def add_source(self, topic: str) -> None:
        """Register the topic as a source of the table, so that the catalog lists the topic before the first file."""
        doing = f"adding topic {topic} as a source of {self._table_words}"
        self._ask_optionally("POST", "sources", doing, {"source": self._source(topic)})

    def portions(self, files: Sequence[DataFile]) -> Iterator[Sequence[DataFile]]:
        """Divide files into portions for one request each. After a request that is too large, portions are halved."""
        return portions(files, self._entry_with_bounds, self._most_bytes)

    def add_files(
        self,
        files: Sequence[DataFile],
        topic: str | None,
        marks: Sequence[Mark] = (),  # noqa: ARG002 - paths are the keys
    ) -> None:
        """Register the files in one request. ``topic`` is ``None`` if these files may be counted already."""
        doing = f"registering {counted(len(files), 'file')} of {self._table_words}"
        body: dict[str, Any] = {"files": [self._entry_with_bounds(file) for file in files]}
        if topic is not None:
            body["source"] = self._source(topic)
        answer = self._ask("POST", f"{self._path}/manifest/add-files", doing, body)
        if answer.status == HTTPStatus.NOT_FOUND:
            raise FatalError(doing, answer.summary, "The table is no longer in the catalog; restart to create it again")
        if answer.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            self._most_bytes = max(1, self._most_bytes // 2)
            raise TooLargeError(doing, answer.summary, "Raise its limit, or set fewer columns in STATS_COLUMNS")
        _require_done(answer, doing)
        if answer.body:
            answer.json_object(doing)  # raises an error for a login page with status 200
        if self._query_api:
            self._query_api.files_added(files)

    def close(self, seconds: float) -> None:
        if self._query_api:
            self._query_api.close(seconds)

    def _ask(self, method: str, path: str, doing: str, body: Mapping[str, Any] | None = None) -> Answer:
        return self._client.ask(method, path, doing, body, patience=self._patience)

    def _entry_with_bounds(self, file: DataFile) -> Mapping[str, Any]:
        """Return the entry of a file. If known, the entry contains bounds, so that readers can skip the file."""
        bounds = column_stats(file.footer, self._stats_columns)
        return {**entry(file), "column_stats": bounds} if bounds else entry(file)

    def _source(self, topic: str) -> Mapping[str, Any]:
        return {
            "source_type": "kafka",
            "workspace_id": self._workspace_id,
            "topic": topic,
            "properties": {"sink": _OUR_NAME, "quixstreams_version": version("quixstreams")},
        }

    def _ask_optionally(self, method: str, name: str, doing: str, body: Mapping[str, Any]) -> None:
        """Send a request that is not necessary, and only log a failure. Old catalogs answer 501."""
        try:
            answer = self._client.ask(method, f"{self._path}/{name}", doing, body, patience=_OPTIONAL)
            if answer.status == HTTPStatus.NOT_IMPLEMENTED:
                logger.info("%s: the catalog does not support this; rows and files are not affected", doing)
                return
            _require_done(answer, doing)
        except ConnectorError as error:
            logger.warning("%s; rows and files are not affected, the next start retries", error)
        else:
            logger.info("%s: done", doing)


def _filled(**properties: Any) -> Mapping[str, Any]:
    return {name: value for name, value in properties.items() if value}


def _listed(stored: object) -> list[str] | None:
    """Return the sorted names of columns. In old tables, the property is one text with commas."""
    names = stored.split(",") if isinstance(stored, str) else stored if isinstance(stored, list) else ()
    return sorted(stripped for name in names if (stripped := str(name).strip())) or None


def _require_done(answer: Answer, doing: str) -> None:
    if answer.status not in _DONE:
        raise FatalError(
            doing, answer.summary, "The same request will be refused again; check the settings against the answer"
        )


def _table_of(document: Mapping[str, Any], doing: str) -> CatalogTable:
    """Convert the catalog's description of a table. Missing fields and null fields are treated as empty.

    Raises:
        FatalError: The location is not a text, or the partition spec is not a list of texts.
    """
    location = document.get("location")
    spec = document.get("partition_spec")
    if not isinstance(location, str | None):
        raise _unlike_contract(doing, "location", "text", location)
    if not isinstance(spec, list | None) or not all(isinstance(column, str) for column in spec or ()):
        raise _unlike_contract(doing, "partition_spec", "a list of names", spec)
    properties = document.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    return CatalogTable((location or "").rstrip("/"), tuple(spec or ()), properties)


def _unlike_contract(doing: str, field: str, expected: str, value: object) -> FatalError:
    cause = f"its {field} should be {expected}, but is {cut(repr(value), 200)}"
    return FatalError(doing, cause, "Check that CATALOG_URL is the address of a Quix catalog, and its version")
