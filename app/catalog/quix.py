"""The REST catalog of Quix: the contract that quixstreams' own data lake sink speaks."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from app.catalog.base import CatalogTable
from app.catalog.rest import Answer, RestClient
from app.errors import FatalError, RetryableError
from app.model import StoredFile

_CREATED_BY = "quix-ts-datalake-sink"
_DONE = frozenset({HTTPStatus.OK, HTTPStatus.CREATED})

# Seconds. A catalog may write thousands of files of one request into its database before it answers.
_CONNECT_TIMEOUT = 10.0
_READ_TIMEOUT = 60.0


class QuixCatalog:
    """One table of the catalog; to be used by one thread at a time.

    Args:
        url: the catalog's base address, e.g. ``https://catalog.example.com/api/v1``.
        token: bearer token; ``None`` sends none.
        namespace: the table's namespace.
        table: the table's name.
        connect_timeout: seconds for a connection to come about.
        read_timeout: seconds between two pieces of an answer.

    Raises:
        ConfigError: a token that cannot be sent.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        namespace: str,
        table: str,
        *,
        connect_timeout: float = _CONNECT_TIMEOUT,
        read_timeout: float = _READ_TIMEOUT,
    ) -> None:
        base = url.rstrip("/")
        self._client = RestClient(base, token, connect_timeout=connect_timeout, read_timeout=read_timeout)
        self._path = f"/namespaces/{quote(namespace, safe='')}/tables/{quote(table, safe='')}"
        self._table_words = f"table {namespace}.{table} in the catalog at {base}"
        self._catalog_words = f"the catalog at {base}"

    def check(self) -> None:
        """Prove that the catalog answers and lets us in: its health page may be open to everybody, a table is not."""
        doing = f"connecting to {self._catalog_words}"
        answer = self._client.ask("GET", "/health", doing)
        if answer.status not in _DONE:
            raise answer.refused(doing, "Check CATALOG_URL, its path included: the catalog's /health lies below it")
        self.table()

    def table(self) -> CatalogTable | None:
        """The table, or ``None`` when the catalog does not know it."""
        doing = f"reading {self._table_words}"
        answer = self._client.ask("GET", self._path, doing)
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        _require_done(answer, doing)
        return _table_of(answer.json_object(doing), doing)

    def create_table(self, location: str, partition_columns: Sequence[str], timestamp_column: str) -> CatalogTable:
        """Create the table and return what the catalog holds then, which is another's where that one was quicker.

        The spec is sent empty: the catalog fills it from the first files, the expected columns are a property.
        """
        doing = f"creating {self._table_words}"
        body = {
            "location": location,
            "partition_spec": [],
            "properties": {
                "created_by": _CREATED_BY,
                "auto_discovered": "false",
                "expected_partitions": list(partition_columns),
                "timestamp_column": timestamp_column,
            },
        }
        answer = self._client.ask("PUT", self._path, doing, body)
        if answer.status != HTTPStatus.CONFLICT:
            _require_done(answer, doing)
        table = self.table()
        if table is None:  # catalogs also say 404 when their own store failed them
            raise RetryableError(doing, f"the catalog answered {answer.status}, yet does not know the table")
        return table

    def add_files(self, files: Sequence[StoredFile]) -> None:
        """Register the files in one request."""
        doing = f"registering {len(files):,} {'file' if len(files) == 1 else 'files'} of {self._table_words}"
        answer = self._client.ask(
            "POST", f"{self._path}/manifest/add-files", doing, {"files": [_entry(f) for f in files]}
        )
        if answer.status == HTTPStatus.NOT_FOUND:
            raise answer.refused(doing, "The table is gone from the catalog; restart to create it again")
        _require_done(answer, doing)
        if answer.body:
            answer.json_object(doing)  # a login page with status 200 has registered nothing


def _entry(file: StoredFile) -> Mapping[str, Any]:
    return {
        "file_path": file.uri,
        "file_size": file.size,
        "last_modified": file.last_modified.isoformat(),
        "partition_values": dict(file.partition_values),
        "row_count": file.rows,
    }


def _require_done(answer: Answer, doing: str) -> None:
    if answer.status not in _DONE:
        raise answer.refused(doing, "The same request will be refused again; check the settings against the answer")


def _table_of(document: Mapping[str, Any], doing: str) -> CatalogTable:
    """The table as its description has it; what is missing or null counts as empty.

    Raises:
        FatalError: a location that is no text, a spec that is no list of texts.
    """
    location = document.get("location")
    spec = document.get("partition_spec")
    if not isinstance(location, str | None):
        raise _unlike_contract(doing, "location", "text", location)
    if not isinstance(spec, list | None) or not all(isinstance(column, str) for column in spec or ()):
        raise _unlike_contract(doing, "partition_spec", "a list of names", spec)
    return CatalogTable((location or "").rstrip("/"), tuple(spec or ()))


def _unlike_contract(doing: str, field: str, wanted: str, got: object) -> FatalError:
    cause = f"its {field} should be {wanted}, and is {got!r:.200}"
    return FatalError(doing, cause, "Check that CATALOG_URL is the address of a Quix catalog, and its version")
