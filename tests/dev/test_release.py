"""What stands in the way of a release."""

import subprocess
from pathlib import Path

import pytest

from dev.release import problems


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n## 1.2.3 - 2026-11-30\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    for command in ("init -q", "add .", "-c user.name=A -c user.email=a@example.com commit -q -m first"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    return tmp_path


def test_a_clean_tree_whose_changelog_has_the_version_can_be_released(repo: Path) -> None:
    assert problems(repo, "1.2.3") == []


def test_another_version_is_in_neither_file(repo: Path) -> None:
    assert problems(repo, "1.2.4") == ["CHANGELOG.md has no section '## 1.2.4'", "pyproject.toml has version 1.2.3"]


def test_a_version_has_three_numbers(repo: Path) -> None:
    assert problems(repo, "v1")[0] == "v1 is no version such as 1.2.3"


def test_a_change_is_to_be_committed(repo: Path) -> None:
    (repo / "CHANGELOG.md").open("a").write("- more\n")
    assert problems(repo, "1.2.3") == ["the work tree has changes that are not committed"]


def test_a_version_is_released_once(repo: Path) -> None:
    subprocess.run(["git", "tag", "v1.2.3"], cwd=repo, check=True)
    assert problems(repo, "1.2.3") == ["the tag v1.2.3 exists"]
