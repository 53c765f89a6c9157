"""What a command changes of the process is as before after each test."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _same_signals() -> Iterator[None]:
    former = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, former)
