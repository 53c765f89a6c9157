"""How long a stop of the connector takes: with nothing to do, and with batches under way."""

import time
from contextlib import closing
from dataclasses import dataclass

from bench.lake import check_table, download
from bench.messages import totals_of_first
from bench.run import wait_for_rows
from bench.sinks.base import table_in
from bench.sinks.connector import ConnectorSink
from bench.stage import CommittedOffsets, Place, Stage, Topic


@dataclass(frozen=True, slots=True)
class Stop:
    """Seconds from SIGTERM to the end of the process; ``committed`` rows have landed then, and no others."""

    seconds: float
    committed: int


def stop_idle(stage: Stage, topic: Topic, sink: ConnectorSink) -> Stop:
    """Stop the connector when it has written the whole topic. Raises as ``stop_busy`` does."""
    return _stop(stage, topic, sink, topic.messages)


def stop_busy(stage: Stage, topic: Topic, sink: ConnectorSink) -> Stop:
    """Stop the connector as soon as its first rows are committed and many more are on their way.

    Raises:
        ServiceError: it failed, or did not stop in order.
        WrongRowsError: what is in the lake is not exactly what is committed.
    """
    return _stop(stage, topic, sink, 1)


def _stop(stage: Stage, topic: Topic, sink: ConnectorSink, rows: int) -> Stop:
    with stage.place("stop", topic) as place:
        with sink.start(stage, place) as (connector,):
            wait_for_rows(sink, stage, place, [connector], rows)
            stopping = time.monotonic()
            connector.stop()
            seconds = time.monotonic() - stopping
        with closing(CommittedOffsets(stage, place)) as offsets:
            committed = offsets.by_partition()
        _check(stage, place, committed)
        return Stop(seconds, sum(committed))


def _check(stage: Stage, place: Place, committed: list[int]) -> None:
    folder = place.folder / "lake"
    download(stage.minio, place.name, folder)
    check_table(table_in(folder), totals_of_first(place.topic.workload, committed))
