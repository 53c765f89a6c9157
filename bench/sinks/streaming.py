"""Spark Structured Streaming: from Kafka to Parquet files in a local folder."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.spark.find_java import release_of
from bench.environment import STREAMING, versions
from bench.lake import check_table
from bench.stage import Place, Stage
from bench.timeline import LandedFile
from dev.child import Child
from dev.machine import ServiceError
from dev.maven_jars import Jars, maven_jars

PROGRAM = Path(__file__).parent.parent / "peer" / "streaming.py"
SPARK_VERSION = "4.0.0"  # that of ../requirements-spark.txt
JAVA_RELEASES = range(17, 24)
# Without what they depend on: all else comes with Spark.
JARS = Jars(
    f"spark-kafka-{SPARK_VERSION}",
    alone=(
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}",
        f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{SPARK_VERSION}",
        "org.apache.kafka:kafka-clients:3.9.0",
        "org.apache.commons:commons-pool2:2.12.0",
    ),
    megabytes=10,
)
HEAP = "2g"


@dataclass(frozen=True, slots=True)
class StreamingSink:
    """``bench/peer/streaming.py``, which takes so many messages at a time."""

    trigger: int
    is_ours: bool = False
    avro: bool = False

    @property
    def name(self) -> str:
        return f"streaming-{self.trigger // 1000}k"

    @property
    def title(self) -> str:
        return f"Structured Streaming, {self.trigger // 1000}k a trigger, local files"

    @property
    def settings(self) -> str:
        return f"`maxOffsetsPerTrigger={self.trigger}`, `local[*]`, a heap of {HEAP}, `partitionBy`, local files"

    def prepare(self) -> Mapping[str, str]:
        _check_java()
        maven_jars(JARS)
        return {"Spark Structured Streaming": versions(STREAMING.python(), ("pyspark",))}

    def set_up(self, stage: Stage, place: Place) -> None:
        """Nothing is needed."""

    @contextmanager
    def start(self, stage: Stage, place: Place) -> Iterator[Sequence[Child]]:
        settings = {
            "servers": stage.kafka.bootstrap_servers,
            "topic": place.topic.name,
            "trigger": self.trigger,
            "table": str(_table(place)),
            "checkpoint": str(_checkpoint(place)),
            "spark": {
                "spark.jars": ",".join(map(str, sorted(maven_jars(JARS).iterdir()))),
                "spark.driver.memory": HEAP,
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.driver.host": "127.0.0.1",
                "spark.local.dir": str(place.folder / "scratch"),
                "spark.sql.session.timeZone": "UTC",
                "spark.ui.enabled": "false",
                "spark.ui.showConsoleProgress": "false",
            },
        }
        environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "SPARK_HOME"}}
        environment["STREAMING"] = json.dumps(settings)
        command = [STREAMING.python(), str(PROGRAM)]
        with Child(self.title, command, folder=place.folder, environment=environment, log=place.log) as child:
            yield [child]

    def progress(self, stage: Stage, place: Place) -> "CommittedTriggers":  # noqa: ARG002 - it is in the folder
        return CommittedTriggers(_checkpoint(place))

    def landed(self, stage: Stage, place: Place) -> list[LandedFile]:  # noqa: ARG002 - nothing is in the bucket
        return check_table(_table(place), place.topic.expected)


class CommittedTriggers:
    """Rows up to the end of the last trigger that a query has committed, read from its checkpoint."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint

    def rows(self) -> int:
        done = [int(file.name) for file in (self._checkpoint / "commits").glob("[0-9]*")]
        if not done:
            return 0
        *_, offsets = (self._checkpoint / "offsets" / str(max(done))).read_text().splitlines()
        return sum(sum(partitions.values()) for partitions in json.loads(offsets).values())

    def close(self) -> None:
        """Nothing is held."""


def _check_java() -> None:
    """Check the Java that this Spark takes: the Hadoop that it brings does not run on the connector's."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    release = release_of(Path(found)) if found else None
    if release is None or release not in JAVA_RELEASES:
        cause = f"{found} is Java {release}" if release else f"{found} cannot be run" if found else "none was found"
        raise ServiceError(
            f"Spark {SPARK_VERSION} runs on Java {min(JAVA_RELEASES)} to {max(JAVA_RELEASES)}, {cause}. "
            "Name one in JAVA_HOME, or leave this sink out with --sinks"
        )


def _table(place: Place) -> Path:
    return place.folder / "table"


def _checkpoint(place: Place) -> Path:
    return place.folder / "checkpoint"
