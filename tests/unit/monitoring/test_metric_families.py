"""The metrics as a scraper reads them."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.config.settings import Settings
from app.errors import RetryableError
from app.model import Maintenance, TopicPartition
from app.monitoring.metric_families import Exposition
from app.monitoring.metrics import OPERATIONS, STEPS, Metrics
from app.monitoring.status import VERSIONS, Consumption, Live, Status, Suspended
from app.retries import Request, Trouble
from app.table.existing_table import TableLocation
from app.timings import Timings
from tests.fakes.clock import Clock
from tests.support.environment import load
from tests.unit.monitoring.test_metrics import batch

SETTINGS = load(input="sensors", CONSUMER_GROUP="group")
TP = TopicPartition("sensors", 3)


class Scraped:
    """All samples of one scrape, by name and labels; and the kinds of metrics."""

    def __init__(self, text: bytes) -> None:
        families = list(text_string_to_metric_families(text.decode()))
        self.kinds = {family.name: family.type for family in families}
        self.documented = all(family.documentation for family in families)
        self.values = {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
        }

    def __getitem__(self, name: str) -> float:
        return self.values[(name,)]

    def of(self, name: str, **labels: str) -> float:
        return self.values[(name, *sorted(labels.items()))]


def exposition(
    metrics: Metrics, live: Live | None = None, settings: Settings = SETTINGS, found: TableLocation | None = None
) -> Exposition:
    return Exposition(metrics.registry, lambda: Status(settings, found, live or Live(), metrics.counts()))


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(lambda: 1_700_000_000.0)


@pytest.fixture
def scrape(metrics: Metrics) -> Callable[..., Scraped]:
    def scrape(consumption: Consumption | None = None, **live: Any) -> Scraped:
        return Scraped(exposition(metrics, Live(consumption=consumption or Consumption(), **live)).text())

    return scrape


def test_what_was_counted(metrics: Metrics, scrape: Callable[..., Scraped]) -> None:
    metrics.delivered(batch(1, rows=10, files=2))
    metrics.delivered(batch(2, rows=5, files=1))
    metrics.failed_try("upload")
    metrics.paused()
    metrics.fenced()
    scraped = scrape(skipped=4)
    expected = {"rows": 15, "bytes": 300, "files": 3, "batches": 2, "dead_letters": 2, "rescued_values": 6}
    expected |= {"skipped_records": 4, "pauses": 1, "fenced_partitions": 1}
    assert {name: scraped[f"lake_sink_{name}_total"] for name in expected} == expected
    assert scraped.of("lake_sink_retries_total", operation="upload") == 1


def test_what_was_counted_by_table_where_there_are_several(metrics: Metrics, scrape: Callable[..., Scraped]) -> None:
    assert not [sample for sample in scrape().values if str(sample[0]).startswith("lake_sink_table_")]
    before = scrape()["lake_sink_rows_total"]
    for table in ("orders", "payments", "orders"):
        metrics.delivered(replace(batch(1, rows=10, files=2), table=table))
    scraped = scrape()
    assert scraped["lake_sink_rows_total"] == before + 30
    for table, batches in (("orders", 2), ("payments", 1)):
        assert scraped.of("lake_sink_table_rows_total", table=table) == 10 * batches
        assert scraped.of("lake_sink_table_files_total", table=table) == 2 * batches
        assert scraped.of("lake_sink_table_bytes_total", table=table) == 200 * batches


def test_what_one_of_several_tables_waits_for_and_that_it_is_suspended() -> None:
    clock = Clock()
    metrics = Metrics(clock, Timings(clock=clock))
    orders, payments = metrics.of_table("orders"), metrics.of_table("payments")
    away = RetryableError("uploading x", "503").of("store")
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as another:
        for seconds, thread in ((60, one), (10, another)):
            thread.submit(orders.waits.failed, away, "upload", since=clock.now - seconds).result()
    with payments.waits.answer(Request("catalog", "registering files")):
        clock.advance(40)
        suspended = {"ws-late": Suspended(Trouble("store", "opening the table", "denied"), 0.0, 60.0, 1)}
        live = Live(consumption=Consumption(suspended=suspended), waits=metrics.waits.current())
        several = load(input="late,orders", Quix__Workspace__Id="ws")
        scraped = Scraped(exposition(metrics, live, several).text())
    assert scraped.of("lake_sink_table_wait_seconds", table="orders", system="store") == 100, "the longest"
    assert scraped.of("lake_sink_table_wait_seconds", table="payments", system="catalog") == 40
    assert scraped.of("lake_sink_table_retries_total", table="orders", operation="upload") == 2
    assert scraped.of("lake_sink_retries_total", operation="upload") == 2
    assert scraped.of("lake_sink_table_aside", table="late") == 1
    orders.fenced()
    assert metrics.counts().totals.fenced == orders.counts().totals.fenced == 1, "what is counted is counted once"


def test_the_seconds_of_a_step_are_a_histogram(metrics: Metrics, scrape: Callable[..., Scraped]) -> None:
    for seconds in (0.025, 0.2, 400.0):
        metrics.delivered(batch(1, spark=seconds))
    scraped = scrape()
    assert scraped.kinds["lake_sink_step_seconds"] == "histogram"
    expected = {"0.01": 0, "0.025": 1, "0.25": 2, "300.0": 2, "+Inf": 3}  # a bound belongs to its bucket
    found = {le: scraped.of("lake_sink_step_seconds_bucket", step="spark", le=le) for le in expected}
    assert found == expected
    assert scraped.of("lake_sink_step_seconds_count", step="spark") == 3
    assert scraped.of("lake_sink_step_seconds_sum", step="spark") == pytest.approx(400.225)
    assert scraped.of("lake_sink_step_seconds_count", step="upload") == 0


def test_where_each_partition_stands(metrics: Metrics, scrape: Callable[..., Scraped]) -> None:
    metrics.begins(TP, 100)
    metrics.reaches({TP: 150})
    metrics.committed({TP: 120})
    scraped = scrape()
    labels = {"topic": "sensors", "partition": "3"}
    expected = {"lag_messages": 30, "committed_offset": 120, "end_offset": 150, "freshness_seconds": 0}
    assert {name: scraped.of(f"lake_sink_{name}", **labels) for name in expected} == expected
    assert scrape(Consumption(oldest={TP: 1_699_999_990.0})).of("lake_sink_freshness_seconds", **labels) == 10
    assert scraped["lake_sink_assigned_partitions"] == 1
    assert scraped["lake_sink_last_commit_timestamp_seconds"] == 1_700_000_000


def test_the_lake_is_complete_to_the_first_record_that_waits_or_to_kafkas_answer_that_none_does() -> None:
    clock, name = Clock(), "lake_sink_complete_timestamp_seconds"
    metrics, begin = Metrics(clock), clock.now

    def complete_to(**consumption: Any) -> float | None:
        live = Live(consumption=Consumption(**consumption))
        return Scraped(exposition(metrics, live).text()).values.get((name,))

    metrics.begins(TP, 100)
    assert complete_to() is None, "records of any age may wait"
    metrics.reaches({TP: 100})
    clock.now += 10
    metrics.reaches({TP: 150})
    clock.now += 10
    assert complete_to() == begin
    assert complete_to(oldest={TP: begin + 7}) == begin + 7
    metrics.committed({TP: 150})
    assert complete_to() == begin, "others may have come since Kafka's last answer"
    metrics.reaches({TP: 150})
    assert complete_to() == begin + 20
    assert complete_to(unclaimed=frozenset({TopicPartition("sensors", 4)})) is None
    metrics.begins(TopicPartition("sensors", 4), 0)
    assert complete_to() is None, "the least of all partitions"


def test_what_is_unknown_is_left_out(metrics: Metrics, scrape: Callable[..., Scraped]) -> None:
    metrics.begins(TP, 100)
    names = {str(key[0]) for key in scrape().values}
    assert "lake_sink_committed_offset" in names
    assert not {"lake_sink_lag_messages", "lake_sink_freshness_seconds", "lake_sink_next_commit_seconds"} & names
    assert not {name for name in names if name.startswith("lake_sink_java")}


def test_moments_begin_where_something_is_expected_so_that_what_never_comes_becomes_stale() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    exposed = exposition(metrics)

    def told() -> list[float]:
        """Of the last commit, the last answer of Kafka, and the last commit of the partition."""
        scraped = Scraped(exposed.text())
        return [
            scraped["lake_sink_last_commit_timestamp_seconds"],
            scraped["lake_sink_kafka_answer_timestamp_seconds"],
            scraped.of("lake_sink_partition_last_commit_timestamp_seconds", topic="sensors", partition="3"),
        ]

    metrics.begins(TP, 0)
    assert told() == [1_000] * 3
    clock.now = 1_030
    metrics.consuming()
    metrics.begins(TP, 0)
    clock.now = 1_100
    metrics.reaches({TP: 5})
    clock.now = 1_600
    metrics.reaches({})
    assert told() == [1_030, 1_100, 1_030]
    metrics.committed({TP: 5})
    assert told() == [1_600, 1_100, 1_600]


def test_every_operation_and_step_is_there_before_it_fails(scrape: Callable[..., Scraped]) -> None:
    scraped = scrape()
    assert [scraped.of("lake_sink_retries_total", operation=operation) for operation in OPERATIONS] == [0] * 7
    assert [scraped.of("lake_sink_step_seconds_count", step=step) for step in STEPS] == [0] * 7


def test_the_deployment_is_told_once_its_table_is_found(metrics: Metrics) -> None:
    scraped = Scraped(exposition(metrics).text())
    assert scraped["lake_sink_commit_interval_seconds"] == 30
    assert "lake_sink_deployment_info" not in scraped.kinds, "the table of the settings would be another deployment"
    found = TableLocation("s3://other", "t")
    labels = {"topic": "sensors", "consumer_group": "group", "table": "s3://other/t"}
    assert Scraped(exposition(metrics, found=found).text()).of("lake_sink_deployment_info", **labels) == 1


def test_how_things_are_now(scrape: Callable[..., Scraped]) -> None:
    unclaimed = frozenset(TopicPartition("sensors", number) for number in range(4))
    consumption = Consumption(unclaimed=unclaimed, consumed=70, due_in=-2.5, held_bytes=5)
    scraped = scrape(consumption, state="paused", buffer_limit=10, under_way=2)
    assert scraped.of("lake_sink_state", state="paused") == 1
    assert sum(value for (name, *_), value in scraped.values.items() if name == "lake_sink_state") == 1
    expected: dict[str, float] = {
        "buffer_bytes": 5,
        "buffer_limit_bytes": 10,
        "batches_under_way": 2,
        "consumed_records_total": 70,
    }
    expected |= {"claiming_partitions": 4, "next_commit_seconds": -2.5}
    assert {name: scraped[f"lake_sink_{name}"] for name in expected} == expected
    assert scraped.of("lake_sink_build_info", **VERSIONS) == 1


def test_every_metric_is_documented_also_those_of_both_processes(
    metrics: Metrics, scrape: Callable[..., Scraped]
) -> None:
    metrics.begins(TP, 1)
    scraped = scrape(java_pid=os.getppid())
    assert scraped.documented
    assert {name for name in scraped.kinds if not name.startswith(("lake_sink_", "process_"))} == set()
    assert not [name for name, *_ in scraped.values if str(name).endswith("_created")]
    for prefix in ("process", "lake_sink_java_process"):
        assert scraped[f"{prefix}_resident_memory_bytes"] > 100_000
        assert scraped[f"{prefix}_cpu_seconds_total"] >= 0


def test_the_last_compaction_with_compact_alone(metrics: Metrics, scrape: Callable[..., Scraped]) -> None:
    assert not [name for name, *_ in scrape().values if "compaction" in name]
    metrics.maintained(Maintenance(1_700_000_100.0, 1_700_000_200.0, 40, 2, later=5, failed=1))
    compacting = load(COMPACT="1h")
    found = Scraped(exposition(metrics, settings=compacting).text())
    assert found["lake_sink_compaction_timestamp_seconds"] == 1_700_000_200.0
    assert found["lake_sink_compaction_interval_seconds"] == 3_600.0
    names = ("merged_files", "new_files", "later_files", "failed_folders")
    assert [found[f"lake_sink_compaction_{name}"] for name in names] == [40, 2, 5, 1]
    metrics.maintained(Maintenance(erased=1_700_000_300.0, rows=7, left=2, refused=93.0))
    found = Scraped(exposition(metrics, settings=compacting).text())
    names = ("timestamp_seconds", "rows", "failed_folders", "refused_percent")
    assert [found[f"lake_sink_erased_{name}"] for name in names] == [1_700_000_300.0, 7, 2, 93]
