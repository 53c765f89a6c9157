"""A member whose log is closed while Kafka assigns its partitions to it: it claims them again and goes on.

The members are the connector's own parts (see ``stepped_member``); one of them is late with its claim.
"""

from collections.abc import Iterator

import pytest

from app.journal.entry import log_key
from tests.faults.crowd import ENOUGH
from tests.faults.kafka_model import TOPIC
from tests.faults.memory_lake import GROUP, root_of
from tests.faults.stepped_member import Process
from tests.faults.test_state_machine import PlainFaults

MORE = ["a", "both", "bad", "b"]


class Scene(PlainFaults):
    """One member owns both partitions, has written records, and has more to read."""

    def __init__(self) -> None:
        super().__init__()
        self.owner = self.new_owner()
        self.work(self.owner)
        self.produce_more()

    def new_owner(self) -> Process:
        member = self._new_member()
        self.produce_more()
        self._assign(member, self.group.free)
        return member

    def produce_more(self) -> None:
        for tp in self.group.records:
            self._produce(tp, MORE)

    def work(self, member: Process, rounds: int = 3) -> None:
        """It consumes, writes and commits, as far as it comes; the others stand still."""
        for _ in range(rounds):
            self._finish(member)
            if member in self.members and member.consuming.is_idle:
                member.consume(10)
                self._finish(member)
            if member in self.members:
                member.checkpoint()
                self._finish(member)
            self.clock.advance(1.0)

    def late_claimer(self, requests: int) -> Process:
        """A member that gets the partitions, makes so many requests of its claim, and stands still.

        Kafka then takes it for dead, and the owner has the partitions as before: in another assignment.
        """
        self.owner.revoke()
        self._finish(self.owner)
        late = self._new_member()
        self._assign(late, self.group.free)
        for _ in range(requests):
            (lane,) = late.background.lanes
            self.go(late, lane)
        self.group.release(late.kafka)
        self._assign(self.owner, self.group.free)
        self.work(self.owner)
        self.produce_more()
        return late

    def claim_late(self, late: Process) -> None:
        """The late one claims all, and its consumer has not learned yet that the partitions are lost."""
        for _ in range(ENOUGH):
            if not late.background.lanes:
                return
            for lane in late.background.lanes:
                self.go(late, lane)

    def close_log(self) -> None:
        """Another member closes the log of the owner, and does nothing else."""
        log = self.store.log_of(TOPIC, self.token)
        assert log is not None
        key = log_key(root_of(TOPIC), GROUP, self.token)
        closed = log.changed(closed=True, writer="late")
        self.store.write(key, closed.to_body(), replaces=self.store.objects[key].etag)

    @property
    def token(self) -> str:
        return self.owner.token

    @property
    def is_owner_alive(self) -> bool:
        return self.owner in self.members

    def assert_every_row_once(self) -> None:
        self._settle()


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.close()


@pytest.mark.parametrize("requests", range(10))
def test_the_owner_goes_on_in_the_same_process_after_a_late_claim(scene: Scene, requests: int) -> None:
    late = scene.late_claimer(requests)
    former = scene.token
    scene.claim_late(late)
    scene.work(scene.owner)
    assert scene.is_owner_alive
    assert scene.owner.is_through
    log = scene.store.log_of(TOPIC, former)
    assert log is not None
    assert (scene.token == former) == (not log.closed)
    scene.assert_every_row_once()
    assert scene.is_owner_alive


def test_a_member_that_kafka_has_expelled_does_not_close_the_log_of_the_owner_again(scene: Scene) -> None:
    """It reads on from its late claim, and is fenced itself; only then it learns that the partitions are lost."""
    late = scene.late_claimer(0)
    scene.claim_late(late)
    scene.work(scene.owner)
    after_its_claim = scene.token
    scene.produce_more()
    late.consume(10)
    scene.work(late, rounds=2)
    scene.produce_more()
    scene.work(scene.owner)
    assert scene.token == after_its_claim
    assert scene.is_owner_alive
    scene.assert_every_row_once()


def test_logs_that_are_closed_now_and_then_are_no_end(scene: Scene) -> None:
    for _ in range(8):
        scene.close_log()
        scene.produce_more()
        scene.work(scene.owner)
        scene.clock.advance(301.0)
        assert scene.is_owner_alive
    scene.assert_every_row_once()
