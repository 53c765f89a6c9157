"""The rules of deploy/alerts.yml, tried by promtool on connectors that are played: when they fire, and when not.

Each case plays some connectors for a while. Before something breaks no alert fires; at the end those of the case do,
and at no time any other one.
"""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.model import Maintenance
from tests.support.played_connectors import HOUR, MINUTE, Partition, Replica, World, selector

RULES = Path(__file__).parents[2] / "deploy" / "alerts.yml"
GROUPS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"]
ALL = [rule for group in GROUPS for rule in group["rules"]]
ALERTS = [rule["alert"] for rule in ALL if "alert" in rule]
OTHER_TABLE = "s3://lake/data/orders"

Firing = Mapping[str, Sequence[str]]  # alert → instances, or tables where it is about a deployment


@dataclass
class Case:
    """``breaks`` is when it begins, in seconds; without it nothing may fire until ``end``."""

    world: World
    end: int = 40 * MINUTE
    breaks: int | None = None
    fires: Firing = field(default_factory=dict)


def replica(name: str = "a", *partitions: Partition, **how: Any) -> Replica:
    return Replica(name, dict(enumerate(partitions or [Partition(), Partition()])), **how)


def three(**how: Any) -> list[Replica]:
    return [Replica(name, {number: Partition()}, **how) for number, name in enumerate("abc")]


def turned(one: Replica, **values: Any) -> Callable[[], None]:
    def set_them() -> None:
        for name, value in values.items():
            setattr(one, name, value)

    return set_them


def passing(**values: Any) -> Case:
    """Three minutes in which a replica has these attributes."""
    one = replica()
    before = {name: getattr(one, name) for name in values}
    world = World(one)
    world.at(10 * MINUTE, turned(one, **values))
    world.at(13 * MINUTE, turned(one, **before))
    return Case(world)


def lasting(one: Replica, *others: Replica, fires: Firing, **values: Any) -> Case:
    world = World(one, *others)
    world.at(10 * MINUTE, turned(one, **values))
    return Case(world, breaks=10 * MINUTE, fires=fires)


def slow(*replicas: Replica, hours: int = 4, **how: Any) -> Case:
    """Replicas that are scraped once a minute, for hours."""
    return Case(World(*replicas, every=60), end=hours * HOUR, **how)


def hourly_that_hangs() -> Case:
    one = replica(interval=HOUR)
    played = slow(one, breaks=2 * HOUR, fires={"LakeSinkStuck": ["a"]})
    played.world.at(2 * HOUR, turned(one, is_hung=True))
    return played


SENSORS = "s3://lake/data/sensors"
YEAR = 365 * 24 * HOUR
CASES: dict[str, Callable[[], Case]] = {
    # silent
    "an idle topic after a transaction": lambda: slow(replica("a", Partition(rate=0, end=1_001))),
    "a backlog that shrinks": lambda: slow(replica("a", Partition(end=50_000_000, rate=100), most=3_000)),
    "old records and a commit each hour": lambda: slow(replica("a", Partition(age=YEAR), Partition(), interval=HOUR)),
    "a store that is away for three minutes": lambda: passing(state="paused"),
    "a Kafka that is away for three minutes": lambda: passing(is_cut_off=True),
    "a table that is suspended for three minutes": lambda: passing(is_suspended=True),
    "a topic that is left out for three minutes": lambda: passing(left_out=["flood"]),
    "a former sink that leaves after three minutes": lambda: passing(programs=["old-sink"]),
    # firing
    "a connector that never committed what was there before": lambda: Case(
        World(replica("a", Partition(rate=0, end=2_000), is_hung=True)), breaks=0, fires={"LakeSinkStuck": ["a"]}
    ),
    "a commit each hour that does not come": hourly_that_hangs,
    "a store that stays away": lambda: lasting(
        replica(), replica("b"), state="paused", fires={"LakeSinkStuck": ["a"], "LakeSinkNotConsuming": ["a"]}
    ),
    "topics beyond the limit of tables": lambda: lasting(
        replica(), replica("b"), left_out=["flood"], fires={"LakeSinkTopicLeftOut": ["a"]}
    ),
    "another program that stays in the group": lambda: lasting(
        replica(), replica("b"), programs=["old-sink"], fires={"LakeSinkOtherProgram": ["a"]}
    ),
    "no replica gets partitions": lambda: Case(
        World(replica_without_partitions("a"), replica("b", group="orders", table=OTHER_TABLE)),
        breaks=0,
        fires={"LakeSinkNotConsuming": ["a"]},
    ),
    "more records than the connector can take": lambda: slow(
        replica("a", most=5),
        replica("b", group="orders", table=OTHER_TABLE),
        hours=6,
        breaks=0,
        fires={"LakeSinkFallsBehind": [SENSORS]},
    ),
    "a second deployment with the same group and topic is gone": lambda: lasting(
        replica("a", table=OTHER_TABLE), replica("b"), is_known=False, fires={"LakeSinkDeploymentAbsent": [OTHER_TABLE]}
    ),
    "the only connector is down": lambda: lasting(
        replica(),
        is_up=False,
        fires={"LakeSinkDown": ["a"], "LakeSinkDeploymentAbsent": [SENSORS], "LakeSinkAbsent": [""]},
    ),
    "one partition that never commits beside others": lambda: Case(
        World(replica("a", Partition(), Partition(is_stuck=True))), breaks=0, fires={"LakeSinkPartitionStuck": ["a"]}
    ),
}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__.replace("_", " ")] = make
    return make


# --- silent ---------------------------------------------------------------------------------------------------------


@case
def rebalances_of_20_seconds() -> Case:
    replicas = three()
    world = World(*replicas)
    for begin in (5, 15, 25):
        for one in replicas:
            world.at(begin * MINUTE, turned(one, state="waiting", claiming=1))
            world.at(begin * MINUTE + 30, turned(one, state="consuming", claiming=0))  # the next scrape
    return Case(world)


@case
def a_restart() -> Case:
    one = replica()
    world = World(one)
    world.at(10 * MINUTE, turned(one, is_up=False, state="starting"))
    world.at(11 * MINUTE, lambda: one.start(11 * MINUTE))
    world.at(11 * MINUTE + 30, one.begin_consuming)
    return Case(world)


@case
def a_spare_replica_that_gets_a_partition_after_hours() -> Case:
    one, spare = replica("a"), replica_without_partitions("b")
    world = World(one, spare, every=60)
    world.at(3 * HOUR, turned(spare, partitions={7: Partition()}, state="consuming"))
    return Case(world, end=5 * HOUR)


@case
def a_replica_that_is_scaled_away() -> Case:
    first, last, _ = replicas = three()
    world = World(*replicas)
    world.at(10 * MINUTE, turned(last, is_known=False, is_up=False))
    world.at(10 * MINUTE, turned(first, partitions=first.partitions | last.partitions))
    return Case(world)


@case
def a_record_after_hours_of_silence_beside_other_partitions_and_a_commit_each_hour() -> Case:
    quiet = Partition(rate=0)
    world = World(replica("a", Partition(), quiet, interval=HOUR), every=60)

    def produce() -> None:
        quiet.end += 5

    world.at(5 * HOUR + MINUTE, produce)
    return Case(world, end=7 * HOUR)


@case
def an_update_that_gives_each_replica_a_new_address() -> Case:
    replicas, successors = three(), [absent(name, number) for number, name in enumerate("def")]
    world = World(*replicas, *successors)
    for number, (one, successor) in enumerate(zip(replicas, successors, strict=True)):
        replace(world, one, successor, 10 + 5 * number)
    return Case(world)


def absent(name: str, number: int = 0) -> Replica:
    return Replica(name, {number: Partition()}, is_known=False)


def replace(world: World, one: Replica, successor: Replica, minute: int) -> None:
    """Let another one take its place, under an address of its own."""
    world.at(minute * MINUTE, turned(one, is_known=False))
    world.at(minute * MINUTE, turned(successor, is_known=True))
    world.at(minute * MINUTE, lambda: successor.start(minute * MINUTE))


@case
def bad_records_of_hours_ago() -> Case:
    one = replica(began=-2.0 * HOUR)
    one.count_bad_records(dead_letters=2, rescued=1)
    return Case(World(one))


def replica_without_partitions(name: str, **how: Any) -> Replica:
    return Replica(name, {}, state="waiting", **how)


# --- firing ---------------------------------------------------------------------------------------------------------


@case
def one_of_three_replicas_hangs() -> Case:
    one, hung, _ = replicas = three()
    world = World(*replicas)
    world.at(10 * MINUTE, turned(hung, is_hung=True))
    # Kafka gives its partition to another one after five minutes, and the hung one does not notice.
    world.at(15 * MINUTE, turned(one, partitions=one.partitions | hung.partitions))
    return Case(world, breaks=10 * MINUTE, fires={"LakeSinkStuck": ["b"]})


@case
def a_connector_cut_off_from_kafka_under_load() -> Case:
    one = replica()
    world = World(one, replica("b"))
    world.at(10 * MINUTE + 30, turned(one, is_cut_off=True))  # before a commit
    fires = {"LakeSinkKafkaAway": ["a"], "LakeSinkStuck": ["a"]}
    return Case(world, breaks=10 * MINUTE, fires=fires)


@case
def one_of_three_replicas_never_claims() -> Case:
    replicas = three()
    replicas[2].state, replicas[2].claiming = "waiting", 1
    return Case(World(*replicas), breaks=0, fires={"LakeSinkNotConsuming": ["c"]})


@case
def a_table_that_fails_whenever_it_is_tried_again() -> Case:
    one = replica()
    world = World(one, replica("b"))
    for minute, is_suspended in ((5, True), (9, False), (12, True), (20, False), (24, True)):
        world.at(minute * MINUTE, turned(one, is_suspended=is_suspended))
    return Case(world, breaks=5 * MINUTE, fires={"LakeSinkTableAside": ["a"]})


@case
def a_connector_that_starts_again_and_again() -> Case:
    one = replica()
    world = World(one, replica("b"))
    for minute in (10, 15, 20, 25):
        world.at(minute * MINUTE, turned(one, is_up=False))
        world.at(minute * MINUTE + 30, lambda now=minute * MINUTE + 30: one.start(now))  # type: ignore[misc]
    return Case(world, breaks=10 * MINUTE, fires={"LakeSinkRestarts": ["a"]})


@case
def a_connector_that_starts_again_and_again_under_another_address() -> Case:
    lives = [absent(f"pod-{number}") for number in range(6)]
    world = World(replica("pod"), *lives)
    for number, (one, successor) in enumerate(pairwise([world.replicas[0], *lives])):
        replace(world, one, successor, 10 + 4 * number)
    return Case(world, breaks=10 * MINUTE, fires={"LakeSinkReplaced": [""]})


@case
def bad_records_before_the_first_scrape() -> Case:
    one = replica()
    one.count_bad_records(dead_letters=2, rescued=1)
    fires = {"LakeSinkDeadLetters": ["a"], "LakeSinkRescuedValues": ["a"]}
    return Case(World(one, replica("b")), breaks=0, fires=fires)


@case
def bad_records_before_a_restart() -> Case:
    one = replica()
    world = World(one, replica("b"))
    world.at(10 * MINUTE, lambda: one.count_bad_records(dead_letters=2, rescued=1))
    world.at(20 * MINUTE, lambda: one.start(20 * MINUTE))
    fires = {"LakeSinkDeadLetters": ["a"], "LakeSinkRescuedValues": ["a"]}
    return Case(world, breaks=10 * MINUTE, fires=fires)


@case
def partitions_that_change_their_owner_again_and_again() -> Case:
    one = replica()
    world = World(one, replica("b"))
    for minute in range(10, 17):
        world.at(minute * MINUTE, one.metrics.fenced)
    return Case(world, breaks=10 * MINUTE, fires={"LakeSinkFenced": ["a"]})


@case
def a_compaction_that_leaves_folders() -> Case:
    replicas = replica(compacting=HOUR), replica("b", compacting=HOUR)
    world = World(*replicas, replica("c", group="orders", table=OTHER_TABLE, compacting=HOUR))
    done = Maintenance(1.0, 600.0, 40, 2, failed=3)
    for one in replicas:  # all know what one of them has done
        world.at(10 * MINUTE, partial(one.metrics.maintained, done))
    return Case(world, breaks=10 * MINUTE, fires={"LakeSinkNotCompacted": [SENSORS]})


@case
def compactions_that_do_not_come_to_their_end() -> Case:
    one = replica(compacting=HOUR)
    played = slow(one, breaks=2 * HOUR, fires={"LakeSinkNotCompacted": [SENSORS]})
    played.world.at(HOUR, lambda: one.metrics.maintained(Maintenance(HOUR - 60, HOUR, 40, 2)))
    return played


@case
def rows_that_are_not_erased_by_a_clock_that_is_wrong() -> Case:
    one = replica()
    world = World(one, replica("c", group="orders", table=OTHER_TABLE))
    world.at(10 * MINUTE, lambda: one.metrics.maintained(Maintenance(1.0, clock=-7_200)))
    return Case(world, breaks=10 * MINUTE, fires={"LakeSinkNotErased": [SENSORS]})


# --- the trial ------------------------------------------------------------------------------------------------------


def samples(fires: Firing) -> list[dict[str, Any]]:
    found = []
    for alert, places in fires.items():
        for place in places:
            kind = "table" if "://" in place else "instance"
            labels = selector(alertname=alert, **({kind: place} if place else {}))
            found.append({"labels": labels, "value": 1})
    return found


def firing(others: str = "") -> str:
    """The query for firing alerts: by instance where they are about one, else by table."""
    chosen = f"alertstate='firing'{others}"
    by_instance = f"count by (alertname, instance) (ALERTS{{{chosen}, instance!=''}})"
    return f"{by_instance} or count by (alertname, table) (ALERTS{{{chosen}, instance=''}})"


def trial(played: Case) -> dict[str, Any]:
    names = {word for rule in ALL for word in _words(rule["expr"])}
    series = played.world.series(played.end, names)
    until = played.end + 1 if played.breaks is None else played.breaks
    others = f", alertname!~'{'|'.join(played.fires)}'"
    queries: list[tuple[str, int, list[dict[str, Any]]]]
    queries = [(firing("" if now < until else others), now, []) for now in range(0, played.end + 1, MINUTE)]
    queries += [(firing(), played.end, samples(played.fires))]
    return {
        "rule_files": [str(RULES)],
        "evaluation_interval": f"{max(30, played.world.every)}s",
        "tests": [
            {
                "interval": f"{played.world.every}s",
                "input_series": [{"series": key, "values": values} for key, values in series.items()],
                "promql_expr_test": [
                    {"expr": expr, "eval_time": f"{now}s", "exp_samples": expected} for expr, now, expected in queries
                ],
            }
        ],
    }


def _words(expr: str) -> set[str]:
    return set("".join(char if char.isalnum() or char in "_:" else " " for char in expr).split())


def promtool_test(promtool: str, trials: Any, folder: Path) -> subprocess.CompletedProcess[str]:
    file = folder / "trial.yml"
    file.write_text(json.dumps(trials))  # JSON is YAML
    return subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)


def test_the_prometheus_of_the_compose_file_reads_them(promtool: str) -> None:
    config = RULES.with_name("prometheus.yml")
    checked = subprocess.run([promtool, "check", "config", str(config)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def parameter(name: str) -> Any:
    """That alerts fire is for every day, that they do not, and whatever takes hours, for the night."""
    played = CASES[name]()
    daily = played.fires and played.end < HOUR
    return pytest.param(name, marks=() if daily else pytest.mark.night)


@pytest.mark.parametrize("name", map(parameter, CASES))
def test_the_alerts_of(name: str, promtool: str, tmp_path: Path) -> None:
    tried = promtool_test(promtool, trial(CASES[name]()), tmp_path)
    assert tried.returncode == 0, tried.stdout + tried.stderr


def test_every_alert_fires_in_a_case() -> None:
    assert {alert for make in CASES.values() for alert in make().fires} == set(ALERTS)


def test_an_alert_leads_to_the_pages_of_the_replica_that_it_is_about_unless_that_one_does_not_answer() -> None:
    fires = [each for make in CASES.values() for each in make().fires.items()]
    about_one = {alert for alert, places in fires if all(place and "://" not in place for place in places)}
    leading = {rule["alert"] for rule in ALL if "runbook_url" in rule.get("annotations", {})}
    assert leading == about_one - {"LakeSinkDown"}
