"""Several processes share the tests: most of them wait, for Java, for time-outs, for what is away.

    pytest -n auto -m standard

They share one Kafka, which no test stops. Each has stores of its own, so that a fault that one test makes is met by no
other. The longest are begun first, by the seconds in ``tests/durations.json``: none is then still at work when all
others are done. Where tests became slower or faster, write that file anew, on a machine that does nothing else:

    PYTEST_ADDOPTS=--keep-durations make test
"""

import json
import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

import dev.server
from app.container import memory_limit

DURATIONS = Path(__file__).with_name("durations.json")
WORTH_KEEPING = 1.0  # seconds
# Tests of these need nothing from one another and are dealt out one by one; others stay with those of their file,
# which share a Java process or cost next to nothing.
ONE_BY_ONE = ("tests/e2e/", "tests/faults/", "tests/model/", "tests/properties/")
# Most tests wait for servers and Java, so processes may outnumber the cores. Each may have a Java and connectors.
PROCESSES_A_CORE = 3
MB_A_PROCESS = 1_200


def processes(config: pytest.Config) -> int | None:
    """How many processes ``-n auto`` means: by the cores and the memory of this machine. Others are xdist's matter."""
    if config.option.numprocesses != "auto":
        return None
    limit = memory_limit()
    memory_mb = limit.mb if limit else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return max(1, min(PROCESSES_A_CORE * (os.cpu_count() or 1), memory_mb // MB_A_PROCESS))


class Scheduler(LoadScopeScheduling):  # type: ignore[misc] # xdist says nothing of its types
    """Deals the tests out in the order in which they stand, by file or one by one."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # it would begin with the files that have most tests

    def _split_scope(self, nodeid: str) -> str:
        return _scope(nodeid)


class Durations:
    """Keeps how long each test took that was run, beside what is known of the others."""

    def __init__(self) -> None:
        self._seconds = known_durations()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._seconds[report.nodeid] = round(report.duration, 1)

    def pytest_sessionfinish(self) -> None:
        kept = {nodeid: each for nodeid, each in self._seconds.items() if each >= WORTH_KEEPING}
        DURATIONS.write_text(json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def known_durations() -> dict[str, float]:
    """Seconds by the id of a test; those below ``WORTH_KEEPING`` are left out."""
    found: dict[str, float] = json.loads(DURATIONS.read_text())
    return found


def longest_first(items: list[pytest.Item], seconds: Mapping[str, float]) -> None:
    """Put those first that take longest, those of a scope together and in their order."""
    of_scope: defaultdict[str, float] = defaultdict(float)
    for item in items:
        of_scope[_scope(item.nodeid)] += seconds.get(item.nodeid, 0.0)
    items.sort(key=lambda item: -of_scope[_scope(item.nodeid)])


def is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def take_ports_of_its_own(config: pytest.Config) -> None:
    """Let nobody else take a port that was found free here, or that a stopped server will come back to."""
    given = config.workerinput  # type: ignore[attr-defined] # by xdist
    count = int(given["workercount"])
    number = int(given["workerid"].removeprefix("gw")) % count  # one that replaces a crashed one counts on
    share = (dev.server.LAST_PORT - dev.server.FIRST_PORT) // count
    dev.server.FIRST_PORT += number * share
    dev.server.LAST_PORT = dev.server.FIRST_PORT + share


def _scope(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    return nodeid if file.startswith(ONE_BY_ONE) else file
