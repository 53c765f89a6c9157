"""What stands in the way of a release, and how its image is scanned and published."""

import re
import subprocess
from pathlib import Path

import pytest

from dev import scan
from dev.release import join_images, main, problems, release_notes

REPO = Path(__file__).parents[2]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n## 1.2.3 - 2026-11-30\n")
    for name, text in (("app/__init__.py", '__version__ = "1.2.3"'), ("deploy/chart/Chart.yaml", "appVersion: 1.2.3")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    for command in ("init -q", "add .", "-c user.name=A -c user.email=a@example.com commit -q -m first"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    return tmp_path


def test_a_clean_tree_whose_changelog_has_the_version_can_be_released(repo: Path) -> None:
    assert problems(repo, "1.2.3") == []


def test_another_version_is_in_no_file_and_each_has_three_numbers(repo: Path) -> None:
    assert problems(repo, "1.2.4") == [
        "CHANGELOG.md has 0 sections '## 1.2.4', not one",
        "app/__init__.py has version 1.2.3",
        "deploy/chart/Chart.yaml has version 1.2.3",
    ]
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
    build, push, join = re.findall(r"python -m dev\.release (.*?)(?: >> .*)?$", text, re.MULTILINE)
    for line in (build, push, join):
        with pytest.raises(SystemExit, match=r"ERROR: 0\.0\.0 cannot be released"):
            main(line.replace('"${TAG#v}"', "0.0.0").split())


def test_release_notes_are_a_section_of_the_changelog_with_complete_links() -> None:
    changelog = "# Changelog\n\n## 1.2.3 - 2026-11-30\n\n- [A](docs/a.md) [B](https://b.c)\n\n## 1.2.2\n\n- Old\n"
    assert release_notes(changelog, "1.2.3", "https://p") == "- [A](https://p/docs/a.md) [B](https://b.c)\n"


def _programs(folder: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    for name, script in scripts.items():
        (folder / name).write_text(f'#!/bin/sh\necho "$@" >> "$0.log"\n{script}\n')
        (folder / name).chmod(0o755)
        monkeypatch.setenv(name.upper(), str(folder / name))
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_the_joined_images_get_three_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _programs(tmp_path, monkeypatch, podman='for each; do case $each in --digest*) printf 1 > "${each#*=}"; esac; done')
    assert join_images("ghcr.io/me/sink", "1.2.3", ["amd64", "arm64"]) == "1"
    names = re.findall(r"ghcr.io/me/sink:(\S+)", (tmp_path / "podman.log").read_text())
    assert names == ["1.2.3-amd64", "1.2.3-arm64", "1.2.3", "1.2", "latest"]


def test_a_scan_fails_as_the_scanner_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _programs(tmp_path, monkeypatch, docker="echo 28", grype='[ "$2 $3" = "--only-fixed --fail-on=high" ] && exit 2')
    with pytest.raises(SystemExit, match="2"):
        scan.main(["sink:1.2.3"])
