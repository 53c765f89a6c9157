"""The locks, held to the files that they follow from. ``make lock`` writes them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPO = Path(__file__).parents[2]
EACH_LOCK = pytest.mark.parametrize("name", ["requirements", "requirements-dev", "requirements-sbom"])


def wanted(file: Path) -> Iterator[Requirement]:
    for line in file.read_text().splitlines():
        if line.startswith("-r "):
            yield from wanted(file.parent / line.removeprefix("-r "))
        elif line and not line.startswith("#"):
            yield Requirement(line)


def locked(name: str) -> dict[str, set[str]]:
    """The versions by package. Some have one for each Python."""
    versions: dict[str, set[str]] = {}
    for package, version in re.findall(r"^([^\s=]+)==([^\s;]+)", (REPO / f"{name}.lock").read_text(), re.MULTILINE):
        versions.setdefault(canonicalize_name(re.sub(r"\[.*", "", package)), set()).add(version)
    return versions


@EACH_LOCK
def test_a_lock_has_every_pin(name: str) -> None:
    versions = locked(name)
    pins = {canonicalize_name(pin.name): str(pin.specifier) for pin in wanted(REPO / f"{name}.txt")}
    assert {package: {f"=={one}" for one in versions.get(package, ())} for package in pins} == {
        package: {pin} for package, pin in pins.items()
    }, "run: make lock"


@EACH_LOCK
def test_a_lock_has_hashes_and_no_address(name: str) -> None:
    text = (REPO / f"{name}.lock").read_text()
    packages = re.split(r"^(?=[^\s#])", text, flags=re.MULTILINE)[1:]
    assert packages
    assert all("--hash=sha256:" in package for package in packages)
    assert "://" not in text


@pytest.mark.parametrize(
    ("file", "command"), [("Dockerfile", r"\bpip\b[^&]* install [^&]*"), ("Makefile", r"\$\(INSTALL\).*")]
)
def test_nothing_is_installed_without_a_hash(file: str, command: str) -> None:
    """tests/container tries a build with a package that the lock lacks."""
    installs = re.findall(command, (REPO / file).read_text().replace("\\\n", " "))
    assert any("--require-hashes" in each for each in installs)
    assert [each for each in installs if not re.search("--require-hashes|--dry-run|--no-index", each)] == []


def test_tests_run_with_the_packages_of_the_image() -> None:
    image, tests = locked("requirements"), locked("requirements-dev")
    assert {package: tests.get(package) for package in image} == image
