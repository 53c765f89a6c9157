"""Exposes the metrics in the format of Prometheus.

``Metrics`` counts events. All other values are read from the status at each scrape.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector

from app.monitoring.metrics import Position
from app.monitoring.status import STATES, VERSIONS, Status

_Read = Callable[[Status], float | None]
_ReadPartition = Callable[[Position, float | None], float | None]


def _total(field: str) -> _Read:
    return lambda s: getattr(s.counts.totals, field)


def _maintained(field: str) -> _Read:
    return lambda s: getattr(s.counts.maintenance, field, None)


# The name without "lake_sink_", the documentation, and the value. Gauges with an unknown value are left out.
_COUNTERS: Final[Iterable[tuple[str, str, _Read]]] = (
    ("rows", "Rows written to the lake since the process started.", _total("rows")),
    ("bytes", "Bytes of the Parquet files written to the lake since the process started.", _total("size")),
    ("files", "Parquet files written to the lake since the process started.", _total("files")),
    ("batches", "Batches written to the lake since the process started.", _total("batches")),
    ("dead_letters", "Records written to the dead letter since the process started.", _total("dead_letters")),
    ("rescued_values", "Values that fit no column and went to _rescued_data.", _total("rescued")),
    ("pauses", "Pauses of consuming because the store or the catalog took too long.", _total("pauses")),
    ("fenced_partitions", "Partitions that another member claimed while this member wrote.", _total("fenced")),
    ("consumed_records", "Records read from Kafka.", lambda s: s.live.consumption.consumed),
    ("skipped_records", "Bad records skipped because of ON_BAD_RECORD=skip.", lambda s: s.live.skipped),
)
_GAUGES: Final[Iterable[tuple[str, str, _Read]]] = (
    ("assigned_partitions", "Partitions that are consumed.", lambda s: len(s.counts.positions)),
    ("claiming_partitions", "Partitions that wait for their claims.", lambda s: len(s.live.consumption.unclaimed)),
    (
        "last_commit_timestamp_seconds",
        "When offsets were last committed, Unix time; before the first commit, when consuming began.",
        lambda s: s.counts.last_commit or s.counts.consuming_since,
    ),
    (
        "kafka_answer_timestamp_seconds",
        "When Kafka last returned the end of a partition, Unix time; before the first answer, when consuming began.",
        lambda s: s.counts.last_answer or s.counts.consuming_since,
    ),
    (
        "complete_timestamp_seconds",
        "The lake contains all records of the assigned partitions up to this Kafka timestamp, Unix time.",
        lambda s: s.complete_to,
    ),
    ("next_commit_seconds", "Seconds to the next commit, negative if it is late.", lambda s: s.live.consumption.due_in),
    ("buffer_bytes", "Estimated size of the rows held in Python.", lambda s: s.live.consumption.held_bytes),
    ("buffer_limit_bytes", "The size at which consuming waits.", lambda s: s.live.buffer_limit),
    ("batches_under_way", "Batches begun and not in the lake yet.", lambda s: s.live.under_way),
    (
        "compaction_timestamp_seconds",
        "When the last compaction of the table ended, Unix time; at first, when consuming began.",
        lambda s: s.compacted_at,
    ),
    ("compaction_interval_seconds", "Seconds between compactions: COMPACT.", lambda s: s.compaction_seconds),
    ("compaction_merged_files", "Files that the last compaction merged.", _maintained("before")),
    ("compaction_new_files", "Merged files that the last compaction wrote.", _maintained("after")),
    ("compaction_later_files", "Small files that were too young for the last compaction.", _maintained("later")),
    ("compaction_failed_folders", "Folders that the last compaction skipped by an error.", _maintained("failed")),
    ("erased_timestamp_seconds", "When KEEP last erased old rows, Unix time.", _maintained("erased")),
    ("erased_rows", "Rows that KEEP erased then.", _maintained("rows")),
    ("erased_failed_folders", "Folders that KEEP skipped because of an error.", _maintained("left")),
    (
        "left_out_topics",
        "Topics that exist and are not written: the status page shows why.",
        lambda s: len(s.live.consumption.left_out),
    ),
    ("erased_refused_percent", "Share of the table that KEEP refused to erase; 0: none.", _maintained("refused")),
    ("other_programs", "Other programs that have partitions in the group.", lambda s: len(s.counts.programs)),
    ("erased_clock_seconds", "Seconds by which this clock is ahead of the store's; 0: erased.", _maintained("clock")),
    ("commit_interval_seconds", "Seconds between two commits: COMMIT_INTERVAL.", lambda s: s.settings.commit_interval),
)
# Gauges of each partition, from the partition's position and the age of the oldest uncommitted message.
_PARTITION_GAUGES: Final[Iterable[tuple[str, str, _ReadPartition]]] = (
    ("lag_messages", "Uncommitted messages of an assigned partition.", lambda position, _: position.lag),
    ("committed_offset", "Offset after the last committed message.", lambda position, _: position.committed),
    (
        "partition_last_commit_timestamp_seconds",
        "When offsets of a partition were last committed, Unix time; before that, when its consuming began.",
        lambda position, _: position.committed_at or position.begun_at,
    ),
    ("end_offset", "Offset of the next message to be produced.", lambda position, _: position.end),
    ("freshness_seconds", "Age in seconds of the oldest message that is not committed; 0: none.", lambda _, age: age),
)


class Exposition:
    """All metrics of this process: the metrics of ``counted``, and values of the status."""

    def __init__(self, counted: CollectorRegistry, status: Callable[[], Status]) -> None:
        self._counted = counted
        self._status = status
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        # No process has pid 0, so without Java the collector returns no metrics.
        ProcessCollector("lake_sink_java", pid=lambda: status().live.java_pid or 0, registry=self._registry)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        yield from self._counted.collect()
        for family, metrics in ((CounterMetricFamily, _COUNTERS), (GaugeMetricFamily, _GAUGES)):
            for name, documentation, read in metrics:
                if (value := read(status)) is not None:
                    yield family(f"lake_sink_{name}", documentation, value)
        yield from _of_partitions(status)
        yield from _of_tables(status)
        states = {(each,): each == status.live.state for each in STATES}
        yield _gauge("state", "1 for the connector's present state.", ["state"], states)
        if status.located:  # a changing table would look like a second deployment
            settings, table = status.settings, status.located.uri
            names = {"topic": settings.input_topic, "consumer_group": settings.consumer_group, "table": table}
            documentation = "Topic, consumer group and table, as labels of the value 1."
            yield _gauge("deployment_info", documentation, [*names], {(*names.values(),): 1})
        yield _gauge("build_info", "Versions, as labels of the value 1.", [*VERSIONS], {(*VERSIONS.values(),): 1})


def _of_partitions(status: Status) -> Iterator[Metric]:
    now, oldest = status.counts.at, status.live.consumption.oldest
    rows = [(tp, each, each.freshness(now, oldest.get(tp))) for tp, each in sorted(status.counts.positions.items())]
    for name, documentation, read in _PARTITION_GAUGES:
        values = {(tp.topic, str(tp.partition)): read(position, age) for tp, position, age in rows}
        yield _gauge(name, documentation, ["topic", "partition"], values)


def _of_tables(status: Status) -> Iterator[Metric]:
    for name, field in (("rows", "rows"), ("bytes", "size"), ("files", "files")):
        counter = CounterMetricFamily(f"lake_sink_table_{name}", f"{name.title()} of a table.", labels=["table"])
        for table, counts in status.counts.of_tables.items():
            counter.add_metric([table], getattr(counts.totals, field))
        yield counter
    waits = {(wait.table, wait.system or ""): wait.seconds for wait in reversed(status.live.waits) if wait.table}
    yield _gauge("table_wait_seconds", "For how long a table waits for another system.", ["table", "system"], waits)
    suspended = {(status.table_of(topic),): 1 for topic in status.live.consumption.suspended}
    yield _gauge("table_aside", "1 for a table that is suspended.", ["table"], suspended)


def _gauge(name: str, documentation: str, labels: Sequence[str], values: Mapping[Any, float | None]) -> Metric:
    """Returns a gauge with the known values. ``values`` maps the values of the labels to the gauge's value."""
    gauge = GaugeMetricFamily(f"lake_sink_{name}", documentation, labels=labels)
    for label_values, value in values.items():
        if value is not None:
            gauge.add_metric(label_values, float(value))
    return gauge
