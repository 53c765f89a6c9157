"""What the guarantee costs: requests of a partition and batch, counted, and partitions side by side."""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.model import TopicPartition
from app.storage.base import ObjectStore
from tests.faults.members import BATCHES, TOPIC, Member, Site, Table, rows_of, wait_until
from tests.faults.proxy import FaultProxy, Hold, Matches, Request, Rule, nth, on
from tests.faults.steps import DATA, JOURNAL
from tests.support.batches import batch_of

MANY = tuple(TopicPartition(TOPIC, number) for number in range(64))
WORKERS = 8
WAIT = 30.0

READ, WRITTEN = on("GET", JOURNAL), on("PUT", JOURNAL)
INTENDED, DONE = on("PUT", JOURNAL, body='"pending"'), on("PUT", JOURNAL, body='"done"')


@pytest.fixture(scope="module")
def wide(site: Site) -> ObjectStore:
    """A store with as many connections as the members here have threads."""
    return site.new_store(max_workers=2 * WORKERS)


@pytest.fixture
def member(table: Table, tmp_path: Path, wide: ObjectStore) -> Iterator[Member]:
    with Member(table, tmp_path, store=wide, partitions=MANY, workers=WORKERS) as member:
        yield member


def kinds(proxy: FaultProxy) -> Counter[str]:
    """The requests so far, by what they are for."""
    named: dict[str, Matches] = {
        "read": READ,
        "intend": INTENDED,
        "done": DONE,
        "upload": on("PUT", DATA),
        "register": on("POST", "/add-files"),
    }
    return Counter(
        next((name for name, matches in named.items() if matches(request)), f"{request.method} {request.target}")
        for request in proxy.seen
    )


def test_the_requests_of_a_partition_are_few(table: Table, member: Member, tmp_path: Path, wide: ObjectStore) -> None:
    site = table.site
    member.claim()
    assert kinds(site.to_store) == {"read": 64, "done": 64}, "claim: one read; the first entry: one write"
    site.clear()
    member.write(batches=1)
    per_batch = {"intend": 64, "upload": 2 * 64, "read": 64, "done": 64}
    assert kinds(site.to_store) == per_batch
    assert kinds(site.to_catalog)["register"] == 1
    site.clear()
    with Member(table, tmp_path, store=wide, partitions=MANY, workers=WORKERS) as next_member:
        next_member.claim()
        assert kinds(site.to_store) == {"read": 64, "done": 64}, "a claim of what is done: one read, one write"
        site.clear()
        next_member.write(batches=2)
    assert kinds(site.to_store) == {kind: 2 * count for kind, count in per_batch.items()}
    assert kinds(site.to_catalog)["register"] == 2
    table.assert_whole(MANY)


def test_of_batches_one_behind_the_other_only_the_last_is_noted_as_done(table: Table, member: Member) -> None:
    member.claim()
    table.site.clear()
    held = table.site.to_catalog.add(Rule(on("POST", "/add-files"), Hold(), nth(*range(1, BATCHES))))
    for number in range(1, BATCHES + 1):
        rows = {tp: rows_of(tp, 2 * (number - 1)) for tp in MANY}
        member.pipeline.submit(batch_of(rows, number=number, owners={tp: member.token(tp) for tp in MANY}))
    for number in range(1, BATCHES):
        wait_until(lambda: held.met == number)  # noqa: B023 - called before the next turn
        wait_until(lambda: not member.pipeline._written.is_empty)
        table.site.to_catalog.release()
    assert member.pipeline.wait_delivered(BATCHES, WAIT)
    assert kinds(table.site.to_store) == {"intend": 3 * 64, "upload": 3 * 2 * 64, "read": 3 * 64, "done": 64}
    table.assert_whole(MANY)


@pytest.mark.parametrize(
    ("phase", "matches"),
    [("claim", READ), ("claim", WRITTEN), ("write", INTENDED), ("write", READ), ("write", DONE)],
    ids=["claim read", "claim write", "intend", "look", "done"],
)
def test_partitions_are_dealt_with_side_by_side(table: Table, member: Member, phase: str, matches: Matches) -> None:
    """Each request waits at the proxy until there are as many as the member may send at once."""
    together = threading.Barrier(WORKERS, timeout=WAIT)

    def meet(_: Request) -> None:
        together.wait()

    rule = Rule(matches, before=meet)
    if phase == "claim":
        table.site.to_store.add(rule)
    member.claim()
    if phase == "write":
        table.site.to_store.add(rule)
        member.write(batches=1)
    assert rule.met == 64
    assert not together.broken
