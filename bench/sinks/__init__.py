"""The sinks that are measured, in the order in which they take turns."""

from bench.sinks.base import Sink
from bench.sinks.connector import ConnectorSink
from bench.sinks.dependency import DependencySink
from bench.sinks.iceberg import IcebergSink
from bench.sinks.streaming import StreamingSink

CONNECTOR = "connector"


def this_connector(batch_size: int, commit_interval: float) -> ConnectorSink:
    """This connector, with ``BATCH_SIZE`` and ``COMMIT_INTERVAL``."""
    variables = {"BATCH_SIZE": str(batch_size), "COMMIT_INTERVAL": f"{commit_interval:g}"}
    return ConnectorSink(CONNECTOR, "this connector", variables)


def all_sinks(batch_size: int, commit_interval: float) -> dict[str, Sink]:
    """All of them by name; the arguments are those of ``this_connector``."""
    sinks: list[Sink] = [
        this_connector(batch_size, commit_interval),
        DependencySink(1_000),
        DependencySink(50_000),
        StreamingSink(50_000),
        StreamingSink(500_000),
        IcebergSink(1),
        IcebergSink(2),
    ]
    return {sink.name: sink for sink in sinks}
