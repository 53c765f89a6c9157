"""``make bench-self-compaction``: what COMPACT takes from the connector: of its rate at full speed, and of its delay.

Each run has a table with small files in MinIO, and begins so that the connector is at work when a minute begins. With
``COMPACT=1m`` the compaction begins then, and lasts longer than the run. It says how many small files are gone.
"""

import argparse
import shutil
import statistics
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from itertools import islice, product
from operator import attrgetter
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from bench.calm import delays
from bench.command import interruptible, positive, services
from bench.lake import check_table, download, landed_files
from bench.messages import Workload, expected_totals, records
from bench.run import wait_for_rows
from bench.sinks.base import PREFIX, TABLE, table_in
from bench.sinks.connector import ConnectorSink
from bench.stage import Place, Stage, Topic
from bench.timeline import LandedFile
from bench.totals import WrongRowsError
from dev.connector import Connector
from dev.machine import announce

FOLDERS, FILES, ROWS = 300, 20, 500  # small files
OLD = "year=2000"
PARTITIONS = 8
START_SECONDS = 20.0  # from a connector's start to a warm Java
WINDOW_SECONDS = (5.0, 65.0)  # after the beginning of the minute, where the rate is measured
DELAY_SECONDS = 80
_Result = TypeVar("_Result")
KINDS: Mapping[str, Mapping[str, str]] = {"without": {}, "with": {"COMPACT": "1m"}}


@dataclass(frozen=True, slots=True)
class Figures:
    """Rows a second; seconds from sending to commit, of one half of the messages and of 99 of 100."""

    rate: float
    half_within: float
    most_within: float


def main() -> int:
    """Measure; 0 when every row came out as it went in, 1 when not, 130 when interrupted."""
    return interruptible(lambda: _run(_options()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.self_compaction", description=__doc__)
    parser.add_argument("--messages", type=positive, default=24_000_000, help="at full speed (%(default)s)")
    parser.add_argument("--rounds", type=positive, default=3, help="(%(default)s)")
    parser.add_argument("--a-second", type=positive, default=5_000, help="messages, for the delay (%(default)s)")
    return parser.parse_args()


def _run(options: argparse.Namespace) -> int:
    found: dict[str, list[Figures]] = {kind: [] for kind in KINDS}
    with services() as stage:
        topic = stage.topic(Workload(options.messages, PARTITIONS))
        for _, (kind, variables) in product(range(options.rounds), KINDS.items()):
            rate = _rate(stage, topic, variables)
            half, most = _delays(stage, options.a_second, variables)
            found[kind].append(Figures(rate, half, most))
            announce(f"{kind} COMPACT: {rate:,.0f} rows a second; half within {half:.2f} s, 99 % within {most:.2f} s")
    for name in Figures.__dataclass_fields__:
        without, with_ = ([getattr(each, name) for each in found[kind]] for kind in KINDS)
        ratios = [there / here for there, here in zip(with_, without, strict=True)]
        print(
            f"{name}: {statistics.median(without):,.2f} without, {statistics.median(with_):,.2f} with, "
            f"ratios {', '.join(f'{ratio:.3f}' for ratio in ratios)}, median {statistics.median(ratios):.3f}"
        )
    return 0


def _rate(stage: Stage, topic: Topic, variables: Mapping[str, str]) -> float:
    def consume(place: Place, connector: Connector, minute: float) -> float:
        wait_for_rows(ConnectorSink("", ""), stage, place, [connector], topic.messages)
        if time.time() < minute + WINDOW_SECONDS[1]:
            raise WrongRowsError(f"{topic.messages:,} messages were too few")
        return minute

    minute, files = _at_work(stage, topic, variables, consume)
    begin, end = (minute + seconds for seconds in WINDOW_SECONDS)
    return (_landed(files, end) - _landed(files, begin)) / (end - begin)


def _landed(files: Sequence[LandedFile], moment: float) -> float:
    """The rows that had landed by then; between two files as many as their distance in time has it."""
    after = bisect_left(files, moment, key=attrgetter("time"))
    before, next_ = files[after - 1], files[after]
    rows = sum(file.rows for file in files[:after])
    return rows + next_.rows * (moment - before.time) / (next_.time - before.time)


def _delays(stage: Stage, a_second: int, variables: Mapping[str, str]) -> tuple[float, float]:
    workload = Workload(a_second * DELAY_SECONDS, PARTITIONS)
    topic = Topic(f"{workload.name}-{time.time_ns()}", workload, expected_totals(workload))
    stage.kafka.create_topic(topic.name, PARTITIONS)
    readings = records(workload)
    stage.kafka.produce(topic.name, islice(readings, a_second))

    def consume(place: Place, connector: Connector, minute: float) -> list[float]:
        time.sleep(max(0.0, minute + WINDOW_SECONDS[0] - time.time()))
        return delays(stage, place, connector, readings, a_second)

    found, _ = _at_work(stage, topic, {"COMMIT_INTERVAL": "1", **variables}, consume)
    percentiles = statistics.quantiles(found, n=100)
    return percentiles[49], percentiles[98]


def _at_work(
    stage: Stage,
    topic: Topic,
    variables: Mapping[str, str],
    consume: Callable[[Place, Connector, float], _Result],
) -> tuple[_Result, list[LandedFile]]:
    """Let a connector consume beside small files, from before a minute begins; returns its files too, checked."""
    sink = ConnectorSink("compacting" if "COMPACT" in variables else "alone", "", variables)
    with stage.place(sink.name, topic) as place:
        _fill(stage, place)
        minute = 60.0 * ((time.time() + START_SECONDS + 60.0) // 60.0)
        time.sleep(max(0.0, minute - START_SECONDS - time.time()))
        with sink.start(stage, place) as (connector,):
            result = consume(place, connector, minute)
        lake = table_in(place.folder / "lake")
        download(stage.minio, place.name, place.folder / "lake")
        small = landed_files(lake / OLD)
        if sum(file.rows for file in small) != FOLDERS * FILES * ROWS:
            raise WrongRowsError("the small files have other rows than before")
        if ("compact: begins" in place.log.read_text()) != ("COMPACT" in variables):
            raise WrongRowsError("the compaction has begun by itself, or has not begun")
        announce(f"{FOLDERS * FILES - len(small):,} fewer small files")
        shutil.rmtree(lake / OLD)
        return result, check_table(lake, topic.expected)


def _fill(stage: Stage, place: Place) -> None:
    client = stage.minio.client()

    def put(number: int) -> None:
        folder, file = divmod(number, FILES)
        first = number * ROWS
        numbers = pa.array(range(first, first + ROWS))
        body = BytesIO()
        pq.write_table(pa.table({"ts_ms": numbers, "seq": numbers, "temperature": numbers.cast("double")}), body)
        key = f"{PREFIX}/{TABLE}/{OLD}/month=01/day=01/location=old-{folder:04}/{file:04}.parquet"
        client.put_object(Bucket=place.name, Key=key, Body=body.getvalue())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(FOLDERS * FILES)))


if __name__ == "__main__":
    sys.exit(main())
