"""The container of this process: the memory limit, and hints about ``localhost`` in a container."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

_MARKS: Final = (Path("/.dockerenv"), Path("/run/.containerenv"))  # files that Docker and Podman create
OWN_ADDRESS = re.compile(r"(?<![\w.-])(localhost|127\.\d+\.\d+\.\d+|::1)(?![\w-]|\.\w)", re.IGNORECASE)

_GROUPS: Final = "proc/self/cgroup"
_MOUNT, _FILE = "sys/fs/cgroup", "memory.max"
_OLD_MOUNT, _OLD_FILE = "sys/fs/cgroup/memory", "memory.limit_in_bytes"  # version 1 has a tree for each resource
_NO_LIMIT: Final = 1 << 50  # version 1 shows a missing limit as 2**63 bytes, less a page


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """MB that the container may use. ``source`` is the file or the variable with the limit."""

    mb: int
    source: str


def memory_limit(root: Path = Path("/")) -> MemoryLimit | None:
    """Returns the smallest memory limit of the process's control group and the groups that contain this group.

    Groups without a limit and unreadable files are ignored. ``root`` contains ``/proc`` and ``/sys``.
    """
    return min(_limits(root), key=lambda limit: limit.mb, default=None)


def _limits(root: Path) -> Iterator[MemoryLimit]:
    for file in _files(root):
        with suppress(OSError, ValueError):  # ValueError: the word "max"
            limit = int(file.read_text())
            if limit < _NO_LIMIT:
                yield MemoryLimit(limit // 2**20, f"/{file.relative_to(root)}")


def _files(root: Path) -> Iterator[Path]:
    """Yields the files that may contain a limit, innermost group first. Only files of one cgroup version exist."""
    groups = ""
    with suppress(OSError, ValueError):
        groups = (root / _GROUPS).read_text()
    for line in groups.splitlines():  # "number:resources:/group"; version 2 names no resources
        _, _, rest = line.partition(":")
        resources, _, group = rest.partition(":")
        if not resources:
            mount, name = root / _MOUNT, _FILE
        elif "memory" in resources.split(","):
            mount, name = root / _OLD_MOUNT, _OLD_FILE
        else:
            continue
        folders = PurePosixPath(group).parts[1:]
        if ".." in folders:  # a group that this container cannot see
            continue
        for depth in range(len(folders), 0, -1):
            yield mount.joinpath(*folders[:depth], name)
    # A container may see only a part of the tree, while /proc shows the group's path outside of the container. In this
    # case these folders do not exist, and the top of the visible tree is the container's group.
    yield root / _MOUNT / _FILE
    yield root / _OLD_MOUNT / _OLD_FILE


def is_container() -> bool:
    return "KUBERNETES_SERVICE_HOST" in os.environ or any(mark.exists() for mark in _MARKS)


def with_own_address(hint: str, text: str) -> str:
    """Adds a hint about ``localhost`` in a container if ``text`` (an address or error) contains ``localhost``."""
    match = OWN_ADDRESS.search(text)
    if match is None or not is_container():
        return hint
    return (
        f"{hint}. {match[1]} is this container itself: for a server on its host use host.docker.internal, or start the "
        "container with --network host"
    )
