"""Compare-and-set of one of the journal's documents: reads the JSON object, and replaces only the version last read."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from app.errors import FatalError
from app.storage.base import ObjectStore


class FencedError(Exception):
    """Another generation owns the partitions, or the table was deleted."""


class LogClosedError(FencedError):
    """Another member has closed the generation's log. If Kafka still assigns the partitions, they can be claimed again.

    The other member may have claimed late, without knowing that it had lost the partitions.
    """


class UnreadableError(FatalError):
    """A document is damaged, or of a newer release."""


class _Body(Protocol):
    def to_body(self) -> bytes: ...


_D = TypeVar("_D", bound=_Body)
Parse = Callable[[bytes, tuple[str, ...]], _D]


def read_document(store: ObjectStore, key: str, parse: Parse[_D], roots: tuple[str, ...]) -> tuple[_D, str] | None:
    """Read a document, with the ETag of its version; ``None`` if there is none.

    Args:
        store: connected.
        key: of the object.
        parse: raises ``ValueError`` if the document is damaged or of a newer release.
        roots: the prefixes that keys of the table's objects have; a document that names others is refused.

    Raises:
        UnreadableError: it cannot be parsed.
        ConnectorError: the store's.
    """
    found = store.read(key)
    if found is None:
        return None
    try:
        return parse(found.body, roots), found.etag
    except ValueError as error:
        raise UnreadableError(
            f"reading the journal {store.uri}/{key}",
            f"{error}",
            "If a newer release wrote it, update this one. Else restore the object. Deleting it makes the "
            "connector go on from the offset committed in Kafka, and rows may then come twice",
        ) from None


class Document(Generic[_D]):
    """One document in the store. For one thread at a time.

    Any method may raise the store's errors.

    Args:
        store, key, parse, roots: as ``read_document``.

    Attributes:
        current: the version that was last read or written here; ``None`` without one.
    """

    def __init__(self, store: ObjectStore, key: str, parse: Parse[_D], roots: tuple[str, ...]) -> None:
        self._store = store
        self._key = key
        self._parse = parse
        self._roots = roots
        self._etag: str | None = None
        self.current: _D | None = None

    @property
    def where(self) -> str:
        """Its address, for messages."""
        return f"{self._store.uri}/{self._key}"

    def read(self) -> _D | None:
        """Read the stored version; ``None`` if there is none.

        Raises:
            UnreadableError: it cannot be parsed.
        """
        found = read_document(self._store, self._key, self._parse, self._roots)
        self.current, self._etag = found or (None, None)
        return self.current

    def look(self) -> _D | None:
        """The stored version, which unlike after ``read`` is not the one that a write replaces; ``None`` without one.

        Raises:
            UnreadableError: it cannot be parsed.
        """
        found = read_document(self._store, self._key, self._parse, self._roots)
        return found[0] if found else None

    def write(self, document: _D) -> None:
        """Replace the stored version, if it is the one last read or written here.

        Raises:
            ChangedError: it is another one, or gone; also where an earlier write of ours got no answer.
        """
        self._etag = self._store.write(self._key, document.to_body(), replaces=self._etag)
        self.current = document

    def is_unchanged(self) -> bool:
        """Whether the stored version is the one last read or written here."""
        found = self._store.read(self._key)
        return found is not None and found.etag == self._etag
