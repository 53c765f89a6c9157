"""The Debian base image for a machine that cannot pull it: made from Debian's own packages."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from dev.machine import ServiceError, cache_folder, make_once

SUITE = "trixie"

# What the published slim image leaves out as well.
_LEFT_OUT = (
    "usr/share/doc",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/man",
    "var/cache/apt",
    "var/lib/apt/lists",
)


def debian_root_filesystem() -> Path:
    """Return a tar file with a minimal Debian, made on the first call.

    Raises:
        ServiceError: we are not root, ``debootstrap`` is not installed, or it failed.
    """
    target = cache_folder() / f"debian-{SUITE}-slim.tar"
    return make_once(target, _make, f"making a Debian {SUITE} base image once, half a minute")


def _make(target: Path) -> None:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"  # where a user's own PATH does not lead
    program = shutil.which("debootstrap", path=path)
    if program is None or os.geteuid() != 0:
        raise ServiceError(
            f"the base image debian:{SUITE}-slim cannot be pulled. As root, with debootstrap installed "
            "(apt-get install debootstrap), it is made from Debian's packages instead"
        )
    root = target.parent / "root"
    # A mount namespace of its own: what debootstrap mounts below the folder goes with it, however it ends.
    unshared = ["unshare", "--mount", program, "--variant=minbase", SUITE, str(root)]
    _run(unshared, f"debootstrap of {SUITE}", {**os.environ, "PATH": path})
    excluded = [f"--exclude=./{folder}/*" for folder in _LEFT_OUT]
    _run(["tar", "--directory", str(root), *excluded, "--create", "--file", str(target), "."], "packing it", os.environ)
    shutil.rmtree(root)


def _run(command: list[str], doing: str, environment: Mapping[str, str]) -> None:
    told = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if told.returncode != 0:
        end = "\n".join(f"    {line}" for line in told.stdout.splitlines()[-10:])
        raise ServiceError(f"making the base image, {doing} failed:\n{end}")
