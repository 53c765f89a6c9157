"""Python packages of other versions than those of this environment, and questions to programs of ours that use them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from dev.machine import ServiceError, cache_folder, make_once

REPO = Path(__file__).resolve().parent.parent
LOG_TAIL_LINES = 15


def other_packages(
    name: str, packages: Sequence[str], announcement: str, finish: Callable[[Path], None] | None = None
) -> Path:
    """The folder with these packages, for ``ask``; the first call fetches them.

    Args:
        name: of the folder; change it when the packages change.
        packages: as ``name==version``. What they depend on comes with them.
        announcement: for the person who waits.
        finish: what else is to be done with the new folder.

    Raises:
        ServiceError: they could not be fetched; the message shows what pip said.
    """

    def install(target: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), *packages]
        told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if told.returncode != 0:
            raise ServiceError(f"fetching {', '.join(packages)} failed. pip said:\n{_end(told.stdout)}")
        if finish:
            finish(target)

    return make_once(cache_folder() / name, install, announcement)


def ask(packages: Path, module: str, question: Mapping[str, Any]) -> pa.Table:
    """Run a module of ours, which calls ``question`` and ``answer``, with these packages before those of ours.

    Raises:
        ServiceError: it has failed; the message shows what it said.
    """
    told = subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps(question).encode(),
        env={**os.environ, "PYTHONPATH": str(packages)},
        cwd=REPO,
        capture_output=True,
        check=False,
    )
    if told.returncode != 0:
        raise ServiceError(f"{module} failed:\n{_end(told.stderr.decode(errors='replace'))}")
    with pa.ipc.open_stream(told.stdout) as stream:
        return stream.read_all()


def question() -> Any:
    """In such a module: what it is asked."""
    return json.load(sys.stdin)


def answer(table: pa.Table) -> None:
    """In such a module: what it answers."""
    with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as stream:
        stream.write_table(table)


def _end(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines()[-LOG_TAIL_LINES:])
