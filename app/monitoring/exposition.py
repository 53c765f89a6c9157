"""Writes the metrics in the format of Prometheus. The only importer of prometheus_client.

The text is made at each scrape, from numbers in memory: nothing is asked over the network for it, and nothing costs
anything between two scrapes.
"""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector

from app.monitoring.metrics import BUCKETS, STATES, Counts, Durations, Identity, Live

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Exposition:
    """All metrics of this process.

    Args:
        identity: which connector this is.
        counts: what was counted so far.
        live: how things are now.
    """

    def __init__(
        self, identity: Callable[[], Identity], counts: Callable[[], Counts], live: Callable[[], Live]
    ) -> None:
        self._identity = identity
        self._counts = counts
        self._live = live
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        # Without Java a pid that no process has: the collector then gives nothing.
        ProcessCollector("lake_sink_java", pid=lambda: live().java_pid or 0, registry=self._registry)

    def text(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        counts, live = self._counts(), self._live()
        yield from _of_batches(counts)
        yield from _of_partitions(counts, live)
        yield from _of_kafka(counts, live)
        yield from _of_now(live)
        yield from _of_identity(self._identity())


def _of_batches(counts: Counts) -> Iterator[Metric]:
    yield CounterMetricFamily("lake_sink_rows", "Rows written to the lake since the process started.", counts.rows)
    yield CounterMetricFamily(
        "lake_sink_bytes", "Bytes of the Parquet files written to the lake since the process started.", counts.size
    )
    yield CounterMetricFamily(
        "lake_sink_files", "Parquet files written to the lake since the process started.", counts.files
    )
    yield CounterMetricFamily(
        "lake_sink_batches", "Batches written to the lake since the process started.", counts.batches
    )
    yield CounterMetricFamily(
        "lake_sink_dead_letters", "Records written to the dead letter since the process started.", counts.dead_letters
    )
    yield CounterMetricFamily(
        "lake_sink_rescued_values", "Values that fit no column and went to _rescued_data.", counts.rescued
    )
    yield CounterMetricFamily(
        "lake_sink_pauses", "Pauses of consuming because the store or the catalog took too long.", counts.pauses
    )
    yield CounterMetricFamily(
        "lake_sink_fenced_partitions",
        "Partitions that another member had taken over while this one still wrote.",
        counts.fenced,
    )
    retries = CounterMetricFamily("lake_sink_retries", "Failed tries that were repeated.", labels=["operation"])
    for operation, count in counts.retries.items():
        retries.add_metric([operation], count)
    yield retries
    steps = HistogramMetricFamily(
        "lake_sink_step_seconds",
        "Seconds that each step of a batch took, without waits for a system that was away.",
        labels=["step"],
    )
    for step, durations in counts.steps.items():
        steps.add_metric([step], _cumulated(durations), durations.seconds)
    yield steps


def _cumulated(durations: Durations) -> list[tuple[str, float]]:
    bounds = [*(str(bound) for bound in BUCKETS), "+Inf"]
    so_far = 0
    cumulated = []
    for bound, count in zip(bounds, durations.buckets, strict=True):
        so_far += count
        cumulated.append((bound, float(so_far)))
    return cumulated


def _of_partitions(counts: Counts, live: Live) -> Iterator[Metric]:
    labels = ["topic", "partition"]
    lag = GaugeMetricFamily(
        "lake_sink_lag_messages", "Messages of an assigned partition that are not committed yet.", labels=labels
    )
    committed = GaugeMetricFamily(
        "lake_sink_committed_offset", "Offset after the last one that is committed.", labels=labels
    )
    end = GaugeMetricFamily("lake_sink_end_offset", "Offset of the next message to be produced.", labels=labels)
    freshness = GaugeMetricFamily(
        "lake_sink_freshness_seconds",
        "Age of the oldest message that is not committed, in seconds; 0 if none waits.",
        labels=labels,
    )
    commit_time = GaugeMetricFamily(
        "lake_sink_partition_last_commit_timestamp_seconds",
        "When offsets of a partition were last committed, Unix time; before that, when its consuming began.",
        labels=labels,
    )
    for tp, position in sorted(counts.positions.items()):
        names = [tp.topic, str(tp.partition)]
        committed.add_metric(names, position.committed)
        commit_time.add_metric(names, position.begun_at if position.committed_at is None else position.committed_at)
        if position.end is not None and position.lag is not None:
            end.add_metric(names, position.end)
            lag.add_metric(names, position.lag)
        age = position.freshness(counts.at, live.oldest.get(tp))
        if age is not None:
            freshness.add_metric(names, age)
    yield from (lag, committed, commit_time, end, freshness)
    yield GaugeMetricFamily("lake_sink_assigned_partitions", "Partitions that are consumed.", len(counts.positions))
    yield GaugeMetricFamily(
        "lake_sink_claiming_partitions",
        "Partitions that are assigned and not claimed in the journal yet.",
        live.claiming,
    )


def _of_kafka(counts: Counts, live: Live) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "lake_sink_last_commit_timestamp_seconds",
        "When offsets were last committed, Unix time; before the first commit, when consuming began.",
        counts.consuming_since if counts.last_commit is None else counts.last_commit,
    )
    yield GaugeMetricFamily(
        "lake_sink_kafka_answer_timestamp_seconds",
        "When Kafka last told the end of a partition, Unix time; before the first answer, when consuming began.",
        counts.consuming_since if counts.last_answer is None else counts.last_answer,
    )
    if live.commit_due_in is not None:
        yield GaugeMetricFamily(
            "lake_sink_next_commit_seconds",
            "Seconds until the next commit is due; negative if it is late.",
            live.commit_due_in,
        )


def _of_now(live: Live) -> Iterator[Metric]:
    state = GaugeMetricFamily("lake_sink_state", "1 for the state that the connector is in.", labels=["state"])
    for name in STATES:
        state.add_metric([name], float(name == live.state))
    yield state
    yield CounterMetricFamily("lake_sink_consumed_records", "Records that were read from Kafka.", live.consumed)
    yield GaugeMetricFamily("lake_sink_buffer_bytes", "Size of the rows held in Python, as estimated.", live.buffered)
    yield GaugeMetricFamily("lake_sink_buffer_limit_bytes", "The size at which consuming waits.", live.buffer_limit)
    yield GaugeMetricFamily("lake_sink_batches_under_way", "Batches begun and not in the lake yet.", live.under_way)
    yield CounterMetricFamily(
        "lake_sink_skipped_records", "Bad records that were left out because of ON_BAD_RECORD=skip.", live.skipped
    )


def _of_identity(identity: Identity) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "lake_sink_commit_interval_seconds",
        "Seconds between two commits: COMMIT_INTERVAL.",
        identity.commit_interval,
    )
    if identity.is_found:  # two tables in turn would look like a deployment that is gone
        names = {"topic": identity.topic, "consumer_group": identity.group, "table": identity.table}
        yield _info("lake_sink_deployment_info", "Topic, consumer group and table, as labels of the value 1.", names)
    yield _info("lake_sink_build_info", "Versions, as labels of the value 1.", identity.versions)


def _info(name: str, documentation: str, labels: Mapping[str, str]) -> Metric:
    info = GaugeMetricFamily(name, documentation, labels=list(labels))
    info.add_metric(list(labels.values()), 1)
    return info
