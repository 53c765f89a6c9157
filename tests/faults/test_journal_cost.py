"""What the guarantee costs: requests of a claim and of a batch, counted, and the claims of partitions side by side."""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.model import TopicPartition
from app.storage.base import ObjectStore
from tests.faults.members import BATCHES, PLACES, TOPIC, Member, Site, Table, rows_of, wait_until
from tests.faults.proxy import FaultProxy, Hold, Matches, Request, Rule, nth, on
from tests.faults.steps import CLAIM, DATA, LOG
from tests.support.batches import batch_of

MANY = tuple(TopicPartition(TOPIC, number) for number in range(64))
WORKERS = 8
WAIT = 30.0

READ, WRITTEN = on("GET", CLAIM), on("PUT", CLAIM)
INTENDED, DONE = on("PUT", LOG, body='"pending"'), on("PUT", LOG, body='"done"')


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
        "read claim": READ,
        "point": WRITTEN,
        "read log": on("GET", LOG),
        "intend": INTENDED,
        "done": DONE,
        "upload": on("PUT", DATA),
        "register": on("POST", "/add-files"),
    }
    return Counter(
        next((name for name, matches in named.items() if matches(request)), f"{request.method} {request.target}")
        for request in proxy.seen
    )


@pytest.mark.parametrize("count", [64, pytest.param(500, marks=pytest.mark.slow)])
def test_the_requests_of_a_batch_are_as_few_as_of_one_partition(
    table: Table, tmp_path: Path, wide: ObjectStore, count: int
) -> None:
    site = table.site
    partitions = tuple(TopicPartition(TOPIC, number) for number in range(count))
    per_batch = {"intend": 1, "upload": len(PLACES), "read log": 1, "done": 1}
    with Member(table, tmp_path, store=wide, partitions=partitions, workers=WORKERS) as member:
        member.claim()
        assert kinds(site.to_store) == {"read claim": count, "done": 1, "point": count}
        site.clear()
        member.write(batches=1)
        assert kinds(site.to_store) == per_batch
        assert kinds(site.to_catalog)["register"] == 1
        site.clear()
    with Member(table, tmp_path, store=wide, partitions=partitions, workers=WORKERS) as next_member:
        next_member.claim()
        claimed = {"read claim": count, "read log": 1, "done": 2, "point": count}
        assert kinds(site.to_store) == claimed, "one log is closed"
        site.clear()
        next_member.write(batches=2)
    assert kinds(site.to_store) == {kind: 2 * times for kind, times in per_batch.items()}
    assert kinds(site.to_catalog)["register"] == 2
    table.assert_whole(partitions)


def test_of_batches_one_behind_the_other_only_the_last_is_noted_as_done(table: Table, member: Member) -> None:
    member.claim()
    table.site.clear()
    held = table.site.to_catalog.add(Rule(on("POST", "/add-files"), Hold(), nth(*range(1, BATCHES))))
    for number in range(1, BATCHES + 1):
        rows = {tp: rows_of(tp, 2 * (number - 1)) for tp in MANY}
        member.pipeline.submit(batch_of(rows, number=number, owners=dict.fromkeys(MANY, member.token)))
    for number in range(1, BATCHES):
        wait_until(lambda: held.met == number)  # noqa: B023 - called before the next turn
        wait_until(lambda: not member.pipeline._written.is_empty)
        table.site.to_catalog.release()
    assert member.pipeline.wait_delivered(BATCHES, WAIT)
    assert kinds(table.site.to_store) == {"intend": 3, "upload": 3 * 2, "read log": 3, "done": 1}
    table.assert_whole(MANY)


@pytest.mark.parametrize("matches", [READ, WRITTEN], ids=["read", "write"])
def test_claims_are_read_and_written_side_by_side(table: Table, member: Member, matches: Matches) -> None:
    """Each request waits at the proxy until there are as many as the member may send at once."""
    together = threading.Barrier(WORKERS, timeout=WAIT)

    def meet(_: Request) -> None:
        together.wait()

    rule = Rule(matches, before=meet)
    table.site.to_store.add(rule)
    member.claim()
    assert rule.met == 64
    assert not together.broken
