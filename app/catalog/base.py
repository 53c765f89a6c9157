"""What the pipeline asks of a catalog."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from app.model import StoredFile


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table as the catalog holds it.

    ``location`` has no slash at its end and is empty where the catalog holds none; ``partition_spec`` is empty until
    the first files fill it.
    """

    location: str
    partition_spec: tuple[str, ...]


class Catalog(Protocol):
    """One table in a catalog.

    Every method may raise ``RetryableError`` (time-outs, 429, 5xx, refused connections) or ``FatalError``
    (401, 403, other 4xx, an answer that is not what the contract says).
    """

    def check(self) -> None:
        """Prove that the catalog answers and lets us in."""
        ...

    def table(self) -> CatalogTable | None:
        """The table, or ``None`` when the catalog does not know it."""
        ...

    def create_table(self, location: str, partition_columns: Sequence[str], timestamp_column: str) -> CatalogTable:
        """Make the table known with its location (a URI without a trailing slash) and return what the catalog holds."""
        ...

    def add_files(self, files: Sequence[StoredFile]) -> None:
        """Register the files in one request; asking twice with the same is safe, for the catalog keys files by path."""
        ...
