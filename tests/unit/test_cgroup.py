"""The memory limit of a process, read from trees of files as Linux shows them."""

from pathlib import Path

import pytest

from app.container import MemoryLimit, memory_limit

MB = 2**20
HUGE = "9223372036854771712\n"  # what version 1 writes where there is no limit
V1 = "12:cpu,cpuacct:/\n4:memory:{group}\n1:name=systemd:{group}\n0::/\n"


def tree(root: Path, groups: str | None, limits: dict[str, str]) -> Path:
    """Write ``/proc/self/cgroup``, and files below ``/sys/fs/cgroup``."""
    if groups is not None:
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/self/cgroup").write_text(groups)
    for name, text in limits.items():
        file = root / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def test_a_container_of_version_2_sees_its_own_group_at_the_top(tmp_path: Path) -> None:
    tree(tmp_path, "0::/\n", {"memory.max": f"{2048 * MB}\n"})
    assert memory_limit(tmp_path) == MemoryLimit(2048, "/sys/fs/cgroup/memory.max")


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        ({"a.slice/b.scope/memory.max": "max", "a.slice/memory.max": f"{900 * MB}"}, (900, "a.slice/memory.max")),
        (
            {"a.slice/b.scope/memory.max": f"{700 * MB}", "a.slice/memory.max": f"{900 * MB}"},
            (700, "a.slice/b.scope/memory.max"),
        ),
        (
            {"a.slice/b.scope/memory.max": f"{900 * MB}", "a.slice/memory.max": f"{700 * MB}", "memory.max": "max"},
            (700, "a.slice/memory.max"),
        ),
        ({"a.slice/memory.max": "max", "memory.max": f"{512 * MB + 1}"}, (512, "memory.max")),
    ],
    ids=["that around it", "its own", "the smaller one around it", "that of the container"],
)
def test_of_nested_groups_the_smallest_limit_counts(
    tmp_path: Path, limits: dict[str, str], found: tuple[int, str]
) -> None:
    tree(tmp_path, "0::/a.slice/b.scope\n", limits | {"other.slice/memory.max": f"{MB}"})
    mb, file = found
    assert memory_limit(tmp_path) == MemoryLimit(mb, f"/sys/fs/cgroup/{file}")


def test_a_group_of_version_1(tmp_path: Path) -> None:
    limits = {
        "memory/kubepods/pod1/memory.limit_in_bytes": f"{1500 * MB}\n",
        "memory/kubepods/memory.limit_in_bytes": HUGE,
        "memory/memory.limit_in_bytes": HUGE,
    }
    tree(tmp_path, V1.format(group="/kubepods/pod1"), limits)
    file = "/sys/fs/cgroup/memory/kubepods/pod1/memory.limit_in_bytes"
    assert memory_limit(tmp_path) == MemoryLimit(1500, file)


def test_a_container_of_version_1_may_know_its_group_by_the_name_outside(tmp_path: Path) -> None:
    tree(tmp_path, V1.format(group="/docker/0123abcd"), {"memory/memory.limit_in_bytes": f"{1024 * MB}\n"})
    assert memory_limit(tmp_path) == MemoryLimit(1024, "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def test_a_group_outside_of_what_is_seen_is_not_looked_for(tmp_path: Path) -> None:
    tree(tmp_path, "0::/../other\n", {"../other/memory.max": f"{MB}", "memory.max": f"{800 * MB}"})
    assert memory_limit(tmp_path) == MemoryLimit(800, "/sys/fs/cgroup/memory.max")


@pytest.mark.parametrize("groups", [None, "", "odd"], ids=["no file", "no group", "no line of groups"])
def test_without_a_group_the_top_is_looked_at(tmp_path: Path, groups: str | None) -> None:
    tree(tmp_path, groups, {"memory/memory.limit_in_bytes": f"{600 * MB}\n"})
    assert memory_limit(tmp_path) == MemoryLimit(600, "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@pytest.mark.parametrize(
    ("groups", "limits"),
    [
        ("0::/\n", {"memory.max": "max\n"}),
        (V1.format(group="/"), {"memory/memory.limit_in_bytes": HUGE}),
        ("0::/a\n", {"memory.max": "", "a/memory.max": "what?\n"}),
        ("0::/\n", {"memory.max/is a folder": ""}),
        ("0::/\n", {}),
        (None, {}),
    ],
    ids=["max", "huge", "no number", "unreadable", "no file", "no such system"],
)
def test_no_limit(tmp_path: Path, groups: str | None, limits: dict[str, str]) -> None:
    assert memory_limit(tree(tmp_path, groups, limits)) is None


def test_this_very_machine_is_no_error() -> None:
    limit = memory_limit()
    assert limit is None or limit.mb > 0
