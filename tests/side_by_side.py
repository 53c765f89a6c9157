"""Several processes share the tests: most of them wait, for Java, for time-outs, for what is away.

    pytest -n 3 -m "not alone"

Each has services of its own, so that a fault that one test makes is met by no other.
"""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

import dev.server

# Long and made of waits: begun first, so that none of them is still at work when all others are done.
FIRST = (
    "tests/faults/test_crash_loop.py",
    "tests/faults/test_state_machine.py",
    "tests/container/",
    "tests/faults/test_real_outages.py",
    "tests/e2e/",
    "tests/faults/test_kill_points.py",
    "tests/integration/",
    "tests/parity/",
)
# Tests of these need nothing from one another and are dealt out one by one; others stay with those of their file,
# which share a Java process or cost next to nothing.
ONE_BY_ONE = ("tests/e2e/", "tests/faults/")
SHARES_JAVA = "tests/e2e/test_every_row.py"


class Scheduler(LoadScopeScheduling):  # type: ignore[misc] # xdist says nothing of its types
    """Deals the tests out in the order in which they stand, by file or one by one."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # it would begin with the files that have most tests

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return nodeid if file.startswith(ONE_BY_ONE) and file != SHARES_JAVA else file


def turn(item: pytest.Item) -> int:
    """When a test is to begin."""
    return next((place for place, begin in enumerate(FIRST) if item.nodeid.startswith(begin)), len(FIRST))


def is_worker(config: pytest.Config) -> bool:
    """Whether this is one of the processes that share the tests, and not the one that deals them out."""
    return hasattr(config, "workerinput")


def take_ports_of_its_own(config: pytest.Config) -> None:
    """Let nobody else take a port that was found free here, or that a stopped server will come back to."""
    given = config.workerinput  # type: ignore[attr-defined] # by xdist
    count = int(given["workercount"])
    number = int(given["workerid"].removeprefix("gw")) % count  # one that replaces a crashed one counts on
    share = (dev.server.LAST_PORT - dev.server.FIRST_PORT) // count
    dev.server.FIRST_PORT += number * share
    dev.server.LAST_PORT = dev.server.FIRST_PORT + share
