"""Settles the batch that a former owner left behind: keeps it or rolls it back, before anybody reads on from its end.

The former owner is fenced by then: it may still upload files of the batch, and register nothing. If all data files of
a pending batch exist, it is rolled forward: ``kept`` is written, and only then its files are registered again and
``done`` is written. If some are missing, it is rolled back: ``done`` up to its start is written, with its objects on
the list ``revoked``. If some are missing and Kafka no longer has all of the batch's rows, ``kept`` is written with the
files that exist. Several members may settle the same batch at once: each follows the decision that was written,
whatever files it finds itself.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from app.journal.document import Document
from app.journal.entry import JournaledFile, Span
from app.journal.log import GenerationLog
from app.model import TopicPartition
from app.storage.base import ObjectStore, find

logger = logging.getLogger(__name__)

_NAMED = 20  # keys in a line of the log


class LeftInKafka(Protocol):
    """Asks which offsets of a span Kafka still has."""

    def __call__(self, span: Span) -> range: ...


@dataclass(frozen=True, slots=True)
class Settlement:
    """Settles batches; safe from several threads.

    Args:
        store: where the objects are.
        register: registers files in the catalog; safe to repeat.
        left_in_kafka: called only before a roll back.
        each: applies a function to every item, like ``map`` and possibly side by side; a batch has up to thousands of
            objects.
        now: seconds since the epoch.
    """

    store: ObjectStore
    register: Callable[[Sequence[JournaledFile]], None]
    left_in_kafka: LeftInKafka
    each: Callable[[Callable[[str], Any], Iterable[str]], Iterable[Any]]
    now: Callable[[], float]

    def settle(self, document: Document[GenerationLog], spans: Sequence[Span]) -> None:
        """Settle the batch of a document that was just read, if it has one.

        After an error the document must be read again. The write that rolls back may have succeeded, or succeed later,
        and the missing files may exist by then: a second decision could be another one.

        Args:
            document: fenced; its owner cannot write any more.
            spans: the offsets of its pending batch.

        Raises:
            ChangedError: another member has written the document.
            ConnectorError: of the store, of the catalog, or Kafka's.
        """
        assert document.current is not None, "it was read"  # noqa: S101
        if document.current.state == "pending":
            document.write(self._decided(document.where, document.current, spans))
        if document.current.state == "kept":
            self.register(document.current.files)
            document.write(document.current.done())

    def _decided(self, where: str, batch: GenerationLog, spans: Sequence[Span]) -> GenerationLog:
        """The next version, which says whether the batch is kept or rolled back."""
        missing = self._missing(batch, batch.deciding)
        if not missing:
            logger.info("%s: batch %d of a former owner was complete: kept", where, batch.batch)
            return batch.kept(batch.files)
        left = {span: self.left_in_kafka(span) for span in spans}
        if any(len(found) < span.last + 1 - span.first for span, found in left.items()):
            kept = self._with_what_is_there(where, batch, left)
            if kept is not None:
                return kept
        logger.info(
            "%s: batch %d of a former owner was not complete (%d of %d objects missing): undone, its rows come again",
            where,
            batch.batch,
            len(missing),
            len(batch.objects),
        )
        return batch.rolled_back(int(self.now()))

    def _with_what_is_there(self, where: str, batch: GenerationLog, left: Mapping[Span, range]) -> GenerationLog | None:
        """The next version, which keeps the objects that exist of an incomplete batch.

        Returns:
            ``None`` if there are none. Dead letters alone are kept only if Kafka has none of the batch's records.
        """
        missing = self._missing(batch, batch.objects)
        files = tuple(file for file in batch.files if file.key not in missing)
        if not files and (any(left.values()) or len(missing) == len(batch.objects)):
            return None
        rows = sum(file.rows for file in batch.files if file.key in missing)
        logger.error(
            "%s: batch %d of a former owner (%s) is not complete, and Kafka has %s of its records any more: what is "
            "there is kept, %d of %d objects with %s rows are missing: %s. Bring them back if there is a copy, and "
            "raise the topic's retention",
            where,
            batch.batch,
            _offsets((span.tp, range(span.first, span.last + 1)) for span in left),
            f"only {_offsets((span.tp, found) for span, found in left.items() if found)}"
            if any(left.values())
            else "none",
            len(missing),
            len(batch.objects),
            f"{rows:,}",
            _listed(missing),
        )
        return batch.kept(files)

    def _missing(self, batch: GenerationLog, keys: Sequence[str]) -> list[str]:
        """Keys of those objects that do not exist or have another size."""
        wanted = {file.key: file.size for file in batch.files}
        sizes = self.each(self._size_of, keys)
        return [key for key, size in zip(keys, sizes, strict=True) if size is None or wanted.get(key, size) != size]

    def _size_of(self, key: str) -> int | None:
        found = find(self.store, key)
        return found.size if found else None


def _offsets(ranges: Iterable[tuple[TopicPartition, range]]) -> str:
    named = [f"{tp} {found[0]} to {found[-1]}" for tp, found in ranges]
    return "offsets " + _listed(named)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
