"""What lets the connector into an Azure storage account, as far as an error has to tell of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Self
from urllib.parse import parse_qsl

# What the connector does with objects, by the letters that a shared access signature has for it.
NEEDED = "rcwdl"
NEEDED_WORDS = "read (r), create (c), write (w), delete (d) and list (l)"
ROLE = "Storage Blob Data Contributor"


@dataclass(frozen=True, slots=True)
class Grant:
    """A key, a shared access signature, or an identity of this machine.

    Attributes:
        variable: the setting that holds it, ``None`` for an identity.
        letters: what a signature permits, ``None`` where it does not say so itself, or is none.
        expiry: when a signature ends, as it says it.
        is_signature: whether it is one.
    """

    variable: str | None
    is_signature: bool = False
    letters: str | None = field(default=None)
    expiry: str | None = field(default=None)

    @classmethod
    def of_signature(cls, variable: str, token: str) -> Self:
        """Read the parts of a shared access signature that are no secret."""
        parts: Mapping[str, str] = dict(parse_qsl(token))
        return cls(variable, is_signature=True, letters=parts.get("sp"), expiry=parts.get("se"))

    @property
    def has_expired(self) -> bool:
        """Whether it is a signature whose time is over."""
        try:
            end = datetime.fromisoformat(self.expiry or "")
        except ValueError:  # none, or in a form that only the service understands
            return False
        return (end if end.tzinfo else end.replace(tzinfo=UTC)) < datetime.now(UTC)

    @property
    def missing_letters(self) -> str:
        """What a signature does not permit and the connector needs; empty where nobody can tell from here."""
        return "" if self.letters is None else "".join(letter for letter in NEEDED if letter not in self.letters)

    def wrong(self) -> str:
        """What to do where the service does not know it."""
        if self.variable is None:
            return "Check which identity this machine has, and in which tenant"
        what = "the signature" if self.is_signature else "the key"
        return f"Check {self.variable}: is it {what} of this account, whole and not renewed since?"

    def too_little(self) -> str:
        """What to do where it does not permit enough."""
        if missing := self.missing_letters:
            return (
                f"{self.variable} permits sp={self.letters} and lacks {missing}: set one for the container that "
                f"permits {NEEDED_WORDS}"
            )
        if self.is_signature:
            return f"Set a {self.variable} for the container that permits {NEEDED_WORDS}"
        if self.variable is None:
            return f"Give this machine's identity the role {ROLE} on the container; it takes effect within ten minutes"
        return f"Check {self.variable}"
