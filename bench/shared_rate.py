"""The rate of a group whose replicas have an equal share of processor time each, once all are warm."""

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import requests

from bench.group import group
from bench.lake import check_table, landed_file
from bench.messages import Workload, expected_totals, records
from bench.stage import Stage, Topic
from bench.timeline import WARM_TO, LandedFile
from bench.usage import Sampler, Usage, cpu_seconds_at
from dev.machine import ServiceError, announce

PARTITIONS = 64
# Batches of one size: with a little processor time each, those that grow while Spark is busy would be too few to tell.
VARIABLES = {"COMMIT_INTERVAL": "5", "TARGET_FILE_MB": "0", "BATCH_SIZE": "100000", "SPARK_DRIVER_MEMORY": "512m"}
# So little that hardly a row is read while the topic is filled, and enough for the heartbeats of the group.
HELD_CORES = 0.03
REST_SECONDS = 15.0  # Java's compilers have work left
MILLION = 1_000_000
# MinIO gives the same figures for ten seconds.
COUNTED_SECONDS = 11.0
_WRITER = re.compile(r"_([0-9a-f]{24})-\d+\.parquet$")  # a generation of the group has one name for all its files


@dataclass(frozen=True, slots=True)
class Rate:
    """What a group did with equal shares.

    Attributes:
        replicas, share: how many, and the cores of each.
        messages: in the lake at the end, each once.
        measured: messages that came when all were warm.
        rate: rows per second from when every replica had landed a file of them to when 95 % had landed.
        seconds: of that time.
        slowest, fastest: the rates of single replicas in that time.
        cpu_per_million: processor seconds of all replicas in that time, for a million rows.
        used: the part of their shares that they used in that time.
        kafka_cores, minio_cores: what the servers took in that time.
        files: that landed of the measured messages.
        requests: to the store for the measured messages, by the name that MinIO gives them.
        replica_mb: resident memory of a replica with its Java, the mean of all at their common peak.
    """

    replicas: int
    share: float
    messages: int
    measured: int
    rate: float
    seconds: float
    slowest: float
    fastest: float
    cpu_per_million: float
    used: float
    kafka_cores: float
    minio_cores: float
    files: int
    requests: Mapping[str, int]
    replica_mb: float


def measure_rate(stage: Stage, replicas: int, share: float, warm_up: int, measured: int) -> Rate:
    """Warm all replicas up without a limit, hold them while the topic is filled, then let each have its share.

    Args:
        stage: where to.
        replicas: how many.
        share: cores of each.
        warm_up, measured: messages a replica.

    Raises:
        ServiceError: a replica failed, or no control group can be made.
        WrongRowsError: other rows are in the table than were produced.
    """
    workload = Workload(replicas * (warm_up + measured), PARTITIONS)
    topic = Topic(workload.name, workload, expected_totals(workload))
    readings = records(workload)
    stage.kafka.create_topic(topic.name, PARTITIONS)
    with ExitStack() as ends:
        running = ends.enter_context(group(stage, f"shared-{replicas}", topic, VARIABLES))
        announce(f"{replicas} replicas: starting")
        for _ in range(replicas):
            running.start()
        running.wait_until_shared(PARTITIONS)
        announce(f"{replicas} replicas: warming up")
        running.limit(HELD_CORES)
        stage.kafka.produce(topic.name, islice(readings, replicas * warm_up), at_once=True)
        running.limit(None)
        running.wait_until_landed(replicas * warm_up)

        time.sleep(REST_SECONDS)
        announce(f"{replicas} replicas: filling the topic")
        running.limit(HELD_CORES)
        counted = time.monotonic() + COUNTED_SECONDS
        samplers = [
            ends.enter_context(Sampler(pids))
            for pids in ([each.connector.pid for each in running.replicas], [stage.kafka.pid], [stage.minio.pid])
        ]
        stage.kafka.produce(topic.name, readings, at_once=True)
        time.sleep(max(0.0, counted - time.monotonic()))
        before = s3_requests(stage)
        running.limit(share)
        released = time.time()
        announce(f"{replicas} replicas: measuring")
        # the end of the first transaction takes an offset of each partition
        running.wait_until_landed(topic.messages + PARTITIONS)
        time.sleep(COUNTED_SECONDS)
        after = s3_requests(stage)
        table = running.table()
        check_table(table, topic.expected)
        window = window_of(_by_writer(table, released), replicas * measured)
        ours, kafka, minio = [_used(each.samples, window) for each in samplers]
        rates = sorted(rows / window.seconds for rows in window.rows)
        return Rate(
            replicas=replicas,
            share=share,
            messages=topic.messages,
            measured=replicas * measured,
            rate=sum(rates),
            seconds=window.seconds,
            slowest=rates[0],
            fastest=rates[-1],
            cpu_per_million=ours / sum(window.rows) * MILLION,
            used=ours / window.seconds / (replicas * share),
            kafka_cores=kafka / window.seconds,
            minio_cores=minio / window.seconds,
            files=window.files,
            requests={name: more for name, count in after.items() if (more := count - before.get(name, 0))},
            replica_mb=max(sample.resident_mb for sample in samplers[0].samples) / replicas,
        )


def s3_requests(stage: Stage) -> dict[str, int]:
    """How many requests MinIO has had since its start, by their names."""
    answer = requests.get(f"{stage.minio.endpoint_url}/minio/v2/metrics/cluster", timeout=30)
    answer.raise_for_status()
    found = re.findall(r'^minio_s3_requests_total\{api="(\w+)".*\} ([\d.e+]+)$', answer.text, re.MULTILINE)
    return {name: int(float(count)) for name, count in found}


@dataclass(frozen=True, slots=True)
class Window:
    """From ``begin`` to ``end``, in seconds since the epoch; ``rows`` of each writer in it, ``files`` at all times."""

    begin: float
    end: float
    rows: list[int]
    files: int

    @property
    def seconds(self) -> float:
        return self.end - self.begin


def _by_writer(table: Path, released: float) -> list[list[LandedFile]]:
    """The files that came in after this time, in their order, of each replica."""
    found: dict[str, list[LandedFile]] = {}
    for path in table.rglob("*.parquet"):
        named = _WRITER.search(path.name)
        file = landed_file(path)
        if named and file.time > released:
            found.setdefault(named[1], []).append(file)
    return [sorted(files) for files in found.values()]


def window_of(by_writer: Sequence[Sequence[LandedFile]], total: int) -> Window:
    """From when every replica had landed a file to when 95 % of all rows had landed.

    Args:
        by_writer: the files of each replica, in their order.
        total: rows at the end, with those that landed before these files.

    Raises:
        ServiceError: one is not after the other.
    """
    everything = sorted(file for files in by_writer for file in files)
    begin = max(files[0].time for files in by_writer)
    left = total - sum(file.rows for file in everything)  # landed before the shares were given
    landed, end = left, begin
    for file in everything:
        landed += file.rows
        if landed >= WARM_TO * total:
            end = file.time
            break
    if end <= begin:
        raise ServiceError("there were too few batches to tell a rate: take more messages")
    rows = [sum(file.rows for file in files if begin < file.time <= end) for files in by_writer]
    return Window(begin, end, rows, len(everything))


def _used(samples: Sequence[Usage], window: Window) -> float:
    return cpu_seconds_at(samples, window.end) - cpu_seconds_at(samples, window.begin)
