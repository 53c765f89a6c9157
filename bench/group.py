"""Replicas of the connector in one consumer group, each in a control group and with metrics of its own."""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import requests

from bench.lake import download
from bench.shares import Share
from bench.sinks.base import table_in
from bench.sinks.connector import sink_variables
from bench.stage import CommittedOffsets, Place, Stage, Topic
from dev.connector import Connector
from dev.machine import ServiceError
from dev.parsed_classes import archive_variables
from dev.server import free_ports

LANDED_SECONDS = 600.0
READY_SECONDS = 300.0  # eight Javas that start at once on two cores take a minute
LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Replica:
    """One of them. ``ends`` has what is to be undone when it is gone."""

    connector: Connector
    log: Path
    port: int
    share: Share
    ends: ExitStack

    def claimed(self) -> int:
        """How many partitions it consumes and has claimed; 0 as long as it does not say."""
        metrics = self._metrics()
        return int(metrics.get("assigned_partitions", 0) - metrics.get("claiming_partitions", 0))

    def consumed(self) -> float:
        """How many records it has read; 0 as long as it does not say."""
        return self._metrics().get("consumed_records_total", 0.0)

    def _metrics(self) -> dict[str, float]:
        text = self._asked("metrics")
        return {name: float(value) for name, value in re.findall(r"^lake_sink_(\w+) ([\d.e+]+)$", text, re.MULTILINE)}

    def is_ready(self) -> bool:
        """Whether its probe says that records get into the lake."""
        return bool(self._asked("health/ready"))

    def _asked(self, path: str) -> str:
        try:
            answer = requests.get(f"http://127.0.0.1:{self.port}/{path}", timeout=60)
        except requests.ConnectionError:
            return ""
        return answer.text if answer.ok else ""


@dataclass
class Group:
    """Replicas that share a topic.

    Attributes:
        offsets: that it has committed.
        replicas: that run, the oldest first.
        logs: of all that were ever started.
        ended: when those that do not run were gone, in seconds since the epoch.
    """

    stage: Stage
    place: Place
    offsets: CommittedOffsets
    variables: Mapping[str, str]
    replicas: list[Replica] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)
    ended: dict[Path, float] = field(default_factory=dict)

    def start(self) -> Replica:
        """Start another one."""
        (port,) = free_ports(1)
        variables = {
            **sink_variables(self.stage, self.place, self.variables),
            **archive_variables(self.stage.classes),
            "HTTP_PORT": str(port),
        }
        with ExitStack() as ends:
            share = ends.enter_context(Share(f"{self.place.name}-{len(self.logs)}"))
            log = self.place.log.with_suffix(f".{len(self.logs)}.log")
            connector = ends.enter_context(Connector(variables, log))
            share.add(connector.pid)
            replica = Replica(connector, log, port, share, ends.pop_all())
        self.logs.append(log)
        self.replicas.append(replica)
        return replica

    def stop(self, replica: Replica) -> float:
        """Stop it by SIGTERM, as a platform does; returns how many seconds it took.

        Raises:
            ServiceError: it took too long, or its exit code is not 0.
        """
        begin = time.monotonic()
        replica.connector.stop()
        seconds = time.monotonic() - begin
        self._forget(replica, time.time())
        return seconds

    def kill(self, replica: Replica) -> None:
        """End it, and its Java, as a crash of its machine would."""
        now = time.time()
        os.killpg(replica.connector.pid, signal.SIGKILL)
        self._forget(replica, now)

    def _forget(self, replica: Replica, now: float) -> None:
        self.replicas.remove(replica)
        self.ended[replica.log] = now
        replica.ends.close()

    def wait_until(self, happened: Callable[[], bool], what: str, seconds: float = READY_SECONDS) -> None:
        """Wait until something has happened that all replicas are to bring about.

        Raises:
            ServiceError: it took too long, or a replica has ended.
        """
        deadline = time.monotonic() + seconds
        while not happened():
            for replica in self.replicas:
                replica.connector.check_running()
            if time.monotonic() > deadline:
                raise ServiceError(f"not within {seconds:.0f} s: {what}")
            time.sleep(LOOK_SECONDS)

    def wait_until_shared(self, partitions: int) -> None:
        """Wait until all partitions are claimed, each replica has some, and all are ready. Raises as ``wait_until``."""

        def is_shared() -> bool:
            claimed = [replica.claimed() for replica in self.replicas]
            return all(claimed) and sum(claimed) == partitions and all(each.is_ready() for each in self.replicas)

        self.wait_until(is_shared, f"{partitions} partitions shared by {len(self.replicas)} replicas")

    def wait_until_landed(self, rows: int) -> None:
        """Wait until so many rows are in the lake. Raises as ``wait_until``."""
        self.wait_until(lambda: self.offsets.rows() >= rows, f"{rows:,} rows landed", LANDED_SECONDS)

    def table(self) -> Path:
        """A copy of the table."""
        lake = self.place.folder / "lake"
        download(self.stage.minio, self.place.name, lake)
        return table_in(lake)

    def limit(self, cores: float | None) -> None:
        """Give each replica so many cores, or as many as there are."""
        for replica in self.replicas:
            replica.share.limit(cores)


@contextmanager
def group(stage: Stage, name: str, topic: Topic, variables: Mapping[str, str]) -> Iterator[Group]:
    """A group without replicas; those that are started are gone after the block, and the table too."""
    with stage.place(name, topic) as place, closing(CommittedOffsets(stage, place)) as offsets:
        made = Group(stage, place, offsets, variables)
        try:
            yield made
        finally:
            made.limit(None)  # who may use little processor time takes long to end
            with ExitStack() as ends:
                for replica in made.replicas:
                    ends.callback(replica.ends.close)
