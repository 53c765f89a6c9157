"""The sinks that are measured, in the order in which they take turns."""

from bench.sinks.base import Sink, in_avro
from bench.sinks.connector import FILTER_AND_ARITHMETIC, IDENTITY, ConnectorSink
from bench.sinks.dependency import DependencySink
from bench.sinks.iceberg import IcebergSink
from bench.sinks.streaming import StreamingSink

CONNECTOR = "connector"
CONNECTOR_ICEBERG = f"{CONNECTOR}-iceberg"


def this_connector(
    batch_size: int, commit_interval: float, *, avro: bool = False, iceberg: bool = False
) -> ConnectorSink:
    """This connector, with ``BATCH_SIZE`` and ``COMMIT_INTERVAL``."""
    variables = {"BATCH_SIZE": str(batch_size), "COMMIT_INTERVAL": f"{commit_interval:g}"}
    if avro:
        variables["KAFKA_VALUE_DESERIALIZER"] = "avro"
    name, title = (CONNECTOR_ICEBERG, "this connector, Iceberg") if iceberg else (CONNECTOR, "this connector")
    name, title = (in_avro(name), f"{title}, Avro") if avro else (name, title)
    return ConnectorSink(name, title, variables, avro=avro, iceberg=iceberg)


def edited_connector(batch_size: int, commit_interval: float, *, identity: bool) -> ConnectorSink:
    """This connector with an edited ``transform()``; the arguments are those of ``this_connector``."""
    name, what = ("identity", "identity") if identity else ("edited", "filter and arithmetic")
    variables = this_connector(batch_size, commit_interval).variables
    transform = IDENTITY if identity else FILTER_AND_ARITHMETIC
    return ConnectorSink(f"{CONNECTOR}-{name}", f"this connector, transform(): {what}", variables, transform=transform)


def all_sinks(batch_size: int, commit_interval: float) -> dict[str, Sink]:
    """All of them by name; the arguments are those of ``this_connector``."""
    sinks: list[Sink] = [
        this_connector(batch_size, commit_interval),
        this_connector(batch_size, commit_interval, iceberg=True),
        edited_connector(batch_size, commit_interval, identity=True),
        edited_connector(batch_size, commit_interval, identity=False),
        DependencySink(1_000),
        DependencySink(50_000),
        StreamingSink(50_000),
        StreamingSink(500_000),
        IcebergSink(1),
        IcebergSink(2),
        IcebergSink(2, edited=True),
    ]
    return {sink.name: sink for sink in sinks}


def avro_sinks(batch_size: int, commit_interval: float) -> dict[str, Sink]:
    """Those of them that can read the topic in Avro, by the name that they then have."""
    sinks: list[Sink] = [
        this_connector(batch_size, commit_interval, avro=True),
        IcebergSink(1, avro=True),
        IcebergSink(2, avro=True),
    ]
    return {sink.name: sink for sink in sinks}
