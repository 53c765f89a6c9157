"""Rolls forward: registers the files of a former owner's batch again, which it may not have registered.

``app.journal.settle`` decides between this and rolling back.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from app.catalog.registrar import Registrar
from app.errors import RetryableError
from app.model import DataFile, Mark
from app.storage.base import ObjectStore
from app.table.parquet_reader import read_footer

Each = Callable[[Callable[[DataFile], DataFile], Iterable[DataFile]], Iterable[DataFile]]


def roll_forward(
    store: ObjectStore, registrar: Registrar, each: Each, files: Sequence[DataFile], marks: Sequence[Mark]
) -> None:
    """Register the stored files of a batch, with the marks of its partitions; safe to repeat."""

    def described(file: DataFile) -> DataFile:
        found = store.find(file.key)
        if found is None:
            raise RetryableError(
                f"registering {store.uri}/{file.key}",
                "it was there when the batch was finished and is gone",
                "If somebody or a rule has deleted it, bring it back under the same name: it has rows of that batch",
            )
        return replace(file, last_modified=found.last_modified, footer=read_footer(store, file.key, file.size))

    if registrar.is_needed and files:
        registrar.register_again(list(each(described, files)), marks)
