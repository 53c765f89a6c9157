"""``make bench-many-topics``: what 50 small topics cost in one process, beside one topic with as many messages.

A topic gets a message a second. The delay is from a message's sending to the moment when its file came into the store.
With ``--hostile`` one more topic gets messages that a hostile producer would send; the delays are those of the others,
beside those without it. With ``--iceberg`` the tables are Iceberg's, and a delay ends with the commit of the file.
"""

import argparse
import json
import statistics
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from io import BytesIO
from typing import cast

import pyarrow.parquet as pq
import requests
from confluent_kafka import Producer
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.catalog.rest import RestCatalog

from bench.avro import as_avro
from bench.command import interruptible, positive, services
from bench.messages import Workload, expected_totals
from bench.run import STANDSTILL_SECONDS
from bench.shared_rate import s3_requests
from bench.sinks.base import PREFIX
from bench.sinks.connector import ConnectorSink
from bench.stage import Place, Stage, Topic
from bench.totals import WrongRowsError
from bench.usage import usage
from dev.broker import QUIET
from dev.connector import Connector
from dev.machine import ServiceError, announce
from dev.server import free_ports

# Lists of objects with new names, a folder for each message, what is no JSON, Avro with ids that no schema has, and
# good messages for an Iceberg table of which somebody packs the lists of manifests.
HOSTILE: Mapping[str, Callable[[int], bytes]] = {
    "names": lambda number: json.dumps({"list": [{f"n{number}_{field}": 1} for field in range(1_100)]}).encode(),
    "folders": lambda number: json.dumps({"folder": f"folder-{number}"}).encode(),
    "junk": lambda number: b"junk %d" % number,
    "ids": lambda number: b"\0" + (1_000_000 + number).to_bytes(4) + b"junk",
    "manifests": lambda number: json.dumps({"number": number}).encode(),
}
HOSTILE_A_SECOND = 20
UNPACKED = 512 << 20  # bytes of a block that is appended to a list of manifests
REST_SECONDS = 40.0  # a commit interval: what was read at the start is in the lake


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds, processor time in parts of a core, memory in MB, and counts a minute with messages."""

    topics: int
    start: float
    idle_cores: float
    busy_cores: float
    resident_mb: float
    files: float
    requests: float
    half_within: float
    most_within: float  # 95 of 100
    stop: float


def main() -> int:
    """Measure; 0 when every row came out once, 1 when not, 130 when interrupted."""
    return interruptible(lambda: _run(_options()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.many_topics", description=__doc__)
    parser.add_argument("--topics", type=positive, default=50, help="(%(default)s)")
    parser.add_argument("--seconds", type=positive, default=90, help="of nothing, and of messages (%(default)s)")
    parser.add_argument(
        "--hostile", nargs="+", choices=HOSTILE, default=[], help="beside all topics, one kind after another"
    )
    parser.add_argument("--iceberg", action="store_true", help="Iceberg tables, also for the kind manifests")
    return parser.parse_args()


def _run(options: argparse.Namespace) -> int:
    with services(registry="ids" in options.hostile) as stage:
        runs = [(options.topics, kind) for kind in ("", *options.hostile)]
        for topics, hostile in runs if options.hostile else [(1, ""), *runs]:
            announce(f"{topics} topics, {options.topics} messages a second{hostile and f', beside hostile {hostile}'}")
            measured = _measure(stage, topics, options.topics, options.seconds, hostile, iceberg=options.iceberg)
            print(json.dumps(asdict(measured)))
    return 0


def _measure(stage: Stage, topics: int, a_second: int, seconds: int, hostile: str, *, iceberg: bool) -> Figures:
    names = [f"many-{topics}{hostile and f'-beside-{hostile}'}-{number}" for number in range(topics)]
    enemies = [f"hostile-{hostile}"] if hostile else []
    for name in names + enemies:
        stage.kafka.create_topic(name, 1)
    nothing = Workload(1, 1)
    (port,) = free_ports(1)
    variables = {
        "HTTP_PORT": str(port),
        "input": ",".join(names + enemies),
        "TABLE_NAME": "{topic}",
        "HIVE_COLUMNS": "folder",
        "TIMESTAMP_COLUMN": "",
    }
    message = _message
    if hostile == "ids":
        schema_id = stage.register(names[0], _message())
        variables |= {"KAFKA_VALUE_DESERIALIZER": "avro", "SCHEMA_REGISTRY_URL": stage.registry_url}
        message = partial(_avro_message, schema_id)
    sink = ConnectorSink("many-topics", "this connector", variables, iceberg=iceberg)
    with stage.place(sink.name, Topic(names[0], nothing, expected_totals(nothing))) as place:
        begin = time.monotonic()
        with sink.start(stage, place) as (connector,):
            _wait_until_ready(connector, port)
            start = time.monotonic() - begin
            for name in names:
                stage.kafka.produce(name, [(None, message(), None, 0)])
            time.sleep(REST_SECONDS)
            idle = _cores(connector, seconds)
            before, files = _requests(stage), len(_keys(stage, place))
            sender = threading.Thread(target=_send, args=(stage, names, message, a_second, seconds))
            sender.start()
            for enemy in enemies:
                threading.Thread(target=_attack, args=(stage, enemy, HOSTILE[hostile], seconds)).start()
                if hostile == "manifests":
                    threading.Thread(target=_pack_manifests, args=(stage, place, enemy, seconds)).start()
            busy = _cores(connector, seconds)
            asked = _requests(stage) - before
            written = len(_keys(stage, place)) - files
            memory = usage([connector.pid]).resident_mb
            sender.join()
            stopping = time.monotonic()
            try:
                connector.stop()
            except ServiceError:
                if hostile != "manifests":  # the enemy's table fails for good, so the run ends with that error's code
                    raise
            stop = time.monotonic() - stopping
        came = _commits(stage, place) if iceberg else _keys(stage, place)
        delays = list(_delays(stage, place, came))
    if len(delays) != topics + a_second * seconds:
        raise WrongRowsError(f"{len(delays):,} rows of {topics + a_second * seconds:,} messages")
    within = statistics.quantiles(delays, n=100)
    minutes = seconds / 60
    return Figures(topics, start, idle, busy, memory, written / minutes, asked / minutes, within[49], within[94], stop)


def _message() -> bytes:
    return json.dumps({"sent": time.time(), "value": 1.5}).encode()


def _avro_message(schema_id: int) -> bytes:
    ((_, value, _, _),) = as_avro([(None, _message(), None, 0)], schema_id)
    return cast("bytes", value)


def _attack(stage: Stage, topic: str, message: Callable[[int], bytes], seconds: int) -> None:
    producer, begin = Producer({"bootstrap.servers": stage.kafka.bootstrap_servers, **QUIET}), time.monotonic()
    for number in range(HOSTILE_A_SECOND * seconds):
        time.sleep(max(0.0, begin + number / HOSTILE_A_SECOND - time.monotonic()))
        producer.produce(topic, message(number))
        producer.poll(0)
    producer.flush()


def _pack_manifests(stage: Stage, place: Place, table: str, seconds: int) -> None:
    """Append a block that unpacks to far more than a container's memory to each list of manifests, as it appears."""
    client, packed, end = stage.minio.client(), set[str](), time.monotonic() + seconds
    packer = zlib.compressobj(wbits=-15)
    block = BytesIO()
    encoder = BinaryEncoder(block)
    encoder.write_int(1)  # entries
    encoder.write_bytes(packer.compress(bytes(UNPACKED)) + packer.flush())
    while time.monotonic() < end:
        listed = client.list_objects_v2(Bucket=place.name, Prefix=f"{PREFIX}/{table}/metadata/snap-").get(
            "Contents", []
        )
        for key in {item["Key"] for item in listed} - packed:
            body = client.get_object(Bucket=place.name, Key=key)["Body"].read()
            marker = body[-16:]  # ends each block
            client.put_object(Bucket=place.name, Key=key, Body=body + block.getvalue() + marker)
            packed.add(key)
        time.sleep(1.0)
    announce(f"{len(packed)} lists of manifests were packed")


def _send(stage: Stage, names: list[str], message: Callable[[], bytes], a_second: int, seconds: int) -> None:
    producer, begin = Producer({"bootstrap.servers": stage.kafka.bootstrap_servers, **QUIET}), time.monotonic()
    for number in range(a_second * seconds):
        time.sleep(max(0.0, begin + number / a_second - time.monotonic()))
        producer.produce(names[number % len(names)], message())
        producer.poll(0)
    producer.flush()


def _cores(connector: Connector, seconds: float) -> float:
    before = usage([connector.pid])
    time.sleep(seconds)
    after = usage([connector.pid])
    return (after.cpu_seconds - before.cpu_seconds) / (after.time - before.time)


def _requests(stage: Stage) -> int:
    return sum(s3_requests(stage).values())


def _keys(stage: Stage, place: Place) -> dict[str, float]:
    """The data files, with the times at which they came in."""
    pages = stage.minio.client().get_paginator("list_objects_v2").paginate(Bucket=place.name, Prefix=f"{PREFIX}/many-")
    items = (item for page in pages for item in page.get("Contents", []))
    return {item["Key"]: item["LastModified"].timestamp() for item in items if item["Key"].endswith(".parquet")}


def _wait_until_ready(connector: Connector, port: int) -> None:
    end = time.monotonic() + STANDSTILL_SECONDS
    while True:
        connector.check_running()
        with suppress(requests.ConnectionError):
            if requests.get(f"http://127.0.0.1:{port}/health/ready", timeout=10).ok:
                return
        if time.monotonic() > end:
            raise connector.failure("is not ready")
        time.sleep(0.1)


def _commits(stage: Stage, place: Place) -> dict[str, float]:
    """The data files in the Iceberg tables, with the times of the commits that added them."""
    catalog = RestCatalog("bench", uri=stage.catalog().url, **stage.catalog().storage)
    times: dict[str, float] = {}
    for name in catalog.list_tables(place.name):
        if not name[-1].startswith("many-"):
            continue
        table = catalog.load_table(name)
        seconds = {snapshot.snapshot_id: snapshot.timestamp_ms / 1000 for snapshot in table.snapshots()}
        for entry in table.inspect.entries().select(["snapshot_id", "data_file"]).to_pylist():
            key = entry["data_file"]["file_path"].removeprefix(f"s3://{place.name}/")
            times[key] = seconds[entry["snapshot_id"]]
    return times


def _delays(stage: Stage, place: Place, times: Mapping[str, float]) -> Iterator[float]:
    client = stage.minio.client()
    for key, came in times.items():
        body = client.get_object(Bucket=place.name, Key=key)["Body"].read()
        for sent in pq.ParquetFile(BytesIO(body)).read(["sent"])["sent"].to_pylist():
            yield came - sent


if __name__ == "__main__":
    sys.exit(main())
