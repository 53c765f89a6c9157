"""A member with many partitions claims them side by side."""

import threading
from pathlib import Path

import pytest

from app.model import TopicPartition
from tests.faults.members import TOPIC, Member, Table
from tests.faults.proxy import Request, Rule, on
from tests.faults.steps import CLAIM
from tests.support.waiting import PATIENCE


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_claims_are_read_and_written_side_by_side(table: Table, tmp_path: Path, method: str) -> None:
    """Each request waits at the proxy until there are as many as the member may send at once."""
    workers, count = 8, 64
    together = threading.Barrier(workers, timeout=PATIENCE)

    def meet(_: Request) -> None:
        together.wait()

    rule = table.site.to_store.add(Rule(on(method, CLAIM), before=meet))
    partitions = [TopicPartition(TOPIC, number) for number in range(count)]
    store = table.site.new_store(max_workers=2 * workers)
    with Member(table, tmp_path, store=store, partitions=partitions, workers=workers) as member:
        member.claim()
    assert rule.met == count
    assert not together.broken
