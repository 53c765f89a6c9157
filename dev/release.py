"""Build a release here, and print the commands that publish it: ``make release VERSION=1.2.3``. Nothing is pushed."""

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from dev.chart import CHART, HELM
from dev.connector import REPO
from dev.container_engine import Engine, find_engine
from dev.image import DEFAULT_TAG, build_image, run_command
from dev.machine import ServiceError


def problems(repo: Path, version: str) -> list[str]:
    """What is to be done before this version can be released."""
    found = []
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        found.append(f"{version} is no version such as 1.2.3")
    if not re.search(rf"^## {re.escape(version)}\b", (repo / "CHANGELOG.md").read_text(), re.MULTILINE):
        found.append(f"CHANGELOG.md has no section '## {version}'")
    in_project = tomllib.loads((repo / "pyproject.toml").read_text())["project"]["version"]
    if in_project != version:
        found.append(f"pyproject.toml has version {in_project}")
    if _git(repo, "status", "--porcelain"):
        found.append("the work tree has changes that are not committed")
    if _git(repo, "tag", "--list", f"v{version}"):
        found.append(f"the tag v{version} exists")
    return found


def _git(repo: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=repo, capture_output=True, text=True, check=True).stdout.strip()


def _build(engine: Engine, version: str, folder: Path) -> None:
    tag = f"{DEFAULT_TAG}:{version}"
    revision = _git(REPO, "rev-parse", "HEAD")
    # Layers of former builds lack Debian's updates since then, and in Podman have the labels of former versions.
    build_image(engine, tag, "--no-cache", f"--build-arg=VERSION={version}", f"--build-arg=REVISION={revision}")
    for name in ("sbom.json", "licences.txt"):
        command = run_command(engine, tag, "--rm", "--entrypoint=cat", network="none")
        with (folder / name).open("w") as file:
            subprocess.run([*command, name], env=engine.environment(), stdout=file, check=True)
    versions = [f"--version={version}", f"--app-version={version}"]
    subprocess.run([HELM.path(), "package", CHART, *versions, f"--destination={folder}"], cwd=REPO, check=True)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m dev.release", description=__doc__)
    parser.add_argument("version", help="such as 1.2.3")
    version = parser.parse_args(arguments).version
    found = problems(REPO, version)
    if found:
        sys.exit(f"ERROR: {version} cannot be released: {'; '.join(found)}")
    folder = REPO / "dist" / version
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        engine = find_engine()
        _build(engine, version, folder)
    except (ServiceError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"ERROR: {error}")
    print(
        f"{folder.relative_to(REPO)} has {', '.join(sorted(path.name for path in folder.iterdir()))}. To publish:\n"
        f"  git tag --annotate v{version} --message 'Release {version}'\n"
        f"  git push origin v{version}\n"
        f"  {engine.program} tag {DEFAULT_TAG}:{version} REGISTRY/{DEFAULT_TAG}:{version}\n"
        f"  {engine.program} push REGISTRY/{DEFAULT_TAG}:{version}\n"
        f"  helm push {folder.relative_to(REPO)}/*.tgz oci://REGISTRY\n"
        f"  gh release create v{version} {folder.relative_to(REPO)}/*"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
