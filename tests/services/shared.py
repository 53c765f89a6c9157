"""One service for all processes that share the tests: the first that needs it starts it, and stops it after the last.

A Kafka costs 40 seconds of processor time in a run of the tests, most of them for its start.
"""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import IO

from dev.broker import Broker
from tests.support.waiting import wait_until

_ANSWER_SECONDS = 30.0
_LOOK_SECONDS = 0.2
_LONGEST_RUN = 2 * 3600.0  # seconds


@contextmanager
def shared_broker(folder: Path, start: Callable[[], AbstractContextManager[Broker]]) -> Iterator[Broker]:
    """The Kafka of all processes that use this folder; no test may stop it or fill it."""
    address = folder / "kafka.address"
    with ExitStack() as started, (folder / "kafka.users").open("w") as users:
        with _only_one(folder):
            is_first = not _is_running(address)
            broker = started.enter_context(start()) if is_first else Broker(address.read_text())
            address.write_text(broker.bootstrap_servers)
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield broker
        finally:
            fcntl.flock(users, fcntl.LOCK_UN)
            if is_first:
                _wait_for_the_others(folder, users, address)


def _is_running(address: Path) -> bool:
    """Whether there is one and it answers: the process that started it may have been killed."""
    return address.exists() and Broker(address.read_text()).cluster_id(_ANSWER_SECONDS) is not None


def _wait_for_the_others(folder: Path, users: IO[str], address: Path) -> None:
    def are_done() -> bool:
        with _only_one(folder):
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            address.unlink(missing_ok=True)  # who comes now starts another one
            return True

    wait_until(are_done, "the other processes that use Kafka", patience=_LONGEST_RUN, pause=_LOOK_SECONDS)


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    with (folder / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
