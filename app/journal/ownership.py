"""Decides whether an assignment may upload and register its rows; each step of the delivery asks here.

Invariant kept here:
3. Only the owner of a generation registers files for its topic-partitions.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from app.journal.generation import Generation
from app.journal.journal import FencedError
from app.journal.log import Intent
from app.model import Mark, TopicPartition


class Ownership(Protocol):
    """The pipeline calls it before and after its steps. The token is that of the batch's generation.

    Methods may raise the store's errors, and can then be repeated.
    """

    def is_owner(self, token: str) -> bool:
        """Whether the generation is current and its files may be uploaded now."""
        ...

    def intend(self, token: str, intent: Intent) -> bool:
        """Announce a batch before its first upload; ``False`` if the generation may not write any more."""
        ...

    def marks(self, token: str) -> Sequence[Mark]:
        """How far the partitions of the announced batch are once it is in the lake."""
        ...

    def confirm(self, token: str) -> bool:
        """Whether the uploaded files may be registered now."""
        ...

    def registered(self, token: str, batch: int) -> None:
        """Note that the batch is in the lake and registered. Sends no request to the store."""
        ...

    def advance(self, token: str, ends: Mapping[TopicPartition, int]) -> None:
        """Write that all rows up to these offsets are in the lake, together with the registered batch as done."""
        ...

    def abandon(self) -> None:
        """Tidy up after a batch whose generation may not write any more; its uploads have ended."""
        ...

    def done(self) -> None:
        """Write the registered batch as done, unless the next batch's intent already says it; at any time."""
        ...


class JournalOwnership:
    """Exactly once: the generation whose log is open may write.

    Args:
        is_current: whether the generation with this token is current.
        on_fenced: called with the token and the reason when the generation may not write any more.
        fresh_seconds: how long a partition cannot get another owner after the log was verified. A process that was
            frozen for longer verifies the log again before the next upload.
    """

    def __init__(
        self, is_current: Callable[[str], bool], on_fenced: Callable[[str, FencedError], None], *, fresh_seconds: float
    ) -> None:
        self._is_current = is_current
        self._on_fenced = on_fenced
        self._fresh_seconds = fresh_seconds
        self._lock = threading.Lock()
        self._generations: Mapping[str, Generation] = {}  # replaced as a whole: other threads may iterate over it
        self._registered: tuple[str, int] | None = None  # the batch that may be noted down as done
        self._writer: Generation | None = None  # of the last batch; it may be fenced or have ended since

    # --- by the claims ----------------------------------------------------------------------------------------------

    def take(self, generation: Generation) -> None:
        """Take the generation, whose partitions are claimed."""
        with self._lock:
            current = {token: other for token, other in self._generations.items() if self._is_current(token)}
            self._generations = current | {generation.token: generation}

    # --- by the pipeline --------------------------------------------------------------------------------------------

    def is_owner(self, token: str) -> bool:
        """As ``Ownership``; reads the log again when it was verified long ago."""
        generation = self._owned(token)
        if generation is None:
            return False
        if generation.seconds_since_verified > self._fresh_seconds:
            return self._try(generation, generation.verify_ownership)
        return True

    def intend(self, token: str, intent: Intent) -> bool:
        """As ``Ownership``."""
        self._writer = generation = self._owned(token)
        return generation is not None and self._try(generation, lambda: generation.intend(intent))

    def abandon(self) -> None:
        """As ``Ownership``."""
        if self._writer is not None:
            self._writer.abandon()

    def marks(self, token: str) -> Sequence[Mark]:
        """As ``Ownership``; none if the generation has ended."""
        generation = self._owned(token)
        try:
            return generation.marks if generation else ()
        except FencedError:  # ``confirm`` says so
            return ()

    def confirm(self, token: str) -> bool:
        """As ``Ownership``."""
        generation = self._owned(token)
        return generation is not None and self._try(generation, generation.verify_ownership)

    def registered(self, token: str, batch: int) -> None:
        """As ``Ownership``."""
        self._registered = token, batch

    def done(self) -> None:
        """As ``Ownership``."""
        if self._registered is not None:
            token, batch = self._registered
            generation = self._owned(token)
            if generation is not None:
                self._try(generation, lambda: generation.done(batch))
            self._registered = None

    def advance(self, token: str, ends: Mapping[TopicPartition, int]) -> None:
        """As ``Ownership``."""
        generation = self._owned(token)
        if generation is not None:
            of, batch = self._registered or (None, None)
            self._try(generation, lambda: generation.advance(ends, after=batch if of == token else None))
            self._registered = None

    # --- by the sweeper ---------------------------------------------------------------------------------------------

    def sweep(self, *, is_last: bool = False) -> None:
        """Delete the rolled-back objects that are due.

        Deletes on the caller's thread: batches must not wait for it.

        Args:
            is_last: whether the process ends, so that its generations are not current any more.
        """
        for token, generation in self._generations.items():
            if is_last or self._is_current(token):
                generation.sweep(is_last=is_last)

    # --- inside -----------------------------------------------------------------------------------------------------

    def _owned(self, token: str) -> Generation | None:
        return self._generations.get(token) if self._is_current(token) else None

    def _try(self, generation: Generation, step: Callable[[], None]) -> bool:
        try:
            step()
        except FencedError as error:
            token = generation.token
            with self._lock:
                if token in self._generations:
                    self._on_fenced(token, error)  # first: no thread may drop rows before their commit is forbidden
                    self._generations = {owner: other for owner, other in self._generations.items() if owner != token}
            return False
        return True
