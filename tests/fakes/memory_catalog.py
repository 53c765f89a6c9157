"""A catalog of one table without a network, for tests of what happens around it; the real one has tests of its own."""

from collections.abc import Callable, Sequence

from app.catalog.base import CatalogTable
from app.errors import ConnectorError
from app.model import StoredFile


class MemoryCatalog:
    """Keeps what it is told.

    Args:
        table: what it knows beforehand.
        refuse: asked before each registration; the error it gives is raised, ``None`` lets it pass.
    """

    def __init__(
        self, table: CatalogTable | None = None, refuse: Callable[[], ConnectorError | None] = lambda: None
    ) -> None:
        self._table = table
        self.refuse = refuse
        self.looked_up = 0
        self.created: list[tuple[str, tuple[str, ...], str]] = []
        self.requests: list[list[StoredFile]] = []

    @property
    def keys(self) -> list[str]:
        """The keys of the files it knows."""
        return sorted({file.key for files in self.requests for file in files})

    def check(self) -> None:
        """It always answers."""

    def table(self) -> CatalogTable | None:
        self.looked_up += 1
        return self._table

    def create_table(self, location: str, partition_columns: Sequence[str], timestamp_column: str) -> CatalogTable:
        self.created.append((location, tuple(partition_columns), timestamp_column))
        self._table = CatalogTable(location, tuple(partition_columns))
        return self._table

    def add_files(self, files: Sequence[StoredFile]) -> None:
        error = self.refuse()
        if error is not None:
            raise error
        self.requests.append(list(files))
