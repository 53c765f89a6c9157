"""The sink that quixstreams ships, ``QuixTSDataLakeSink``, in an environment of its own."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.environment import DEPENDENCY, versions
from bench.sinks.base import landed_in_bucket
from bench.sinks.connector import sink_variables
from bench.stage import CommittedOffsets, Place, Stage
from bench.timeline import LandedFile
from dev.child import Child

PACKAGES = ("quixstreams", "confluent-kafka", "orjson", "pyarrow", "s3fs", "aiobotocore")
FOLDER = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class DependencySink:
    """``bench/peer/main.py``, which commits every so many messages."""

    commit_every: int
    is_ours: bool = False
    avro: bool = False

    @property
    def name(self) -> str:
        return f"dependency-{self.commit_every}"

    @property
    def title(self) -> str:
        return f"QuixTSDataLakeSink, {self.commit_every:,} a batch"

    @property
    def settings(self) -> str:
        return f"`commit_every={self.commit_every}`, the default commit interval of 5 s"

    def prepare(self) -> Mapping[str, str]:
        return {"QuixTSDataLakeSink": versions(DEPENDENCY.python(), PACKAGES)}

    def set_up(self, stage: Stage, place: Place) -> None:
        """Nothing is needed."""

    @contextmanager
    def start(self, stage: Stage, place: Place) -> Iterator[Sequence[Child]]:
        variables = sink_variables(stage, place, {"BATCH_SIZE": str(self.commit_every)})
        standin = {"PYTHONPATH": str(FOLDER / "standin")}  # for its private package, and for this process alone
        command = [DEPENDENCY.python(), str(FOLDER / "peer" / "main.py")]
        environment = {**os.environ, **variables, **standin}
        with Child(self.title, command, folder=place.folder, environment=environment, log=place.log) as child:
            yield [child]

    def progress(self, stage: Stage, place: Place) -> CommittedOffsets:
        return CommittedOffsets(stage, place)

    def landed(self, stage: Stage, place: Place) -> list[LandedFile]:
        return landed_in_bucket(stage, place)
