"""Where a run ends that has an end: behind an open transaction nobody can read."""

from collections.abc import Mapping
from typing import Any

import pytest

from app.errors import RetryableError
from app.model import TopicPartition
from app.parts.until.run_end import readable_ends

P0, P1 = TopicPartition("readings", 0), TopicPartition("readings", 1)


class Offsets:
    """Both partitions end before an offset, and can be read up to before another one."""

    consumer: Any = None

    def __init__(self, readable: Mapping[TopicPartition, int]) -> None:
        self._readable = dict(readable)

    def ends(self, _: str) -> dict[TopicPartition, int]:
        return self._readable


def test_a_run_does_not_end_before_records_of_a_transaction_that_is_open() -> None:
    offsets: Any = Offsets({P0: 10, P1: 10})
    with pytest.raises(RetryableError, match=r"offset 10 of readings\[1\]"):
        readable_ends(offsets, "readings", {P0: 10, P1: 15}, None)
