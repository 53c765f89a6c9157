"""Build a release here: ``make release VERSION=1.2.3``. The workflow ``release`` publishes it for two architectures.

With ``--registry``, the built image is pushed under a name for its architecture, such as ``1.2.3-amd64``. With
``--join amd64 arm64``, the pushed images are published under the common names ``1.2.3``, ``1.2`` and ``latest``, and
the chart is pushed, too.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from dev.chart import CHART, HELM, RELEASE, VERSION
from dev.connector import REPO
from dev.container_engine import Engine, Podman, find_engine
from dev.image import DEFAULT_TAG, build_image, run_command
from dev.machine import ServiceError, announce

VERSIONED = ("app/__init__.py", "deploy/chart/Chart.yaml")


def problems(repo: Path, version: str) -> list[str]:
    """What is to be done before this version can be released."""
    found = []
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        found.append(f"{version} is no version such as 1.2.3")
    changelog = (repo / "CHANGELOG.md").read_text()
    sections = len(re.findall(rf"^## {re.escape(version)}(?= |$)", changelog, re.MULTILINE))
    if sections != 1:
        found.append(f"CHANGELOG.md has {sections} sections '## {version}', not one")
    for name in VERSIONED:
        text = (repo / name).read_text()
        found += [f"{name} has version {other}" for other in VERSION.findall(text) if other != version]
    if _git(repo, "status", "--porcelain"):
        found.append("the work tree has changes that are not committed")
    tag = f"v{version}"
    if _git(repo, "tag", "--list", tag) and tag not in _git(repo, "tag", "--points-at", "HEAD").split():
        found.append(f"the tag {tag} is at another commit")
    return found


def _git(repo: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=repo, capture_output=True, text=True, check=True).stdout.strip()


def release_notes(changelog: str, version: str, pages: str) -> str:
    """Return this version's section of the changelog. Relative links become links below the address ``pages``."""
    of_version = rf"^## {re.escape(version)}(?= |$)[^\n]*\n(.*?)(?=^## |\Z)"
    [section] = re.findall(of_version, changelog, re.MULTILINE | re.DOTALL)
    return re.sub(r"\]\((?!\w+:)", f"]({pages}/", section.strip()) + "\n"


def _build(engine: Engine, tag: str, version: str) -> None:
    revision = _git(REPO, "rev-parse", "HEAD")
    # Layers of former builds lack Debian's updates since then, and in Podman have the labels of former versions.
    build_image(engine, tag, "--no-cache", f"--build-arg=VERSION={version}", f"--build-arg=REVISION={revision}")


def _write_lists(engine: Engine, tag: str, folder: Path) -> None:
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
        subprocess.run(
            [HELM.path(), "package", str(chart), *versions, f"--destination={folder}"], stdout=sys.stderr, check=True
        )
    return folder / f"{RELEASE}-{version}.tgz"


def _push(engine: Engine, image: str, tag: str) -> None:
    architecture = engine.call("image", "inspect", "--format", "{{.Architecture}}", image)
    engine.call("tag", image, f"{tag}-{architecture}")
    engine.call("push", f"{tag}-{architecture}")


def join_images(repository: str, version: str, architectures: list[str]) -> str:
    """Push a list of the images of these architectures under each name of the release, and return its digest.

    ``--all=false`` pushes only the list. Otherwise Podman converts the images, to a format without a health check.
    """
    podman, images = Podman(""), f"{DEFAULT_TAG}-{version}"
    podman.try_call("manifest", "rm", images)  # of an earlier run
    podman.call("manifest", "create", images)
    for architecture in architectures:
        podman.call("manifest", "add", images, f"docker://{repository}:{version}-{architecture}")
    with tempfile.NamedTemporaryFile("r") as digest:
        push = ("manifest", "push", "--all=false", "--format=oci", f"--digestfile={digest.name}", images)
        for tag in (version, version.rpartition(".")[0], "latest"):
            podman.call(*push, f"docker://{repository}:{tag}")
        return digest.read()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m dev.release", description=__doc__)
    parser.add_argument("version", help="such as 1.2.3")
    parser.add_argument(
        "--registry", type=str.lower, help="where to push, such as ghcr.io/me; otherwise build the image"
    )
    parser.add_argument(
        "--join", nargs="+", metavar="ARCHITECTURE", help="publish the images that were pushed for these"
    )
    parser.add_argument("--pages", default="", help="address of this version's files, for links of the release notes")
    options = parser.parse_args(arguments)
    version, registry, join = options.version, options.registry, options.join
    if join and not registry:
        parser.error("--join needs --registry")
    found = problems(REPO, version)
    if found:
        sys.exit(f"ERROR: {version} cannot be released: {'; '.join(found)}")
    built = f"{DEFAULT_TAG}:{version}"
    repository = f"{registry}/{DEFAULT_TAG}" if registry else DEFAULT_TAG
    try:
        engine = find_engine()
        if registry and not join:
            _push(engine, built, f"{repository}:{version}")
            return
        folder = REPO / "dist" / version
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        notes = release_notes((REPO / "CHANGELOG.md").read_text(), version, options.pages)
        (folder.parent / "notes.md").write_text(notes)
        chart = package_chart(version, repository, folder)
        if join:
            digest = join_images(repository, version, join)
            # The login of ``docker login`` is Helm's, too. An image and a chart of one name need two places.
            subprocess.run([HELM.path(), "push", str(chart), f"oci://{registry}/charts"], stdout=sys.stderr, check=True)
            print(f"image={repository}\ndigest={digest}\nfolder={folder.relative_to(REPO)}")
        else:
            _build(engine, built, version)
        _write_lists(engine, f"{repository}:{version}", folder)
    except (ServiceError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"ERROR: {error}")
    announce(f"{folder.relative_to(REPO)} has {', '.join(sorted(path.name for path in folder.iterdir()))}.")
    if not registry:
        announce(
            "To publish it on GitHub, where the workflow `release` does the same for the tag:\n"
            f"  git tag --annotate v{version} --message 'Release {version}'\n"
            f"  git push origin v{version}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
