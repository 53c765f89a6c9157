"""``make demo``: sensor readings through a private Kafka and the real connector into a lake in a local folder."""

import os
import shlex
import shutil
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import NoReturn

from app.spark.java_process import EXTRA_OPTIONS, ONE_COMPILER
from dev.broker import Record
from dev.connector import REPO, Connector
from dev.java import find_java
from dev.kafka import LocalKafka
from dev.lake import RowCounter, partition_tree, query, table_source
from dev.machine import ServiceError
from dev.parsed_classes import kept_archive
from dev.readings import DAYS, DEVICES_PER_PLACE, PLACES, Reading, readings
from dev.server import free_ports

COUNT = 20_000
TOPIC = "sensor-data"
PARTITIONS = 3
LAKE = REPO / "demo-lake"
TABLE = LAKE / "data" / "sensors"
MARKER = LAKE / ".made-by-the-demo"
LOG = REPO / ".cache" / "demo" / "connector.log"
DEADLINE = 300.0  # seconds for all rows; an idle laptop takes about ten, Spark's start included


class PlainTable:
    """The demo's table as files in folders."""

    settings: Mapping[str, str] = {}  # of the connector, besides those of every demo
    servers: Mapping[str, str] = {}  # that run, besides Kafka
    asked_with = "DuckDB"

    @property
    def source(self) -> str:
        """The table in a query."""
        return table_source(Path(shown(TABLE)))

    def query(self, sql: str) -> list[tuple[object, ...]]:
        """All rows of the query."""
        return query(sql)

    def compact(self) -> str | None:
        """Make few files out of many, and tell what was done; ``None`` if this kind of table has no such thing."""
        return None

    def one_liner(self) -> str:
        """Code of Python that asks once more, when all servers are gone."""
        read = f'duckdb.read_parquet("{shown(TABLE)}/**/*.parquet", union_by_name=True)'
        return f'import duckdb; print({read}.aggregate("status, count(*)"))'


def main(run: Callable[[], int]) -> int:
    """Run a demo; 0 when every reading is in the lake exactly once, 1 when not, 130 when interrupted."""
    signal.signal(signal.SIGTERM, _interrupt)  # by default it would leave Kafka and the connector behind
    try:
        return run()
    except ServiceError as error:
        print(f"\nThe demo cannot go on: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; everything that was started is stopped.", file=sys.stderr)
        return 130


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def demo(table: PlainTable) -> int:
    """Run the demo with this kind of table; see ``main``."""
    find_java()
    _empty_lake()
    produced = list(readings(COUNT))
    print("Quix TS Datalake Sink: from a Kafka topic to a data lake\n", flush=True)
    for what, value in table.servers.items():
        _say(what, value)
    with LocalKafka() as kafka:
        _say("Kafka", f"{kafka.bootstrap_servers}, a single node of our own")
        kafka.create_topic(TOPIC, PARTITIONS)
        kafka.produce(TOPIC, _records(produced))
        rows_in = kafka.count(TOPIC)
        devices = DEVICES_PER_PLACE * len(PLACES)
        _say("Produced", f"{rows_in:,} readings of {devices} devices in {len(PLACES)} places over {DAYS} days")
        _say("", f"to topic {TOPIC}, {PARTITIONS} partitions")
        _sink(table, kafka.bootstrap_servers, rows_in)
    _show_tree()
    _show_query(table)
    print()
    _say("Rows in", f"{rows_in:>7,}")
    same = _compare(table, produced)
    if compacted := table.compact():
        _say("Compacted", compacted)
        same = _compare(table, produced) and same
    _say("The lake", str(LAKE))
    _say("Try", f"{shown(Path(sys.executable))} -c '{table.one_liner()}'")
    return 0 if same and rows_in == len(produced) else 1


def _empty_lake() -> None:
    """Start with an empty folder; what the demo did not make itself is not deleted."""
    if LAKE.exists():
        if any(LAKE.iterdir()) and not MARKER.exists():
            raise ServiceError(f"{LAKE} holds something that the demo did not make. Move it away")
        shutil.rmtree(LAKE)
    LAKE.mkdir()
    MARKER.touch()


def _records(produced: list[Reading]) -> Iterator[Record]:
    return ((reading.device, reading.to_json(), reading.ts_ms, None) for reading in produced)


def _sink(table: PlainTable, bootstrap_servers: str, rows_in: int) -> None:
    """Run the connector until all rows are in the lake, then stop it."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    settings = {
        "KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers,
        "input": TOPIC,
        "AUTO_OFFSET_RESET": "earliest",
        "CONSUMER_GROUP": f"demo-{uuid.uuid4()}",
        "STORAGE_URL": f"file://{LAKE}",
        "TABLE_NAME": TABLE.name,
        "HIVE_COLUMNS": "location,year,month,day",
        "BATCH_SIZE": "5000",
        "COMMIT_INTERVAL": "2",
        "HTTP_PORT": str(free_ports(1)[0]),
        EXTRA_OPTIONS: shlex.join([ONE_COMPILER, *kept_archive()]),
        **table.settings,
    }
    started = time.monotonic()
    with Connector(settings, LOG) as connector:
        _say("Connector", f"python main.py, its log is {shown(LOG)}")
        _wait_for_rows(connector, rows_in, started)
        stopping = time.monotonic()
        connector.stop()
        _say("Stopped", f"by SIGTERM, in {time.monotonic() - stopping:.1f} s")


def _wait_for_rows(connector: Connector, rows_in: int, started: float) -> None:
    counter = RowCounter(TABLE)
    progress = Progress(rows_in, started)
    while (rows := counter.count()) < rows_in:
        connector.check_running()
        if time.monotonic() - started > DEADLINE:
            raise connector.failure(f"has brought {rows:,} of {rows_in:,} rows to the lake in {DEADLINE:.0f} s")
        progress.show(rows)
        time.sleep(0.2)
    progress.finish(rows)


class Progress:
    """One line that keeps itself up to date on a terminal; elsewhere a line whenever there is news.

    Args:
        total: rows that are expected.
        started: the monotonic clock at the start, in seconds.
    """

    def __init__(self, total: int, started: float) -> None:
        self._total = total
        self._started = started
        self._shown = -1
        self._live = sys.stdout.isatty()

    def show(self, rows: int) -> None:
        if self._live or rows != self._shown:
            self._print(rows, "\r" if self._live else "\n")

    def finish(self, rows: int) -> None:
        self._print(rows, "\n")

    def _print(self, rows: int, end: str) -> None:
        self._shown = rows
        width = 24
        filled = min(width, width * rows // self._total)
        bar = "█" * filled + "░" * (width - filled)
        seconds = time.monotonic() - self._started
        what = f"{rows:>6,} of {self._total:,} rows" if rows else "Spark is starting     "
        print(f"  {'In the lake':<12}{bar} {what} {seconds:5.1f} s", end=end, flush=True)


def _show_tree() -> None:
    print(f"\n{shown(TABLE)}")
    for line in partition_tree(TABLE):
        print(line)


def _show_query(table: PlainTable) -> None:
    lines = (
        "SELECT location, year, month, day, count(*) AS readings,",
        "       round(avg(temperature), 1) AS mean, min(temperature) AS lowest, max(temperature) AS highest",
        f"FROM {table.source}",
        "GROUP BY ALL ORDER BY ALL",
    )
    print(f"\nAsked with {table.asked_with}:\n")
    for line in lines:
        print(f"  {line}")
    print("\n  location  year  month  day  readings   mean  lowest  highest")
    for location, year, month, day, count, mean, lowest, highest in table.query("\n".join(lines)):
        print(f"  {location:<8}  {year}  {month:>5}  {day:>3}  {count:>8,}  {mean:>5}  {lowest:>6}  {highest:>7}")


def _compare(table: PlainTable, produced: list[Reading]) -> bool:
    """Compare the lake with what was produced, value by value, and tell the result."""
    columns = "ts_ms, device, location, temperature, humidity, status, battery"
    found = table.query(f"SELECT {columns} FROM {table.source} ORDER BY ts_ms, device")  # noqa: S608 - our words
    sent = [tuple(getattr(reading, column) for column in columns.split(", ")) for reading in produced]
    same = found == sent
    _say("Rows out", f"{len(found):>7,}")
    _say("Compared", "every row is there once, with all its values" if same else _difference(sent, found))
    return same


def _difference(sent: list[tuple[object, ...]], found: list[tuple[object, ...]]) -> str:
    missing, unexpected = Counter(sent) - Counter(found), Counter(found) - Counter(sent)
    return f"{missing.total():,} rows are missing, {unexpected.total():,} are too many or other than produced"


def _say(what: str, value: str) -> None:
    print(f"  {what:<12}{value}", flush=True)


def shown(path: Path) -> str:
    """The path as one would type it here."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


if __name__ == "__main__":
    sys.exit(main(lambda: demo(PlainTable())))
