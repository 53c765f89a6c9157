"""Decides whether an assignment may upload and register its rows; each step of the delivery asks here.

Invariant kept here:
3. Only the owner of a topic-partition registers files for it.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

from app.errors import ConnectorError, RetryableError
from app.journal.entry_store import FencedError
from app.journal.journal import Intent, Journal


class Ownership(Protocol):
    """The pipeline calls it before and after its steps. Tokens are those of assignments.

    Methods may raise the store's errors, and can then be repeated. They skip a token that is no longer an owner.
    """

    def is_owner(self, token: str) -> bool:
        """Whether the assignment is current and its files may be uploaded now."""
        ...

    def intend(self, intents: Mapping[str, Intent]) -> None:
        """Announce a batch before its first upload."""
        ...

    def confirm(self, tokens: Collection[str]) -> set[str]:
        """The tokens whose uploaded files may be registered now."""
        ...

    def registered(self, intents: Mapping[str, Intent]) -> None:
        """Note that these batches are in the lake and registered. Sends no request to the store."""
        ...

    def done(self) -> None:
        """Write the registered batches as done, unless the next batch's intent already says it; at any time."""
        ...


class AssignmentOwnership:
    """At least once: the member with the assignment may write; there are no journals.

    Args:
        is_current: whether the assignment with this token is current.
    """

    def __init__(self, is_current: Callable[[str], bool]) -> None:
        self._is_current = is_current

    def is_owner(self, token: str) -> bool:
        """As ``Ownership``."""
        return self._is_current(token)

    def intend(self, intents: Mapping[str, Intent]) -> None:
        """Nothing to announce."""

    def confirm(self, tokens: Collection[str]) -> set[str]:
        """As ``Ownership``."""
        return {token for token in tokens if self._is_current(token)}

    def registered(self, intents: Mapping[str, Intent]) -> None:
        """Nothing to note down."""

    def done(self) -> None:
        """Nothing to note down."""


class JournalOwnership:
    """Exactly once: the owner of the partition's journal may write.

    Args:
        is_current: whether the assignment with this token is current.
        on_fenced: called with the token and the reason when a journal has another owner.
        workers: requests to the store at the same time.
        fresh_seconds: how long a partition cannot get another owner after its journal was verified. A process that was
            frozen for longer verifies the journal again before the next upload.
    """

    def __init__(
        self,
        is_current: Callable[[str], bool],
        on_fenced: Callable[[str, str], None],
        *,
        workers: int,
        fresh_seconds: float,
    ) -> None:
        self._is_current = is_current
        self._on_fenced = on_fenced
        self._fresh_seconds = fresh_seconds
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="journal")
        self._lock = threading.Lock()
        self._journals: Mapping[str, Journal] = {}  # replaced as a whole: other threads may iterate over it
        self._registered: dict[str, int] = {}  # by token, the last batch that may be noted down as done

    # --- by the claims ----------------------------------------------------------------------------------------------

    def take(self, token: str, journal: Journal) -> None:
        """Take the journal, which the assignment with this token has claimed."""
        with self._lock:
            self._journals = {owner: other for owner, other in self._journals.items() if self._is_current(owner)} | {
                token: journal
            }

    # --- by the pipeline --------------------------------------------------------------------------------------------

    def is_owner(self, token: str) -> bool:
        """As ``Ownership``; reads the journal again when it was verified long ago."""
        journal = self._journals.get(token)
        if journal is None or not self._is_current(token):
            return False
        if journal.seconds_since_verified > self._fresh_seconds:
            return self._try(token, journal.verify_ownership)
        return True

    def intend(self, intents: Mapping[str, Intent]) -> None:
        """As ``Ownership``; the journals of several partitions are written side by side."""
        owned = self._owned(intents)
        self._all({token: partial(journal.intend, intents[token]) for token, journal in owned.items()})

    def confirm(self, tokens: Collection[str]) -> set[str]:
        """As ``Ownership``."""
        return self._all({token: journal.verify_ownership for token, journal in self._owned(tokens).items()})

    def registered(self, intents: Mapping[str, Intent]) -> None:
        """As ``Ownership``."""
        self._registered |= {token: intent.batch for token, intent in intents.items()}

    def done(self) -> None:
        """As ``Ownership``."""
        registered = self._registered
        self._all(
            {token: partial(journal.done, registered[token]) for token, journal in self._owned(registered).items()}
        )
        self._registered = {}

    # --- by the consumer --------------------------------------------------------------------------------------------

    def advance(self, ends: Mapping[str, int]) -> None:
        """Write into the journals that all rows up to these offsets, by token, are in the lake."""
        owned = self._owned(ends)
        self._all({token: partial(journal.advance, ends[token]) for token, journal in owned.items()})

    def delete_rolled_back(self) -> None:
        """Delete again the objects of batches that were rolled back: late uploads may have brought them back.

        Deletes one partition after the other, on the caller's thread: batches must not wait for it.
        """
        for journal in self._owned(self._journals).values():
            journal.delete_rolled_back()

    def stop(self) -> None:
        """End the threads that are not blocked in a call."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    # --- inside -----------------------------------------------------------------------------------------------------

    def _owned(self, tokens: Iterable[str]) -> dict[str, Journal]:
        journals = self._journals
        return {token: journals[token] for token in tokens if token in journals and self._is_current(token)}

    def _all(self, work: Mapping[str, Callable[[], None]]) -> set[str]:
        """Do the work of all tokens in parallel.

        Returns:
            The tokens whose work is done; the others are fenced.

        Raises:
            ConnectorError: after all have ended; one that is not retriable takes precedence.
        """
        if not work:
            return set()
        attempts = {token: self._pool.submit(self._try, token, step) for token, step in work.items()}
        done, errors = set(), []
        for token, attempt in attempts.items():
            try:
                if attempt.result():
                    done.add(token)
            except ConnectorError as error:
                errors.append(error)
        if errors:
            raise next((error for error in errors if not isinstance(error, RetryableError)), errors[0])
        return done

    def _try(self, token: str, step: Callable[[], None]) -> bool:
        try:
            step()
        except FencedError as error:
            self._fenced(token, error)
            return False
        return True

    def _fenced(self, token: str, error: FencedError) -> None:
        with self._lock:
            was_owner = token in self._journals
            self._journals = {owner: journal for owner, journal in self._journals.items() if owner != token}
        if was_owner:
            self._on_fenced(token, str(error))
