"""This connector, as one process or as several replicas."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from bench.environment import versions
from bench.homes import Home, copy
from bench.lake import check_table
from bench.sinks.base import HIVE_COLUMNS, PREFIX, TABLE, landed_in_bucket, table_in
from bench.sinks.iceberg_table import CommittedSnapshots
from bench.stage import CommittedOffsets, Place, Stage
from bench.timeline import LandedFile
from dev.connector import REPO, Connector, customised
from dev.iceberg_catalog import ICEBERG_JARS
from dev.maven_jars import maven_jars
from dev.parsed_classes import archive_variables

IDENTITY = """
def transform(sdf):
    return sdf.apply(lambda value: value)
"""
# No reading is filtered out: all rows are compared.
FILTER_AND_ARITHMETIC = """
def transform(sdf):
    sdf = sdf[sdf["humidity"] >= 0]
    sdf["fahrenheit"] = sdf["temperature"] * 1.8 + 32
    return sdf
"""
PACKAGES = ("quixstreams", "confluent-kafka", "orjson", "pyarrow", "pyspark", "boto3", "pyiceberg")


@dataclass(frozen=True, slots=True)
class ConnectorSink:
    """The connector with the variables that every sink of quixstreams gets, and some more.

    Attributes:
        home: where it keeps its table, if not in the benchmark's MinIO.
        avro: whether the topic is in Avro; ``variables`` are to say so.
        iceberg: whether it commits to a table of the stage's Iceberg catalog.
        transform: the source of an edited ``transform()``.
    """

    name: str
    title: str
    variables: Mapping[str, str] = field(default_factory=dict)
    replicas: int = 1
    home: Home | None = None
    is_ours: bool = True
    avro: bool = False
    iceberg: bool = False
    transform: str = ""

    @property
    def settings(self) -> str:
        told = [f"`{name}={value}`" for name, value in self.variables.items()]
        return ", ".join([*told, *([f"{self.replicas} replicas"] if self.replicas > 1 else [])]) or "defaults"

    def prepare(self) -> Mapping[str, str]:
        if self.iceberg:
            maven_jars(ICEBERG_JARS)
        return {"This connector": versions(sys.executable, PACKAGES)}

    def set_up(self, stage: Stage, place: Place) -> None:  # noqa: ARG002 - it makes the table by itself
        if self.iceberg:
            stage.catalog()

    @contextmanager
    def start(self, stage: Stage, place: Place) -> Iterator[Sequence[Connector]]:
        variables = sink_variables(stage, place, self.variables) | archive_variables(stage.classes)
        if self.avro:
            variables["SCHEMA_REGISTRY_URL"] = stage.registry_url
        if self.iceberg:
            catalog = {"CATALOG_TYPE": "iceberg", "CATALOG_URL": stage.catalog().url, "CATALOG_NAMESPACE": place.name}
            variables |= catalog
        if self.home:
            self.home.make(place.name)
            variables |= self.home.variables(place.name)
        logs = [place.log.with_suffix(f".{number}.log" if number else ".log") for number in range(self.replicas)]
        with ExitStack() as running:
            code = customised(place.folder / "code", self.transform) if self.transform else REPO
            yield [running.enter_context(Connector(variables, log, code)) for log in logs]

    def progress(self, stage: Stage, place: Place) -> CommittedOffsets:
        return CommittedOffsets(stage, place)

    def landed(self, stage: Stage, place: Place) -> list[LandedFile]:
        if self.home is None:
            files = landed_in_bucket(stage, place)
            if self.iceberg:
                CommittedSnapshots(stage.catalog(), place.name).check(files)
            return files
        folder = place.folder / "lake"
        copy(self.home.open(place.name), folder)
        return check_table(table_in(folder), place.topic.expected)


def sink_variables(stage: Stage, place: Place, more: Mapping[str, str]) -> dict[str, str]:
    """The variables that lead to the place; they serve the connector and the dependency's sink alike."""
    connection = {
        "Provider": "Minio",
        "S3Compatible": {
            "BucketName": place.name,
            "AccessKeyId": stage.minio.access_key,
            "SecretAccessKey": stage.minio.secret_key,
            "Region": stage.minio.region,
            "ServiceUrl": stage.minio.endpoint_url,
        },
    }
    return {
        "KAFKA_BOOTSTRAP_SERVERS": stage.kafka.bootstrap_servers,
        "input": place.topic.name,
        "CONSUMER_GROUP": place.name,
        "AUTO_OFFSET_RESET": "earliest",
        "TABLE_NAME": TABLE,
        "S3_PREFIX": PREFIX,
        "HIVE_COLUMNS": HIVE_COLUMNS,
        "HTTP_PORT": "0",
        "Quix__BlobStorage__Connection__Json": json.dumps(connection),
        **more,
    }
