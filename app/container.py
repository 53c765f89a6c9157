"""Whether this process runs in a container, and what that means for the addresses it is given."""

import os
import re
from pathlib import Path
from typing import Final

_MARKS: Final = (Path("/.dockerenv"), Path("/run/.containerenv"))  # of Docker, of Podman
_OWN_ADDRESS = re.compile(r"(?<![\w.-])(localhost|127\.\d+\.\d+\.\d+|::1)(?![\w-]|\.\w)", re.IGNORECASE)


def is_container() -> bool:
    """Whether Docker, Podman or Kubernetes has started this process."""
    return "KUBERNETES_SERVICE_HOST" in os.environ or any(mark.exists() for mark in _MARKS)


def with_own_address(hint: str, text: str) -> str:
    """The hint for a system that cannot be reached, with one more if that is ``localhost`` inside a container.

    Args:
        hint: the ordinary one.
        text: the address, or an error that quotes it.
    """
    found = _OWN_ADDRESS.search(text)
    if found is None or not is_container():
        return hint
    return (
        f"{hint}. {found[1]} is this container itself: for a server on its host use host.docker.internal, or start the "
        "container with --network host"
    )
