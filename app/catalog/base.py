"""The interface of a catalog."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from app.errors import FatalError, RetryableError
from app.model import DataFile, Mark
from app.table.existing_table import CatalogTable
from app.table.layout import PartitionSpec


class NotTakenError(RetryableError):
    """The catalog has certainly not carried out the request: it was not reached, or is busy."""


class TooLargeError(FatalError):
    """The catalog, or a proxy before it, refuses a request of this size. Nothing of it was carried out."""


class RestartError(FatalError):
    """A restart helps: it takes the table as it is in the catalog now, and asks on new connections."""

    exit_code = 75


class CatalogTarget(Protocol):
    """Address and login of a catalog, and the table in it, by the settings."""

    @property
    def url(self) -> str: ...


class Catalog(Protocol):
    """One table in a catalog; a method with a body is as catalogs have it that need no more.

    Every method may raise ``RetryableError`` (time-outs, 429, 5xx, refused connections; ``NotTakenError`` where that is
    sure) or ``FatalError`` (401, 403, other 4xx, 501, an answer that is not what the contract says).
    """

    def check(self) -> CatalogTable | None:
        """Proves that the catalog answers and authorises us, by reading the table; see ``table``."""

    def table(self) -> CatalogTable | None:
        """Returns the table, or ``None`` when the catalog does not know it."""

    def create_table(self, location: str, wanted: PartitionSpec) -> CatalogTable:
        """Makes the table known at its location, a URI without a trailing slash; returns what the catalog holds."""

    def sync_properties(self, table: CatalogTable, wanted: PartitionSpec) -> None:  # noqa: ARG002
        """Brings the properties of a known table in line with the settings. Never raises: a failure is logged."""
        return

    def add_source(self, topic: str) -> None:  # noqa: ARG002
        """Registers the topic as a source of the table. Never raises: a failure is logged."""
        return

    def portions(self, files: Sequence[DataFile]) -> Iterator[Sequence[DataFile]]:
        """Divides files into those that one request takes, in their order."""
        return iter([files] if files else [])

    def has(self, marks: Sequence[Mark]) -> bool:  # noqa: ARG002
        """Whether the catalog knows that it has the rows up to these marks; ``False`` if it keys files by path."""
        return False

    def close(self, seconds: float) -> None:  # noqa: ARG002
        """Ends what goes on beside the registrations, within ``seconds``."""
        return

    def add_files(self, files: Sequence[DataFile], topic: str | None, marks: Sequence[Mark] = ()) -> None:
        """Registers the files in one request, with the topic they come from.

        ``None`` registers files again that may be registered already: their source would count them twice. Asking twice
        with the same is safe: the catalog keys files by path, or keeps ``marks``, how far the batch's partitions are.

        Raises:
            TooLargeError: fewer at a time may pass.
        """
