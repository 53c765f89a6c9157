"""Members of a group are killed, frozen and cut off under load, over and over: every row is there, and once.

Members without Java are killed a few times for every change, always in the same order. ``make chaos`` runs the long
form with Java too; ``CHAOS_SEED`` repeats a run's choices. ``CHAOS_RECORDS_A_SECOND`` is the load.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dev.connector import REPO
from dev.iceberg_catalog import LocalIcebergCatalog
from dev.kafka import LocalKafka
from tests.e2e.connector import ConnectorProcess
from tests.e2e.lake import Lake, Tally, mirror
from tests.e2e.scenario import Scenario, tree_of
from tests.faults.site import Site
from tests.faults.tcp_detour import TcpDetour
from tests.support.iceberg_readers import pyiceberg_catalog
from tests.support.waiting import wait_until

PARTITIONS = 6
OTHERS = [1, 1, 1, 3] * 5  # partitions of the other topics, where there are several
MEMBERS = 3
SESSION_SECONDS, SHORT_SECONDS = 20.0, 6.0  # of the connector's consumer: who is silent for longer is expelled
KILLS = int(os.environ.get("CHAOS_KILLS", "6"))
SEED = int(os.environ.get("CHAOS_SEED", str(random.randrange(1_000_000))))
RECORDS_A_SECOND = int(os.environ.get("CHAOS_RECORDS_A_SECOND", "2000"))
FEW_KILLS, FIRST_SEED = 4, 1  # without Java


@dataclass
class Group:
    """The members of the consumer group, each in its slot; with Java, the last slot's network can be cut."""

    scenario: Scenario
    settings: dict[str, str]
    root: Path
    detour: TcpDetour | None = None
    catalog: LocalIcebergCatalog | None = None
    members: list[ConnectorProcess] = field(default_factory=list)
    ended: Counter[int] = field(default_factory=Counter)

    def start_all(self) -> None:
        self.members = [self._start(slot) for slot in range(MEMBERS)]

    def _start(self, slot: int) -> ConnectorProcess:
        detoured: dict[str, str] = {}
        if self.detour is not None and slot == MEMBERS - 1:
            detoured["KAFKA_BOOTSTRAP_SERVERS"] = f"127.0.0.1:{self.detour.port}"
        return self.scenario.connector(self.settings | detoured, root=self.root)

    @property
    def session_seconds(self) -> float:
        return SESSION_SECONDS if self.scenario.java else SHORT_SECONDS

    def restart_the_dead(self) -> None:
        """As a platform does. Members may end by themselves, but only for reasons that a restart sets right."""
        for slot, member in enumerate(self.members):
            code = member.exit_code
            if code is not None:
                assert code in (-signal.SIGKILL, 70, 75), f"ended with code {code}:\n{member.log[-6000:]}"
                self.ended[code] += 1
                self.members[slot] = self._start(slot)

    def wait_until(self, happened: Callable[[], bool], what: str) -> None:
        def look() -> bool:
            self.restart_the_dead()
            return happened()

        wait_until(look, what, pause=0.5, details=self._tails)

    def wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.restart_the_dead()
            time.sleep(0.2)

    def _tails(self) -> str:
        return "\n".join(f"--- member {slot}\n{member.log[-3000:]}" for slot, member in enumerate(self.members))


LANES = ["plain", "transforming", "framework"]
WITH_JAVA = [pytest.param(f"{name}, Java", marks=pytest.mark.night) for name in (*LANES, "Iceberg", "topics")]


@pytest.fixture(params=[*LANES, *WITH_JAVA])
def group(site: Site, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Group]:
    name, _, java = request.param.partition(", ")
    settings = {
        **site.direct_settings,
        "HIVE_COLUMNS": "location",
        "METADATA_COLUMNS": "__topic,__partition,__offset",
        "BATCH_SIZE": "500",
        "LOGLEVEL": "INFO",
        "LIGHT_SESSION_SECONDS": str(SHORT_SECONDS),
    }
    root = tree_of(name if name in LANES else "plain", tmp_path)
    if not java:
        with closing(Scenario(request.getfixturevalue("kafka"), tmp_path, PARTITIONS)) as scenario:
            yield Group(scenario, settings, root)
        return
    request.getfixturevalue("parsed_classes")
    catalog: LocalIcebergCatalog | None = None
    if name == "Iceberg":
        catalog = request.getfixturevalue("iceberg_catalog")
        settings |= {"CATALOG_TYPE": "iceberg", "CATALOG_URL": catalog.url, "CATALOG_NAMESPACE": tmp_path.name}
    others = OTHERS if name == "topics" else []
    with TcpDetour() as detour:
        kafka = LocalKafka(detour=detour.port)
        detour.target = kafka.detour_port
        with kafka, closing(Scenario(kafka, tmp_path, PARTITIONS, others, java=True)) as scenario:
            if others:
                settings["input"] = f"^{scenario.topic}"
            yield Group(scenario, settings, root, detour, catalog)


def kill_python(group: Group, slot: int, chance: random.Random) -> None:
    group.members[slot].signal(signal.SIGKILL)
    group.wait(chance.uniform(0, group.session_seconds / 2))


def kill_java(group: Group, slot: int, chance: random.Random) -> None:
    """Kill the Java of a member at work; one that is starting is killed itself, for its Java would not have started."""
    member = group.members[slot]
    java = member.java() if "CONNECTED!" in member.log else None
    with suppress(ProcessLookupError):
        os.kill(java or member.pid, signal.SIGKILL)
    group.wait(chance.uniform(0, group.session_seconds / 2))


def freeze(group: Group, slot: int, _: random.Random) -> None:
    """A zombie: it does nothing for longer than its session lasts, then goes on where it was."""
    frozen = group.members[slot]
    frozen.signal(signal.SIGSTOP)
    group.wait(1.5 * group.session_seconds)
    frozen.signal(signal.SIGCONT)
    group.wait(5)


def cut_off(group: Group, _slot: int, _: random.Random) -> None:
    """The last member cannot reach Kafka for longer than its session lasts, but can reach the store."""
    assert group.detour is not None
    group.detour.cut()
    group.wait(1.5 * group.session_seconds)
    group.detour.mend()
    group.wait(5)


Incident = Callable[[Group, int, random.Random], None]


def incidents(chance: random.Random, *, java: bool) -> list[Incident]:
    """Kills in random order with a few zombies among them, one of each kind at least."""
    if not java:
        return chance.sample([*[kill_python] * (FEW_KILLS - 1), freeze], FEW_KILLS)
    kills: list[Incident] = [chance.choice((kill_python, kill_python, kill_java)) for _ in range(KILLS - 2)]
    zombies: list[Incident] = [chance.choice((freeze, cut_off)) for _ in range(KILLS // 10)]
    mixed: list[Incident] = [*kills, kill_python, kill_java, *zombies, freeze, cut_off]
    chance.shuffle(mixed)
    return mixed


def test_every_row_is_there_once_whoever_dies(group: Group, site: Site, tmp_path: Path) -> None:
    scenario = group.scenario
    seed = SEED if scenario.java else FIRST_SEED
    print(f"CHAOS_SEED={seed} CHAOS_KILLS={KILLS}")
    chance = random.Random(seed)
    group.start_all()
    with scenario.load(RECORDS_A_SECOND // len(scenario.topics)) as produced:
        group.wait_until(lambda: sum(scenario.committed()) > 0, "the first commit")
        for incident in incidents(chance, java=scenario.java):
            incident(group, chance.randrange(MEMBERS), chance)
    each, total = produced[0], produced[0] * len(scenario.topics)
    group.wait_until(lambda: sum(scenario.committed()) >= total, f"{total:,} records committed")
    for member in group.members:
        assert member.stop() == 0, member.log[-6000:]

    tables = {topic: copy_of_table(group, site, tmp_path / "mirror" / topic, topic) for topic in scenario.topics}
    counted = Counter((topic, n) for topic, table in tables.items() for n in table.numbers())
    doubled = [row for row, times in counted.items() if times > 1]
    lost = sorted({(topic, n) for topic in tables for n in range(each)} - counted.keys())
    print(f"sent {total:,}, in the lake {counted.total():,}, doubled {len(doubled)}, lost {len(lost)}, {group.ended}")
    assert not doubled
    assert not lost
    for topic, table in tables.items():
        assert table.tally_by_duckdb() == Tally.of(range(each)), f"each row of {topic} in its folder"
        audited = audit(group, topic)
        assert audited.returncode == 0, audited.stdout
    dead_letters = f"data/_dead_letter/{scenario.topic}"
    assert site.client.list_objects_v2(Bucket=site.bucket, Prefix=dead_letters)["KeyCount"] == 0


def copy_of_table(group: Group, site: Site, folder: Path, topic: str) -> Lake:
    """The table in a folder; its catalog has just these files, and an Iceberg table just their rows."""
    if group.catalog is None:
        return site.copy_of(topic, folder)
    lake = mirror(site.minio, site.bucket, folder, f"data/{topic}")
    table = pyiceberg_catalog(group.catalog).load_table((group.settings["CATALOG_NAMESPACE"], topic))
    listed = table.inspect.files()["file_path"].to_pylist()
    assert sorted(listed) == [f"s3://{site.bucket}/data/{topic}/{path.relative_to(folder)}" for path in lake.files()]
    assert sorted(table.scan(selected_fields=("n",)).to_arrow()["n"].to_pylist()) == sorted(lake.numbers())
    return lake


def audit(group: Group, topic: str) -> subprocess.CompletedProcess[str]:
    settings = {
        **os.environ,
        "KAFKA_BOOTSTRAP_SERVERS": group.scenario.kafka.bootstrap_servers,
        **group.settings,
        "input": topic,
    }
    return subprocess.run(
        [sys.executable, str(REPO / "main.py"), "audit"], env=settings, capture_output=True, text=True, check=False
    )
