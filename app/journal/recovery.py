"""Rolls forward: registers the files of a former owner's batch again, which it may not have registered.

``app.journal.settle`` decides between this and rolling back.
"""

from collections.abc import Callable, Iterable, Sequence

from app.catalog.registrar import Registrar, stored_file
from app.errors import RetryableError, blaming
from app.journal.entry import JournaledFile
from app.model import Mark, StoredFile
from app.storage.base import ObjectStore


class Recovery:
    """Registers stored files in the catalog, from their entries in the journal and their Parquet footers.

    Args:
        store: where the files are.
        registrar: registers them.
        stats_columns: the only columns to make zone maps of; ``None`` for all.
        each: applies a function to every item, like ``map`` and possibly in parallel.
    """

    def __init__(
        self,
        store: ObjectStore,
        registrar: Registrar,
        stats_columns: frozenset[str] | None,
        each: Callable[[Callable[[JournaledFile], StoredFile], Iterable[JournaledFile]], Iterable[StoredFile]] = map,
    ) -> None:
        self._store = store
        self._registrar = registrar
        self._stats_columns = stats_columns
        self._each = each

    def register(self, files: Sequence[JournaledFile], marks: Sequence[Mark]) -> None:
        """Register the files of a batch, with the marks of its partitions; safe to repeat.

        Raises:
            ConnectorError: of the store or the catalog.
        """
        if self._registrar.is_needed and files:
            described = list(self._each(self._described, files))
            with blaming("catalog"):
                self._registrar.register_again(described, marks)

    def is_registered(self, marks: Sequence[Mark]) -> bool:
        """Whether the catalog knows that it has the rows up to these marks.

        Raises:
            ConnectorError: of the catalog.
        """
        with blaming("catalog"):
            return self._registrar.has(marks)

    def _described(self, file: JournaledFile) -> StoredFile:
        found = self._store.find(file.key)
        if found is None:
            raise RetryableError(
                f"registering {self._store.uri}/{file.key}",
                "it was there when the batch was finished and is gone",
                "If somebody or a rule has deleted it, bring it back under the same name: it has rows of that batch",
            )
        return stored_file(self._store, found, file.partition_values, self._stats_columns)
