"""What stands in the way of a release."""

import re
import subprocess
from pathlib import Path

import pytest

from dev.release import main, problems

REPO = Path(__file__).parents[2]


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


def test_the_commit_with_the_tag_can_be_released_and_no_later_one(repo: Path) -> None:
    subprocess.run(["git", "tag", "v1.2.3"], cwd=repo, check=True)
    assert problems(repo, "1.2.3") == []
    later = "-c user.name=A -c user.email=a@example.com commit -q --allow-empty -m second"
    subprocess.run(["git", *later.split()], cwd=repo, check=True)
    assert problems(repo, "1.2.3") == ["the tag v1.2.3 is at another commit"]


def test_what_the_workflow_releases_a_tag_with_is_understood() -> None:
    text = (REPO / ".github" / "workflows" / "release.yml").read_text()
    [given] = re.findall(r"-m dev\.release (.*)", text)
    shell = 'python() { printf "%s\\n" "$@"; }; python ' + given
    environment = {"TAG": "v0.0.0", "OWNER": "Some-Body"}
    told = subprocess.run(["bash", "-c", shell], env=environment, capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == ["0.0.0", "--registry", "ghcr.io/some-body"]
    with pytest.raises(SystemExit, match=r"ERROR: 0\.0\.0 cannot be released"):
        main(told.splitlines())
