"""``python main.py`` as a process of its own, run to its end."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dev.connector import REPO
from tests.support.waiting import PATIENCE, TookTooLong

MAIN = REPO / "main.py"


def run_main(
    *arguments: str,
    environment: Mapping[str, str],
    main: Sequence[str] = (str(MAIN),),
    records: str | bytes = "",
    folder: Path | None = None,
) -> "subprocess.CompletedProcess[str]":
    """The output and the exit code of ``main``, which a command line begins with; ``records`` is its standard input."""
    try:
        done = subprocess.run(
            [sys.executable, *main, *arguments],
            cwd=folder,
            env=environment,
            input=records if isinstance(records, bytes) else records.encode(),
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TookTooLong(f"not within {PATIENCE:.0f} s: {' '.join(arguments)}") from error
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
