"""Kafka Connect, a standalone worker, with the sink of the Iceberg project: to an Iceberg table in the bucket."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

from bench.lake import check_table, download
from bench.sinks import iceberg_table
from bench.sinks.base import TABLE, in_avro
from bench.sinks.iceberg_table import CommittedSnapshots
from bench.stage import Place, Stage
from bench.timeline import LandedFile
from dev.child import Child
from dev.iceberg_catalog import ICEBERG_JARS
from dev.java import find_java
from dev.maven_jars import Jars, maven_jars
from dev.server import free_ports

CONNECT_VERSION = "4.1.0"
ICEBERG_VERSION = "1.12.0"
# Apicurio's converter reads what Confluent's serializers write; Confluent's own is not in Maven's central repository.
CONVERTER_VERSION = "2.6.13.Final"
JARS = Jars(
    f"connect-{CONNECT_VERSION}-iceberg-{ICEBERG_VERSION}",
    with_all_they_need=(
        f"org.apache.kafka:connect-runtime:{CONNECT_VERSION}",
        f"org.apache.iceberg:iceberg-kafka-connect:{ICEBERG_VERSION}",
        f"org.apache.iceberg:iceberg-aws:{ICEBERG_VERSION}",
        "org.apache.logging.log4j:log4j-slf4j2-impl:2.24.3",
    ),
    alone=(
        # named by no module, but loaded by name
        f"org.apache.iceberg:iceberg-parquet:{ICEBERG_VERSION}",
        f"org.apache.iceberg:iceberg-orc:{ICEBERG_VERSION}",
        f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG_VERSION}",
        "org.apache.hadoop:hadoop-client-api:3.4.1",
        "org.apache.hadoop:hadoop-client-runtime:3.4.1",
    ),
    megabytes=190,
)
AVRO_JARS = Jars(
    f"apicurio-converter-{CONVERTER_VERSION}",
    with_all_they_need=(f"io.apicurio:apicurio-registry-utils-converter:{CONVERTER_VERSION}",),
    megabytes=26,
)
HEAP = "2g"  # what Kafka's own script starts Connect with
AVRO_CONVERTER = "io.apicurio.registry.utils.converter.AvroConverter"
COMMIT_MS = 2_000
POLL_RECORDS = 5_000
# A task without new records looks at the coordinator's requests only so often: by default the last commit of a topic
# would wait for a minute.
FLUSH_MS = 500
RENAMED = {"status": "state"}
# No message of the benchmark is a tombstone: all rows are compared.
FILTER_AND_RENAME = {
    "predicates": "tombstone",
    "predicates.tombstone.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
    "transforms": "filter,rename",
    "transforms.filter.type": "org.apache.kafka.connect.transforms.Filter",
    "transforms.filter.predicate": "tombstone",
    "transforms.rename.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
    "transforms.rename.renames": ",".join(":".join(pair) for pair in RENAMED.items()),
}


@dataclass(frozen=True, slots=True)
class IcebergSink:
    """One worker with so many tasks; if edited, with a filter and a renamed field."""

    tasks: int
    avro: bool = False
    edited: bool = False
    is_ours: bool = False

    @property
    def name(self) -> str:
        name = f"iceberg-{self.tasks}{'-edited' if self.edited else ''}"
        return in_avro(name) if self.avro else name

    @property
    def title(self) -> str:
        tasks = f"{self.tasks} {'task' if self.tasks == 1 else 'tasks'}"
        more = f"{', filter and rename' if self.edited else ''}{', Avro' if self.avro else ''}"
        return f"Kafka Connect, Iceberg sink, {tasks}{more}"

    @property
    def settings(self) -> str:
        return (
            f"`tasks.max={self.tasks}`, `iceberg.control.commit.interval-ms={COMMIT_MS}`, "
            f"`offset.flush.interval.ms={FLUSH_MS}`, `max.poll.records={POLL_RECORDS}`, "
            f"a heap of {HEAP}, partitions by day and location"
            + (f", `{AVRO_CONVERTER}`" if self.avro else "")
            + (", the transforms `Filter` and `ReplaceField`" if self.edited else "")
        )

    @property
    def _jars(self) -> Sequence[Jars]:
        """What both have is taken from Connect's own, which come first."""
        return (JARS, AVRO_JARS) if self.avro else (JARS,)

    def prepare(self) -> Mapping[str, str]:
        for jars in (*self._jars, ICEBERG_JARS):
            maven_jars(jars)
        converter = {"Avro converter of Kafka Connect": f"Apicurio {CONVERTER_VERSION}"} if self.avro else {}
        return {"Kafka Connect": f"{CONNECT_VERSION}, Iceberg {ICEBERG_VERSION}", **converter}

    def set_up(self, stage: Stage, place: Place) -> None:
        iceberg_table.create_table(stage.catalog(), place.name, RENAMED if self.edited else {})
        stage.kafka.create_topic(_control_topic(place))
        _write(place.folder / "worker.properties", self._worker(stage, place))
        _write(place.folder / "connector.properties", self._connector(stage, place))

    @contextmanager
    def start(self, stage: Stage, place: Place) -> Iterator[Sequence[Child]]:  # noqa: ARG002 - it is in the files
        command = [
            *(find_java(), "-Xms256m", f"-Xmx{HEAP}", "-XX:+UseG1GC", "-Dlog4j2.level=WARN"),
            *("-cp", ":".join(f"{maven_jars(jars)}/*" for jars in self._jars)),
            "org.apache.kafka.connect.cli.ConnectStandalone",
            *("worker.properties", "connector.properties"),
        ]
        with Child(self.title, command, folder=place.folder, environment=os.environ, log=place.log) as child:
            yield [child]

    def progress(self, stage: Stage, place: Place) -> "CommittedSnapshots":
        return CommittedSnapshots(stage.catalog(), place.name)

    def landed(self, stage: Stage, place: Place) -> list[LandedFile]:
        folder = place.folder / "lake"
        download(stage.minio, place.name, folder)
        files = check_table(folder, place.topic.expected, iceberg_table.SOURCE.format(folder=folder))
        CommittedSnapshots(stage.catalog(), place.name).check(files)
        return files

    def _worker(self, stage: Stage, place: Place) -> dict[str, str]:
        return {
            "bootstrap.servers": stage.kafka.bootstrap_servers,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            **self._converter(stage),
            "offset.storage.file.filename": str(place.folder / "offsets"),
            "plugin.discovery": "service_load",  # reading all jars for plugins would take it six seconds
            "listeners": f"http://127.0.0.1:{free_ports(1)[0]}",
            "consumer.max.poll.records": str(POLL_RECORDS),
            "offset.flush.interval.ms": str(FLUSH_MS),
        }

    def _converter(self, stage: Stage) -> dict[str, str]:
        if self.avro:
            return {
                "value.converter": AVRO_CONVERTER,
                # It knows Apicurio's own API alone. There the ids that Confluent's has are those of contents.
                "value.converter.apicurio.registry.url": urljoin(stage.registry_url, "/apis/registry/v2"),
                "value.converter.apicurio.registry.as-confluent": "true",
                "value.converter.apicurio.registry.use-id": "contentId",
            }
        return {
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
        }

    def _connector(self, stage: Stage, place: Place) -> dict[str, str]:
        return {
            "name": place.name,
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "tasks.max": str(self.tasks),
            "topics": place.topic.name,
            "iceberg.tables": f"{place.name}.{TABLE}",
            "iceberg.control.topic": _control_topic(place),
            "iceberg.control.commit.interval-ms": str(COMMIT_MS),
            "iceberg.catalog.type": "rest",
            "iceberg.catalog.uri": stage.catalog().url,
            "iceberg.catalog.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            **{f"iceberg.catalog.{name}": value for name, value in stage.catalog().storage.items()},
            **(FILTER_AND_RENAME if self.edited else {}),
        }


def _control_topic(place: Place) -> str:
    return f"control-{place.name}"


def _write(path: Path, settings: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
