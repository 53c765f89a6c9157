"""``make bench-calm``: what the connector costs with nothing to do, and the delay of a hundred messages a second."""

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import requests

from bench.command import RESULTS, interruptible, positive, services
from bench.lake import check_table, download
from bench.machine import facts
from bench.messages import Workload, expected_totals, records
from bench.run import STANDSTILL_SECONDS, wait_for_rows
from bench.sinks.base import table_in
from bench.sinks.connector import ConnectorSink
from bench.stage import CommittedOffsets, Place, Stage, Topic
from bench.tables import document, paragraph, table
from bench.usage import usage
from dev.broker import Record
from dev.connector import Connector
from dev.machine import announce
from dev.server import free_ports

VARIABLES = {"BATCH_SIZE": "1000", "COMMIT_INTERVAL": "1"}
PARTITIONS = 4
RATE = 100  # messages a second
FIRST = 500  # at once, for the connector's first batch takes longer than all others
REST_SECONDS = 10.0  # what the first batch has left to be done: compilers, threads that end
LOOK_SECONDS = 0.02
SCRAPE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Calm:
    """What was measured.

    Attributes:
        idle_cores, watched_cores, busy_cores: processor time of the connector, Java's included, per second: with
            nothing to do, the same with metrics on ``HTTP_PORT`` that are asked for, and with the messages.
        half_within, most_within, all_within: seconds from a message's sending until its offset was committed, of one
            half of them, of 99 of 100, and of all.
    """

    idle_cores: float
    watched_cores: float
    busy_cores: float
    half_within: float
    most_within: float
    all_within: float


def main() -> int:
    """Measure; 0 when every row came out as it went in, 1 when not, 130 when interrupted."""
    return interruptible(lambda: _run(_options()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.calm", description=__doc__)
    parser.add_argument("--seconds", type=positive, default=60, help="of nothing, and of messages (%(default)s)")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder for the results (%(default)s)")
    return parser.parse_args()


def _run(options: argparse.Namespace) -> int:
    machine = facts()
    with services() as stage:
        calm = _measure(stage, options.seconds)
    date = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    text = _as_markdown(date, calm)
    print(text)
    options.output.mkdir(parents=True, exist_ok=True)
    data = {"date": date, "machine": machine, "variables": VARIABLES, **asdict(calm)}
    (options.output / "calm.json").write_text(json.dumps(data, indent=2) + "\n")
    (options.output / "calm.md").write_text(text)
    return 0


def _measure(stage: Stage, seconds: int) -> Calm:
    workload = Workload(FIRST + RATE * seconds, PARTITIONS)
    stage.kafka.create_topic(workload.name, PARTITIONS)
    topic = Topic(workload.name, workload, expected_totals(workload))
    readings = records(workload)
    stage.kafka.produce(topic.name, islice(readings, FIRST))
    (port,) = free_ports(1)
    with _at_rest(stage, topic, {"HTTP_PORT": str(port)}) as (_, connector):
        announce(f"Nothing for {seconds} s, and metrics asked for every {SCRAPE_SECONDS:.0f} s")
        watched = _cores(connector.pid, lambda: _scrape(port, seconds))
    with _at_rest(stage, topic, {}) as (place, connector):
        announce(f"Nothing for {seconds} s")
        idle = _cores(connector.pid, lambda: time.sleep(seconds))
        announce(f"{RATE} messages a second for {seconds} s")
        found: list[float] = []
        busy = _cores(connector.pid, lambda: found.extend(delays(stage, place, connector, readings, RATE)))
        folder = place.folder / "lake"
        download(stage.minio, place.name, folder)
        check_table(table_in(folder), topic.expected)
    percentiles = statistics.quantiles(found, n=100)
    return Calm(idle, watched, busy, percentiles[49], percentiles[98], max(found))


@contextmanager
def _at_rest(stage: Stage, topic: Topic, more: Mapping[str, str]) -> Iterator[tuple[Place, Connector]]:
    """A connector that has written the first messages and warmed up by that."""
    sink = ConnectorSink("watched" if more else "calm", "this connector", {**VARIABLES, **more})
    with stage.place(sink.name, topic) as place, sink.start(stage, place) as (connector,):
        wait_for_rows(sink, stage, place, [connector], FIRST)
        time.sleep(REST_SECONDS)
        yield place, connector


def _scrape(port: int, seconds: int) -> None:
    """As Prometheus does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        requests.get(f"http://127.0.0.1:{port}/metrics", timeout=10).raise_for_status()
        time.sleep(min(SCRAPE_SECONDS, max(0.0, end - time.monotonic())))


def _cores(pid: int, wait: Callable[[], object]) -> float:
    before = usage([pid])
    wait()
    after = usage([pid])
    return (after.cpu_seconds - before.cpu_seconds) / (after.time - before.time)


def delays(stage: Stage, place: Place, connector: Connector, readings: Iterator[Record], a_second: int) -> list[float]:
    """Send the readings at an even pace, and see when each is committed.

    Raises:
        ServiceError: the connector has ended, or has stopped committing.
    """
    sent: list[list[float]] = [[] for _ in range(place.topic.partitions)]
    with closing(CommittedOffsets(stage, place)) as offsets:
        begin = offsets.by_partition()
        sender = threading.Thread(target=stage.kafka.produce, args=(place.topic.name, _paced(readings, sent, a_second)))
        sender.start()
        found: list[float] = []
        seen, moved = list(begin), time.monotonic()
        while sum(seen) < place.topic.messages:
            time.sleep(LOOK_SECONDS)
            connector.check_running()
            if time.monotonic() > moved + STANDSTILL_SECONDS:
                raise connector.failure(f"has committed nothing for {STANDSTILL_SECONDS:.0f} s")
            committed, now = offsets.by_partition(), time.monotonic()
            for partition, (first, last) in enumerate(zip(seen, committed, strict=True)):
                times = sent[partition][first - begin[partition] : last - begin[partition]]
                found += [now - moment for moment in times]
            moved = now if committed != seen else moved
            seen = committed
        sender.join()
    return found


def _paced(readings: Iterator[Record], sent: Sequence[list[float]], a_second: int) -> Iterator[Record]:
    begin = time.monotonic()
    for number, reading in enumerate(readings):
        time.sleep(max(0.0, begin + number / a_second - time.monotonic()))
        sent[reading[3] or 0].append(time.monotonic())
        yield reading


def _as_markdown(date: str, calm: Calm) -> str:
    rows = [
        ["processor time with nothing to do", f"{100 * calm.idle_cores:.2f} % of a core"],
        [f"the same, metrics read every {SCRAPE_SECONDS:.0f} s", f"{100 * calm.watched_cores:.2f} % of a core"],
        [f"processor time at {RATE} messages a second", f"{100 * calm.busy_cores:.1f} % of a core"],
        ["from a message's sending to its commit, half of them within", f"{calm.half_within:.2f} s"],
        ["99 of 100 within", f"{calm.most_within:.2f} s"],
        ["all within", f"{calm.all_within:.2f} s"],
    ]
    told = ", ".join(f"`{name}={value}`" for name, value in VARIABLES.items())
    head = ["# What little costs", "", *paragraph(f"{date}, {told}, {PARTITIONS} partitions.")]
    return document([iter(head), table(["", ""], rows)])


if __name__ == "__main__":
    sys.exit(main())
