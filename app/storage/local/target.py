"""The address of a folder of this machine."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LocalTarget:
    """A folder of this machine; a missing one is created."""

    folder: Path

    @property
    def uri(self) -> str:
        """``file:///folder``, as readers take it: not percent-encoded."""
        return f"file://{self.folder}"
