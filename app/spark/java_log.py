"""What Java prints, as lines of our log: in its format, with its levels, and among what is remembered of it."""

import logging
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

logger = logging.getLogger("spark")

_LEVELS = {"FATAL": logging.CRITICAL, "ERROR": logging.ERROR, "WARN": logging.WARNING}
_NOTICE = "WARNING: "  # of the virtual machine itself, as at each start that it has modules still in the making
_LOGGED = re.compile(rf"({'|'.join(_LEVELS)}) (.*)")  # as app/log4j2.properties has it


@contextmanager
def java_log() -> Iterator[int]:
    """A descriptor for the output of a process that is started in the block; it is read until that ends."""
    read_end, write_end = os.pipe()
    threading.Thread(target=_hand_on, args=(read_end,), name="java-log", daemon=True).start()
    try:
        yield write_end
    finally:
        os.close(write_end)


def _hand_on(descriptor: int) -> None:
    with open(descriptor, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if text := line.rstrip():
                logged = _LOGGED.fullmatch(text)
                otherwise = logging.DEBUG if text.startswith(_NOTICE) else logging.INFO
                level, message = (_LEVELS[logged[1]], logged[2]) if logged else (otherwise, text)
                logger.log(level, "%s", message)
