"""The sinks that are measured, in the order in which they take turns."""

from bench.sinks.base import Sink
from bench.sinks.connector import ConnectorSink
from bench.sinks.dependency import DependencySink
from bench.sinks.iceberg import IcebergSink
from bench.sinks.streaming import StreamingSink

CONNECTOR = "connector"
AT_LEAST_ONCE = "at-least-once"


def this_connector(batch_size: int, commit_interval: float) -> ConnectorSink:
    """This connector, with ``BATCH_SIZE`` and ``COMMIT_INTERVAL``."""
    return ConnectorSink(CONNECTOR, "this connector", _variables(batch_size, commit_interval))


def all_sinks(batch_size: int, commit_interval: float) -> dict[str, Sink]:
    """All of them by name; the arguments are those of ``this_connector``."""
    at_least_once = {**_variables(batch_size, commit_interval), "DELIVERY_GUARANTEE": "at-least-once"}
    sinks: list[Sink] = [
        this_connector(batch_size, commit_interval),
        ConnectorSink(AT_LEAST_ONCE, "this connector, at least once", at_least_once),
        DependencySink(1_000),
        DependencySink(50_000),
        StreamingSink(50_000),
        StreamingSink(500_000),
        IcebergSink(1),
        IcebergSink(2),
    ]
    return {sink.name: sink for sink in sinks}


def _variables(batch_size: int, commit_interval: float) -> dict[str, str]:
    return {"BATCH_SIZE": str(batch_size), "COMMIT_INTERVAL": f"{commit_interval:g}"}
