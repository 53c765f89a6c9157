"""Where promtool comes from, which tests rules for Prometheus: one file out of Debian's package ``prometheus``.

The package is unpacked and never installed: installing it would start a server.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dev.machine import ServiceError, cache_folder, make_once

_OWN = "A promtool of your own can be named with PROMTOOL"


def promtool_program() -> str:
    """Return the path of promtool, fetched on the first call when the machine has none.

    ``PROMTOOL`` wins, then one that the user has, then that of the distribution's package.

    Raises:
        ServiceError: ``PROMTOOL`` names no program, or the package could not be fetched.
    """
    if chosen := os.environ.get("PROMTOOL"):
        if not os.access(chosen, os.X_OK):
            raise ServiceError(f"PROMTOOL={chosen} is no program that can be run")
        return chosen
    installed = shutil.which("promtool")
    return installed or str(make_once(cache_folder() / "promtool", _fetch, "fetching promtool once"))


def _fetch(target: Path) -> None:
    if shutil.which("apt-get") is None:
        raise ServiceError(f"promtool comes from Debian's package prometheus, and here is no apt-get. {_OWN}")
    with tempfile.TemporaryDirectory(prefix=".prometheus-", dir=target.parent) as folder:
        work = Path(folder)
        for name in ("lists", "cache", "package"):
            (work / name).mkdir()
        # Lists of our own: they need no root, and those of a new machine are empty.
        apt = ["apt-get", "-qq", "-o", f"Dir::State::Lists={work / 'lists'}", "-o", f"Dir::Cache={work / 'cache'}"]
        apt += ["-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User="]
        _run([*apt, "update"], work)
        _run([*apt, "download", "prometheus"], work)
        [package] = work.glob("prometheus_*.deb")
        _run(["dpkg-deb", "--extract", str(package), str(work / "package")], work)
        (work / "package" / "usr" / "bin" / "promtool").rename(target)


def _run(command: Sequence[str], folder: Path) -> None:
    told = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if told.returncode != 0:
        end = "\n".join(f"    {line}" for line in told.stdout.splitlines()[-10:])
        raise ServiceError(f"fetching promtool failed. {_OWN}. {command[0]} said:\n{end}")
