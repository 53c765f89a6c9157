"""What happens to a group under a steady load: replicas join, leave and die, all are replaced, partitions are added."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.group import Group, group
from bench.lake import check_table
from bench.messages import Workload, totals_of_first
from bench.stage import Stage, Topic
from bench.standstill import Load, Standstill, Watch
from bench.timeline import warm_window
from bench.usage import Sampler
from dev.machine import announce

PARTITIONS, ADDED_PARTITIONS, MANY_PARTITIONS = 64, 96, 500
FEW_REPLICAS, MORE_REPLICAS = 4, 8
# Little work: a machine that is busy tells how long it is busy. So records of each partition are few, and batches rare.
ROUNDS_A_SECOND = 10
VARIABLES = {"COMMIT_INTERVAL": "5"}
WARM_UP_SECONDS = 20.0
QUIET_SECONDS = 10.0  # before and after each move: what stands still longest may come late
KNOWN_SECONDS = 3.0  # until the load's producer has seen new partitions
SOME_ROWS = 4_000_000  # more than any load takes
MANY_ROWS = 2_000_000


@dataclass(frozen=True, slots=True)
class Move:
    """What partitions did from a moment before ``what`` until all were shared again and had gone on for a while.

    Attributes:
        what: a join, a leave...
        replicas: before and after it.
        standstill: of partitions in that time.
        seconds: until all partitions were shared by all replicas, and all these were ready.
    """

    what: str
    replicas: str
    standstill: Standstill
    seconds: float


@dataclass(frozen=True, slots=True)
class Many:
    """One replica with a topic of many partitions.

    Attributes:
        partitions, messages: of the topic; the messages lie there before the start.
        claimed_seconds, landed_seconds: from the start of the process to the claim of all partitions, to all rows.
        warm_rate: as in ``bench.run.Run``.
        peak_mb: resident memory with Java.
        files: of the table.
    """

    partitions: int
    messages: int
    claimed_seconds: float
    landed_seconds: float
    warm_rate: float | None
    peak_mb: float
    files: int


@dataclass(frozen=True, slots=True)
class _Scene:
    """A group under load."""

    group: Group
    load: Load
    watch: Watch

    def move(self, what: str, act: Callable[[], object], partitions: int = PARTITIONS) -> Move:
        """Do something to the group, and see what becomes of its partitions."""
        before = len(self.group.replicas)
        time.sleep(QUIET_SECONDS)
        begin, began = time.time(), time.monotonic()
        act()
        self.group.wait_until_shared(partitions)
        seconds = time.monotonic() - began
        time.sleep(QUIET_SECONDS)
        found = self.watch.standstill(begin, time.time())
        announce(f"{what}: {found}, shared after {seconds:.1f} s")
        return Move(what, f"{before} to {len(self.group.replicas)}", found, seconds)


def comings_and_goings(stage: Stage, rounds: int) -> list[Move]:
    """With four replicas, over and over: nothing, a leave, a join, a death.

    Raises:
        ServiceError: a replica failed.
        WrongRowsError: other rows are in the table than were produced.
    """
    with _scene(stage, "moves", PARTITIONS, FEW_REPLICAS) as scene:
        running = scene.group
        moves = []
        for _ in range(rounds):
            while len(running.replicas) < FEW_REPLICAS:
                running.start()
            running.wait_until_shared(PARTITIONS)
            moves += [
                scene.move("nothing", lambda: None),
                scene.move("leave (SIGTERM)", lambda: running.stop(running.replicas[0])),
                scene.move("join", running.start),
                scene.move("death (SIGKILL)", lambda: _kill(running)),
            ]
        return moves


def rolling_restart(stage: Stage) -> Move:
    """Replace eight replicas one after the other: SIGTERM, a new one, and on when it is ready. Raises as above."""
    with _scene(stage, "rolling", PARTITIONS, MORE_REPLICAS) as scene:
        running = scene.group

        def replace_all() -> None:
            for replica in running.replicas.copy():
                seconds = running.stop(replica)
                running.start()
                running.wait_until_shared(PARTITIONS)
                announce(f"stopped in {seconds:.1f} s, and replaced")

        return scene.move("rolling restart", replace_all)


def added_partitions(stage: Stage) -> Move:
    """Add partitions to the topic of two replicas, with records at once. Raises as above."""
    with _scene(stage, "added", ADDED_PARTITIONS, 2, PARTITIONS) as scene:

        def add() -> None:
            stage.kafka.add_partitions(scene.group.place.topic.name, ADDED_PARTITIONS)
            time.sleep(KNOWN_SECONDS)
            scene.load.add(PARTITIONS, ADDED_PARTITIONS)

        return scene.move(f"{PARTITIONS} to {ADDED_PARTITIONS} partitions", add, ADDED_PARTITIONS)


def many_partitions(stage: Stage) -> Many:
    """One replica that has them all. Raises as above."""
    workload = Workload(MANY_ROWS, MANY_PARTITIONS)
    topic = stage.topic(workload)
    with group(stage, "many", topic, VARIABLES) as running:
        began = time.monotonic()
        replica = running.start()
        with Sampler([replica.connector.pid]) as sampler:
            running.wait_until(lambda: replica.claimed() == MANY_PARTITIONS, "all partitions claimed")
            claimed_seconds = time.monotonic() - began
            running.wait_until_landed(topic.messages)
            landed_seconds = time.monotonic() - began
        files = check_table(running.table(), topic.expected)
        warm = warm_window(files)
        return Many(
            partitions=MANY_PARTITIONS,
            messages=topic.messages,
            claimed_seconds=claimed_seconds,
            landed_seconds=landed_seconds,
            warm_rate=warm.rate if warm else None,
            peak_mb=max(sample.resident_mb for sample in sampler.samples),
            files=len(files),
        )


def _kill(running: Group) -> None:
    running.kill(running.replicas[0])


@contextmanager
def _scene(stage: Stage, name: str, partitions: int, replicas: int, at_first: int | None = None) -> Iterator[_Scene]:
    """A warm group under load; at the end of the block all rows are compared with what was produced.

    Args:
        stage: where to.
        name: of the group.
        partitions: that the topic will have at the end of the block.
        replicas: how many to begin with.
        at_first: partitions to begin with, if not all.
    """
    workload = Workload(SOME_ROWS, partitions, locations=1, over_midnight=False)
    topic = Topic(f"{name}-{workload.name}", workload, {})
    first = at_first or partitions
    stage.kafka.create_topic(topic.name, first)
    with group(stage, name, topic, VARIABLES) as running:
        announce(f"{name}: {replicas} replicas are starting")
        for _ in range(replicas):
            running.start()
        running.wait_until_shared(first)
        load = Load(running, workload, ROUNDS_A_SECOND)
        load.add(0, first)
        with load, Watch(running) as watch:
            time.sleep(WARM_UP_SECONDS)
            yield _Scene(running, load, watch)
        running.wait_until_landed(sum(load.counts))
        check_table(running.table(), totals_of_first(workload, load.counts))
        announce(f"{name}: {sum(load.counts):,} rows, each there once")
