"""The container engine of this machine: Docker where its engine answers, else Podman."""

import os
import re
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from dev.debian_base import SUITE, debian_root_filesystem
from dev.machine import ServiceError, cache_folder
from dev.pip_settings import ca_bundle, pip_settings

ANSWER_TIMEOUT = 30.0  # seconds; an engine on another machine that is down would not answer at all

MADE_HERE = f"localhost/debian:{SUITE}-slim"
CA_BUNDLE_IN_BUILD = "/etc/pip-ca.crt"


class Engine(ABC):
    """Builds images and runs containers by the commands that Docker and Podman have in common."""

    program: ClassVar[str]
    run_options: ClassVar[tuple[str, ...]] = ()

    def __init__(self, version: str) -> None:
        self.version = version

    def __str__(self) -> str:
        return f"{self.program} {self.version}"

    @abstractmethod
    def build(self, folder: Path, tag: str, *options: str) -> None:
        """Build the folder's Dockerfile; the progress goes to our own output.

        Raises:
            ServiceError: the build failed.
        """

    def command(self, *arguments: str) -> list[str]:
        """The command line of the engine; to be run with ``environment()``."""
        return [self.program, *arguments]

    def environment(self) -> Mapping[str, str]:
        """The variables for the engine's command."""
        return os.environ

    def call(self, *arguments: str) -> str:
        """What the engine's command prints on standard output.

        Raises:
            ServiceError: it failed; the message ends with what it said.
        """
        told = self.try_call(*arguments)
        if told.returncode != 0:
            raise ServiceError(f"{self.program} {' '.join(arguments)} failed: {told.stderr.strip()}")
        return told.stdout.strip()

    def try_call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The engine's command with its exit code and output, whatever they are."""
        return subprocess.run(
            self.command(*arguments), env=self.environment(), capture_output=True, text=True, check=False
        )

    def _build(self, tag: str, *arguments: str) -> None:
        command = self.command("build", "--tag", tag, *arguments)
        code = subprocess.run(command, env=self.environment(), check=False).returncode
        if code != 0:
            raise ServiceError(f"building {tag} with {self} failed with code {code}; its output above says why")


class Docker(Engine):
    """Docker, with whatever its engine is set up to pull from."""

    program = "docker"

    def build(self, folder: Path, tag: str, *options: str) -> None:
        self._build(tag, *options, str(folder))


class Podman(Engine):
    """Podman, also on a machine that reaches no registry of images and may not do all that Podman does by default."""

    program = "podman"
    # As Docker: /tmp alone is writable then, and a UID that the image does not know stays unknown.
    run_options = ("--read-only-tmpfs=false", "--passwd=false")

    def environment(self) -> Mapping[str, str]:
        # Podman raises the limits of open files and processes, which root may not do inside many a container.
        settings = cache_folder() / "containers.conf"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text("[containers]\ndefault_ulimits = []\n")
        return {"CONTAINERS_CONF": str(settings), **os.environ}

    def build(self, folder: Path, tag: str, *options: str) -> None:
        # Docker's format keeps the health check, which OCI's does not know.
        options = (*options, *self._base_image(folder), "--format=docker", "--network=host", "--isolation=chroot")
        with tempfile.TemporaryDirectory(prefix="image-build-") as temporary:
            self._build(tag, *options, *_mounts(Path(temporary)), str(folder))

    def _base_image(self, folder: Path) -> list[str]:
        """Options for the image that the Dockerfile begins with: where it cannot be pulled, another takes its place."""
        [pinned] = re.findall(rf"^FROM (debian:{SUITE}-slim@\S+)", (folder / "Dockerfile").read_text(), re.MULTILINE)
        if not self._has(MADE_HERE):
            if self._has(pinned) or self.try_call("pull", "--quiet", pinned).returncode == 0:
                return []
            self.call("import", "--quiet", str(debian_root_filesystem()), MADE_HERE)
        return [f"--from={MADE_HERE}"]

    def _has(self, image: str) -> bool:
        return self.try_call("image", "exists", image).returncode == 0


def find_engine() -> Engine:
    """The engine to use.

    Raises:
        ServiceError: there is none.
    """
    if version := _answer("docker", "version", "--format", "{{.Server.Version}}"):
        return Docker(version)
    if version := _answer("podman", "version", "--format", "{{.Client.Version}}"):
        return Podman(version)
    raise ServiceError(
        "no container engine: Docker's does not answer, and Podman is not installed. Start Docker, or on Debian "
        "as root: apt-get install podman buildah runc netavark debootstrap"
    )


def _answer(*command: str) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return None
    return told.stdout.strip() if told.returncode == 0 else None


def _mounts(folder: Path) -> list[str]:
    """Options that let pip reach its index during the build as it does here, without a word of it in the image."""
    settings = pip_settings()
    mounts = []
    if bundle := ca_bundle():
        settings["cert"] = CA_BUNDLE_IN_BUILD
        mounts.append(f"--volume={bundle}:{CA_BUNDLE_IN_BUILD}:ro")
    if settings:
        file = folder / "pip.conf"
        file.write_text("[global]\n" + "".join(f"{name} = {value}\n" for name, value in settings.items()))
        mounts.append(f"--volume={file}:/etc/pip.conf:ro")
    return mounts
