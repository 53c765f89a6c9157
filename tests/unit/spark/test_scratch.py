"""The scratch folder: private, and gone with its process, however that ended."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from app.spark.scratch import is_in_memory, make_scratch

REPOSITORY = Path(__file__).parents[3]
MAKE_AND_WAIT = (
    "from app.spark.scratch import make_scratch; import sys; print(make_scratch(), flush=True); sys.stdin.read()"
)

MAKE_AND_START_ANOTHER = """
import subprocess, sys
from app.spark.scratch import make_scratch
print(make_scratch())
nothing = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
print(subprocess.Popen(["sleep", "60"], close_fds=False, **nothing).pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory that all processes of the test share."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


class OtherProcess:
    """Another life of the connector with a scratch folder of its own, for as long as the block."""

    def __init__(self, parent: Path, program: str = MAKE_AND_WAIT) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=REPOSITORY,
            env={**os.environ, "TMPDIR": str(parent)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.folder = Path(self.line())

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def __enter__(self) -> "OtherProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def test_the_folder_is_empty_private_and_in_the_temporary_directory(parent: Path) -> None:
    folder = make_scratch()
    assert folder.parent == parent
    assert list(folder.iterdir()) == []
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_folder_of_a_process_that_runs_stays(parent: Path) -> None:
    with OtherProcess(parent) as other:
        mine = make_scratch()
        assert sorted(parent.iterdir()) == sorted([other.folder, mine])
    with OtherProcess(parent) as third:
        assert sorted(parent.iterdir()) == sorted([mine, third.folder])


def test_folders_of_others_are_left_alone(parent: Path) -> None:
    (parent / "pytest-of-somebody").mkdir()
    (parent / "quix-datalake-notes.txt").write_text("a file, not a folder")
    make_scratch()
    assert (parent / "pytest-of-somebody").exists()
    assert (parent / "quix-datalake-notes.txt").exists()


def test_what_a_killed_process_left_is_removed_also_while_a_process_it_started_lives_on(parent: Path) -> None:
    """As Spark's Java process may, for a moment."""
    with OtherProcess(parent, MAKE_AND_START_ANOTHER) as other:
        heir = int(other.line())
        (other.folder / "written-7").mkdir()
        (other.folder / "written-7" / "part-0.parquet").write_bytes(b"PAR1")
    try:
        folder = make_scratch()
        assert list(parent.iterdir()) == [folder]
    finally:
        os.kill(heir, signal.SIGKILL)


@pytest.mark.parametrize(
    ("folder", "expected"),
    [("tmp", True), ("tmp/data", True), ("disk", False), ("tmp/disk", False), ("tmp/both", True)],
)
def test_a_folder_that_is_memory_is_known(tmp_path: Path, folder: str, expected: bool) -> None:
    (tmp_path / folder).mkdir(parents=True)
    kinds = {"": "ext4", "tmp": "tmpfs", "disk": "ext4", "tmp/disk": "overlay", "tmp/both": "ext4"}
    lines = [f"none {tmp_path / place} {kind} rw 0 0\n" for place, kind in [*kinds.items(), ("tmp/both", "tmpfs")]]
    mounts = tmp_path / "mounts"
    mounts.write_text("none / ext4 rw 0 0\n" + "".join(lines))
    assert is_in_memory(tmp_path / folder, mounts) is expected


def test_a_system_without_a_list_of_mounts(tmp_path: Path) -> None:
    assert not is_in_memory(tmp_path, tmp_path / "none")
