"""Build a release here: ``make release VERSION=1.2.3``. The workflow of a tag also pushes it, to a registry."""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from dev.chart import CHART, HELM, RELEASE
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
    tag = f"v{version}"
    if _git(repo, "tag", "--list", tag) and tag not in _git(repo, "tag", "--points-at", "HEAD").split():
        found.append(f"the tag {tag} is at another commit")
    return found


def _git(repo: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=repo, capture_output=True, text=True, check=True).stdout.strip()


def _build(engine: Engine, tag: str, version: str, folder: Path) -> None:
    revision = _git(REPO, "rev-parse", "HEAD")
    # Layers of former builds lack Debian's updates since then, and in Podman have the labels of former versions.
    build_image(engine, tag, "--no-cache", f"--build-arg=VERSION={version}", f"--build-arg=REVISION={revision}")
    for name in ("sbom.json", "licences.txt"):
        command = run_command(engine, tag, "--rm", "--entrypoint=cat", network="none")
        with (folder / name).open("w") as file:
            subprocess.run([*command, name], env=engine.environment(), stdout=file, check=True)


def package_chart(version: str, repository: str, folder: Path) -> Path:
    """Write the chart of this version into the folder, with the image of this repository as its default."""
    with tempfile.TemporaryDirectory() as temporary:
        chart = shutil.copytree(CHART, Path(temporary) / CHART.name)
        values = chart / "values.yaml"
        values.write_text(values.read_text().replace(f"repository: {DEFAULT_TAG}\n", f"repository: {repository}\n"))
        versions = [f"--version={version}", f"--app-version={version}"]
        subprocess.run([HELM.path(), "package", str(chart), *versions, f"--destination={folder}"], check=True)
    return folder / f"{RELEASE}-{version}.tgz"


def _push(engine: Engine, tag: str, chart: Path, registry: str) -> None:
    """The login of ``docker login`` is Helm's, too. An image and a chart of one name need two places."""
    engine.call("push", tag)
    subprocess.run([HELM.path(), "push", str(chart), f"oci://{registry}/charts"], check=True)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m dev.release", description=__doc__)
    parser.add_argument("version", help="such as 1.2.3")
    parser.add_argument("--registry", help="where to push image and chart, such as ghcr.io/me; else nothing is pushed")
    options = parser.parse_args(arguments)
    version, registry = options.version, options.registry
    found = problems(REPO, version)
    if found:
        sys.exit(f"ERROR: {version} cannot be released: {'; '.join(found)}")
    folder = REPO / "dist" / version
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    repository = f"{registry}/{DEFAULT_TAG}" if registry else DEFAULT_TAG
    tag = f"{repository}:{version}"
    try:
        engine = find_engine()
        _build(engine, tag, version, folder)
        chart = package_chart(version, repository, folder)
        if registry:
            _push(engine, tag, chart, registry)
    except (ServiceError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"ERROR: {error}")
    print(f"{folder.relative_to(REPO)} has {', '.join(sorted(path.name for path in folder.iterdir()))}.")
    if not registry:
        print(
            "To publish it on GitHub, where the workflow `release` does the same for the tag:\n"
            f"  git tag --annotate v{version} --message 'Release {version}'\n"
            f"  git push origin v{version}\n"
            "To publish it from here, after a login: add --registry to python -m dev.release"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
