"""The memory limit of a process, read from trees of files as Linux shows them."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from app.container import MemoryLimit, memory_limit

MB = 2**20
HUGE = "9223372036854771712\n"  # what version 1 writes where there is no limit
V1 = "12:cpu,cpuacct:/\n4:memory:{group}\n1:name=systemd:{group}\n0::/\n"
V1_LIMIT = "memory.limit_in_bytes"
TOP, POD = f"memory/{V1_LIMIT}", f"memory/pods/1/{V1_LIMIT}"
NESTED = "0::/a.slice/b.scope\n"
OUTER, INNER = "a.slice/memory.max", "a.slice/b.scope/memory.max"


def tree(root: Path, groups: str | None, limits: dict[str, str]) -> Path:
    if groups is not None:
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/self/cgroup").write_text(groups)
    for name, text in limits.items():
        file = root / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


FOUND: Mapping[str, tuple[str | None, dict[str, str], int, str]] = {
    "version 2: its own group is at the top": ("0::/\n", {"memory.max": f"{2048 * MB}\n"}, 2048, "memory.max"),
    "that around it": (NESTED, {OUTER: f"{900 * MB}", INNER: "max"}, 900, OUTER),
    "its own": (NESTED, {OUTER: f"{900 * MB}", INNER: f"{700 * MB}"}, 700, INNER),
    "a smaller one around it": (NESTED, {OUTER: f"{700 * MB}", INNER: f"{900 * MB}", "memory.max": "max"}, 700, OUTER),
    "that of the container": (NESTED, {OUTER: "max", "memory.max": f"{512 * MB + 1}"}, 512, "memory.max"),
    "version 1": (V1.format(group="/pods/1"), {POD: f"{1500 * MB}\n", TOP: HUGE}, 1500, POD),
    "version 1: known by the name outside": (V1.format(group="/docker/0123"), {TOP: f"{1024 * MB}\n"}, 1024, TOP),
    "none outside of what is seen": ("0::/../x\n", {"../x/memory.max": "1", "memory.max": "8388608"}, 8, "memory.max"),
    "no file of groups: the top": (None, {TOP: f"{600 * MB}\n"}, 600, TOP),
    "no line of groups: the top": ("odd", {TOP: f"{600 * MB}\n"}, 600, TOP),
}
NONE: Mapping[str, tuple[str | None, dict[str, str]]] = {
    "max": ("0::/\n", {"memory.max": "max\n"}),
    "huge": (V1.format(group="/"), {TOP: HUGE}),
    "no number": ("0::/a\n", {"memory.max": "", "a/memory.max": "what?\n"}),
    "unreadable": ("0::/\n", {"memory.max/is a folder": ""}),
    "no file": ("0::/\n", {}),
    "no such system": (None, {}),
}


@pytest.mark.parametrize(("groups", "limits", "mb", "file"), FOUND.values(), ids=FOUND)
def test_the_smallest_limit_around_counts(
    tmp_path: Path, groups: str | None, limits: dict[str, str], mb: int, file: str
) -> None:
    tree(tmp_path, groups, {"other.slice/memory.max": f"{MB}"} | limits)
    assert memory_limit(tmp_path) == MemoryLimit(mb, f"/sys/fs/cgroup/{file}")


@pytest.mark.parametrize(("groups", "limits"), NONE.values(), ids=NONE)
def test_no_limit(tmp_path: Path, groups: str | None, limits: dict[str, str]) -> None:
    assert memory_limit(tree(tmp_path, groups, limits)) is None


def test_this_very_machine_is_no_error() -> None:
    limit = memory_limit()
    assert limit is None or limit.mb > 0
