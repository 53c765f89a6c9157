"""The interface of a catalog."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from app.errors import FatalError, RetryableError
from app.model import DataFile, Mark
from app.table.existing_table import CatalogTable
from app.table.layout import PartitionSpec


class NotTakenError(RetryableError):
    """The catalog has certainly not carried out the request: it was unreachable or busy."""


class TooLargeError(FatalError):
    """The catalog, or a proxy in front of it, refuses a request of this size, and has not carried it out."""


class RestartError(FatalError):
    """A restart helps, because it reads the table in the catalog again on new connections."""

    exit_code = 75


class CatalogTarget(Protocol):
    """Address and login of a catalog, and the name of the table in this catalog, from the settings."""

    @property
    def url(self) -> str: ...


class Catalog(Protocol):
    """One table in a catalog. Methods with a body are defaults for catalogs that need nothing else.

    Every method may raise ``RetryableError`` (time-outs, 429, 5xx, refused connections; ``NotTakenError`` if the
    request was not carried out) or ``FatalError`` (401, 403, other 4xx, 501, an answer that breaks the contract).
    """

    def check(self) -> CatalogTable | None:
        """Reads the table to check that the catalog answers and authorises the connector. Returns it like ``table``."""

    def table(self) -> CatalogTable | None:
        """Returns the table; ``None`` if the catalog does not have the table."""

    def create_table(self, location: str, spec: PartitionSpec) -> CatalogTable:
        """Creates the table at ``location``, a URI without a trailing slash. Returns the catalog's table."""

    def sync_properties(self, table: CatalogTable, spec: PartitionSpec) -> None:  # noqa: ARG002
        """Updates the properties of an existing table to the settings. Failures are logged, and not raised."""
        return

    def add_source(self, topic: str) -> None:  # noqa: ARG002
        """Registers the topic as a source of the table. Failures are logged, and not raised."""
        return

    def portions(self, files: Sequence[DataFile]) -> Iterator[Sequence[DataFile]]:
        """Divides files into portions that fit into one request, in their order."""
        return iter([files] if files else [])

    def has(self, marks: Sequence[Mark]) -> bool:  # noqa: ARG002
        """Whether the catalog shows that it has the rows up to these marks; ``False`` if it keys files by path."""
        return False

    def close(self, seconds: float) -> None:  # noqa: ARG002
        """Ends background work, such as notifications to readers, within ``seconds``."""
        return

    def add_files(self, files: Sequence[DataFile], topic: str | None, marks: Sequence[Mark] = ()) -> None:
        """Registers the files in one request, with their topic.

        A repeated registration has no topic, because the source would count these files twice. Repeating a request is
        safe: the catalog keys files by path, or stores ``marks``, the ends of the batch's partitions.

        Raises:
            TooLargeError: A request with fewer files may succeed.
        """
