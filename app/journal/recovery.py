"""Rolls forward: registers the files of a former owner's batch again, which it may not have registered.

``app.journal.settle`` decides between this and rolling back.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from app.catalog.registrar import Registrar
from app.errors import RetryableError, blaming
from app.model import DataFile, Mark
from app.storage.base import ObjectStore
from app.table.parquet_reader import read_footer


@dataclass(frozen=True, slots=True)
class Recovery:
    """Registers files in the store; ``each`` is like ``map``, possibly in parallel."""

    store: ObjectStore
    registrar: Registrar
    each: Callable[[Callable[[DataFile], DataFile], Iterable[DataFile]], Iterable[DataFile]] = map

    def register(self, files: Sequence[DataFile], marks: Sequence[Mark]) -> None:
        """Register the files of a batch, with the marks of its partitions; safe to repeat.

        Raises:
            ConnectorError: of the store or the catalog.
        """
        if self.registrar.is_needed and files:
            described = list(self.each(self._described, files))
            with blaming("catalog"):
                self.registrar.register_again(described, marks)

    def is_registered(self, marks: Sequence[Mark]) -> bool:
        """Whether the catalog knows that it has the rows up to these marks; may raise the catalog's errors."""
        with blaming("catalog"):
            return self.registrar.has(marks)

    def _described(self, file: DataFile) -> DataFile:
        found = self.store.find(file.key)
        if found is None:
            raise RetryableError(
                f"registering {self.store.uri}/{file.key}",
                "it was there when the batch was finished and is gone",
                "If somebody or a rule has deleted it, bring it back under the same name: it has rows of that batch",
            )
        footer = read_footer(self.store, file.key, file.size)
        return replace(file, last_modified=found.last_modified, footer=footer)
