"""Runs a command in a process of its own that yields to this one."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from threading import Event, Thread
from typing import IO, Final

from app.service import throttled

MAIN = Path(__file__).parents[2] / "main.py"
_TICK: Final = 0.25  # seconds between two looks


def run_in_background(
    arguments: Sequence[str], variables: Mapping[str, str], stop: Event, say: Callable[[str], None]
) -> int:
    """Run this command of main.py, and return its exit code; above 128 if it was killed, as by ``stop``.

    ``variables`` are set beside the environment's; each line that it prints goes to ``say``.
    """
    with Popen(
        [sys.executable, "-P", throttled.__file__, str(os.getpid()), sys.executable, str(MAIN), *arguments],
        env={**os.environ, **variables},
        stdin=DEVNULL,
        stdout=PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # what kills all of our group leaves it, and it ends the command
    ) as process:
        assert process.stdout is not None  # noqa: S101 - it was asked for
        reader = Thread(target=_hand_on, args=(process.stdout, say), name="background", daemon=True)
        reader.start()
        while process.poll() is None and not stop.wait(_TICK):
            pass
        process.terminate()
        reader.join()
        return process.wait()


def _hand_on(lines: IO[str], say: Callable[[str], None]) -> None:
    for line in lines:
        say(line.rstrip("\n"))
