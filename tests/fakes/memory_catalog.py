"""A catalog of one table without a network, for tests of what happens around it; the real one has tests of its own."""

from collections.abc import Callable, Iterator, Sequence

from app.errors import ConnectorError
from app.model import DataFile, Mark
from app.table.existing_table import CatalogTable
from app.table.layout import PartitionSpec


class MemoryCatalog:
    """Keeps what it is told; ``refuse`` gives an error for a registration, or ``None``."""

    def __init__(
        self,
        table: CatalogTable | None = None,
        refuse: Callable[[], ConnectorError | None] = lambda: None,
        most_files: int = 1_000,
    ) -> None:
        self._table = table
        self.refuse = refuse
        self.looked_up = 0
        self.created: list[tuple[str, tuple[str, ...], str]] = []
        self.wanted: list[PartitionSpec] = []
        self.sources: list[str] = []
        self.requests: list[list[DataFile]] = []
        self.topics: list[str | None] = []
        self._most_files = most_files

    @property
    def keys(self) -> list[str]:
        return sorted({file.key for files in self.requests for file in files})

    def check(self) -> CatalogTable | None:
        return self.table()

    def table(self) -> CatalogTable | None:
        self.looked_up += 1
        return self._table

    def create_table(self, location: str, wanted: PartitionSpec) -> CatalogTable:
        self.created.append((location, wanted.order, wanted.timestamp_column))
        self._table = CatalogTable(location, wanted.order)
        return self._table

    def sync_properties(self, table: CatalogTable, wanted: PartitionSpec) -> None:
        assert table == self._table
        self.wanted.append(wanted)

    def add_source(self, topic: str) -> None:
        self.sources.append(topic)

    def portions(self, files: Sequence[DataFile]) -> Iterator[Sequence[DataFile]]:
        return (files[start : start + self._most_files] for start in range(0, len(files), self._most_files))

    def has(self, marks: Sequence[Mark]) -> bool:
        return False

    def close(self, seconds: float) -> None:
        pass

    def add_files(self, files: Sequence[DataFile], topic: str | None, marks: Sequence[Mark] = ()) -> None:
        assert topic is None or topic in self.sources
        error = self.refuse()
        if error is not None:
            raise error
        self.requests.append(list(files))
        self.topics.append(topic)
