"""The connector in a thread of the tests: all of it is real but Spark, and it can be looked at and disturbed inside.

    with Place(kafka, tmp_path) as place:
        connector = place.connector(BATCH_SIZE="10")
        place.produce(100)
        connector.wait_until(lambda: place.committed() == [100])
        connector.stop()
        place.assert_whole(range(100))

Several connectors at once are several members of the consumer group.
"""

import dataclasses
import json
import logging
import tempfile
import threading
import types
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Self, TypeVar

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from quixstreams import Application
from quixstreams.app import ApplicationConfig
from quixstreams.dataframe import StreamingDataFrame

import app.service.lake
import app.service.plain_lane
import app.service.run
from app.config.settings import Settings
from app.consumer.framework.sink import RowSink
from app.consumer.plain.client import new_client
from app.consumer.plain.loop import PlainLoop
from app.delivery.runtime import Runtime
from app.journal.entry import group_folder, is_log, log_key
from app.monitoring.metrics import Metrics
from app.monitoring.status import Consumption
from app.service.connector import Connector, Lane
from app.service.process import Process
from app.service.user_transform import Customised, load_customised
from app.spark.scratch import scratch_folder
from app.storage.base import ObjectStore
from app.table.layout import journal_folder
from app.timings import Timings
from dev.broker import QUIET, Broker, Record
from tests.fakes.ready_writer import ReadyWriter
from tests.services.groups import committed_offsets
from tests.support.environment import load
from tests.support.waiting import join, wait_until

# A busy machine expels nobody.
_OF_CLIENT = {"session.timeout.ms": 30_000, "max.poll.interval.ms": 60_000, "log_level": 0}
_TICKS = {"statistics.interval.ms": 100}
CONSUMER = "connector"  # the name of the thread on which a connector consumes
FAST = Timings(
    start_patience_seconds=0.0,
    gather_seconds=0.0,
    flush_seconds=20.0,
    revoke_seconds=10.0,  # below a fifth of what the consumer may not poll
    look_seconds=0.02,
    first_suspension_seconds=0.2,
    longest_suspension_seconds=1.0,
    first_retry_seconds=0.02,
    longest_retry_seconds=0.1,
)
_HERE = threading.local()

Transform = Callable[..., StreamingDataFrame]
_T = TypeVar("_T")


class Crashed(BaseException):
    """The process is gone: nothing of ours on the way must take it for an error that it can deal with."""


class ConnectorThread:
    """One life of the connector.

    A test may set ``in_turn``, called on the consumer's thread as each turn of its loop begins, ``in_tick``, the same
    of the framework's lane, and ``before_commit``, called once rows are in the lake and quixstreams is about to commit.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        timings: Timings,
        store: ObjectStore | None = None,
        transform: Transform | None = None,
        kafka: Mapping[str, Any] = types.MappingProxyType({}),
    ) -> None:
        self.settings = settings
        self.timings = timings
        self.store = store
        self.transform = transform
        self.kafka = kafka
        self.in_turn: Callable[[], object] = lambda: None
        self.in_tick: Callable[[], object] = lambda: None
        self.before_commit: Callable[[], object] = lambda: None
        self.error: BaseException | None = None
        self.lane: Lane | None = None
        self.is_heard: Callable[[Any], bool] = lambda _: False
        self.assigned: set[int] | None = None  # in the framework's lane, which claims at a flush
        self.count_waiting: Callable[[], int] = lambda: 0  # in the framework's sink
        self._thread = threading.Thread(target=self._live, name=CONSUMER, daemon=True)
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    @property
    def partitions(self) -> set[int]:
        """The partitions that it consumes: assigned, and in the plain lane claimed."""
        if self.assigned is not None:
            return self.assigned
        return {tp.partition for tp in set(self._now.tps) - set(self._now.unclaimed)} if self.lane else set()

    @property
    def waiting_rows(self) -> int:
        return self.count_waiting() + self.lane.members.all[0].pipeline.gathering.size.records if self.lane else 0

    @property
    def is_waiting(self) -> bool:
        return bool(self.lane and self.lane.members.runtime.metrics.waits.current())

    @property
    def is_paused(self) -> bool:
        return bool(self.lane and (self._now.is_paused or self.lane.members.all[0].flow.obstacle))

    @property
    def _now(self) -> Consumption:
        assert self.lane is not None
        return self.lane.consumption()

    def wait_until(self, happened: Callable[[], object], what: str = "it") -> None:
        def look() -> bool:
            has_ended = self.has_ended  # asked first: what is its last deed must not be missed
            is_it = bool(happened())
            if has_ended and not is_it:
                raise AssertionError(f"ended before: {what}") from self.error
            return is_it

        wait_until(look, what)

    def wait_until_consuming(self, *partitions: int) -> None:
        """Wait until these partitions, or any, are assigned, claimed and admitted."""
        self.wait_until(
            lambda: self.partitions == set(partitions) if partitions else self.partitions, "partitions to consume"
        )

    def stop(self) -> None:
        """Stop it as a signal does; it must come to a good end."""
        self.end()
        if self.error is not None:
            raise AssertionError("it was stopped, and failed") from self.error

    def end(self) -> BaseException | None:
        """Stop it as a signal does, whatever comes of it; the error that it ends with."""
        self.wait_until(lambda: self.lane is not None, "its start")
        assert self.lane is not None
        self.lane.stop()
        return self.wait()

    def crash(self) -> None:
        """End it where it stands: nothing is flushed, nothing committed."""
        if self.lane is None or self.has_ended:
            return
        self.in_turn = _crash
        self.lane.members.fail(Crashed())  # type: ignore[arg-type] # met by a flush that waits
        self.wait()

    def crash_before_commit(self, happened: Callable[[], object]) -> None:
        """End it between the log and the commit, once this has happened."""
        self.before_commit = lambda: _crash() if happened() else None
        self.wait()

    def wait(self) -> BaseException | None:
        join(self._thread)
        return self.error

    def _live(self) -> None:
        _HERE.connector = self
        with ExitStack() as ends:
            metrics, scratch = Metrics(timings=self.timings), ends.enter_context(scratch_folder())
            runtime = Runtime(scratch, metrics, self.timings, self.settings.max_write_workers)
            spark: Any = ReadyWriter()
            try:
                app.service.run.consume(self.settings, runtime, spark, Process(lambda: None, ends))
            except BaseException as error:  # noqa: BLE001 - the test looks at it
                self.error = error


def answered(future: "Future[_T]") -> _T:
    wait_until(future.done, "an answer of Kafka")
    return future.result()


def current() -> ConnectorThread:
    """The connector on whose thread this is called."""
    here: ConnectorThread = _HERE.connector
    return here


def _crash() -> None:
    raise Crashed


class _Connector(Connector):
    def run(self, lane: Lane) -> None:
        current().lane = lane
        super().run(lane)


def _new_client(config: ApplicationConfig, properties: Mapping[str, Any]) -> Consumer:
    return new_client(config, {**properties, **_OF_CLIENT, **current().kafka})


def _customised() -> Customised:
    loaded, transform = load_customised(), current().transform
    return dataclasses.replace(loaded, transform=transform) if transform else loaded


class _Application(Application):
    def __init__(self, **arguments: Any) -> None:
        self._connector = current()
        self._connector.assigned = set()
        arguments["consumer_extra_config"] |= _OF_CLIENT | _TICKS | dict(self._connector.kafka)
        super().__init__(**arguments)

    def _setup_signal_handlers(self) -> None:
        """Only the main thread may."""

    def _process_message(self, dataframe_composed: Any) -> None:
        self._connector.in_turn()
        super()._process_message(dataframe_composed)  # type: ignore[no-untyped-call]

    def _on_assign(self, consumer: Any, topic_partitions: list[TopicPartition]) -> None:
        super()._on_assign(consumer, topic_partitions)
        self._connector.assigned = {tp.partition for tp in topic_partitions}

    def _on_revoke(self, consumer: Any, topic_partitions: list[TopicPartition]) -> None:
        super()._on_revoke(consumer, topic_partitions)
        self._connector.assigned = set()

    def _on_lost(self, consumer: Any, topic_partitions: list[TopicPartition]) -> None:
        super()._on_lost(consumer, topic_partitions)
        self._connector.assigned = set()


class _RowSink(RowSink):
    def __init__(self, *parts: Any, **others: Any) -> None:
        self._connector = current()
        self._connector.count_waiting = self._count_waiting
        super().__init__(*parts, **others)

    def _count_waiting(self) -> int:
        return sum(len(each.rows) + len(each.rejected) for each in self._processed.by_tp.copy().values())

    def flush(self) -> None:
        super().flush()
        self._connector.before_commit()

    def tick(self, *, is_stable: bool) -> None:
        self._connector.in_tick()
        super().tick(is_stable=is_stable)


class _PlainLoop(PlainLoop):
    def __init__(self, *parts: Any) -> None:
        self._connector = current()
        super().__init__(*parts)

    def _turn(self) -> None:
        self._connector.in_turn()
        super()._turn()


class Place:
    """A topic, a consumer group and a table in the folder's ``lake``, and the connectors that work on them."""

    def __init__(self, kafka: Broker, folder: Path, monkeypatch: pytest.MonkeyPatch, partitions: int = 1) -> None:
        self.kafka = kafka
        self.folder = folder
        self.partitions = partitions
        self.topic = f"readings-{uuid.uuid4().hex[:8]}"
        self.group = f"group-{uuid.uuid4().hex[:8]}"
        self.produced = 0
        self.timings = FAST
        self.transform: Transform | None = None
        self._connectors: list[ConnectorThread] = []
        kafka.create_topic(self.topic, partitions)
        for name, value in {
            "app.service.run.new_store": lambda settings: current().store or app.service.lake.new_store(settings),
            "app.service.run.load_customised": _customised,
            "app.service.run.Connector": _Connector,
            "app.service.framework_lane.Application": _Application,
            "app.service.framework_lane.RowSink": _RowSink,
            "app.service.framework_lane._restoring_signal_handlers": lambda: lambda: None,  # no main thread
            "app.service.plain_lane.PlainLoop": _PlainLoop,
            "app.service.plain_lane.new_client": _new_client,
        }.items():
            monkeypatch.setattr(name, value)
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        logging.getLogger("quixstreams").propagate = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connector in self._connectors:
            connector.crash()

    # --- connectors -------------------------------------------------------------------------------------------------

    def connector(
        self,
        *bases: Mapping[str, str],
        store: ObjectStore | None = None,
        transform: Transform | None = None,
        kafka: Mapping[str, Any] = types.MappingProxyType({}),
        timings: Timings | None = None,
        **variables: str,
    ) -> ConnectorThread:
        """Start a connector with the place's topic, group and folder, and what is given."""
        settings = {
            "input": self.topic,
            "KAFKA_BOOTSTRAP_SERVERS": self.kafka.bootstrap_servers,
            "CONSUMER_GROUP": self.group,
            "AUTO_OFFSET_RESET": "earliest",
            "COMMIT_INTERVAL": "0.2",
            "STORAGE_URL": self.store_folder.as_uri(),
            "TABLE_NAME": "readings",
            "MAX_BUFFER_MB": "8",
            "HTTP_PORT": "0",
        }
        for base in bases:
            settings |= base
        made = ConnectorThread(
            load(settings | variables),
            timings=timings or self.timings,
            store=store,
            transform=transform or self.transform,
            kafka=kafka,
        )
        self._connectors.append(made)
        return made

    def write(self, count: int, *committed: int, **variables: str) -> None:
        """Produce so many records and let a connector write them, to its good end."""
        connector = self.connector(variables)
        connector.wait_until_consuming()
        self.produce(count)
        self.finish(connector, *committed)

    def finish(self, connector: ConnectorThread, *committed: int) -> None:
        """Wait until these offsets are committed, and stop the connector."""
        self.wait_until_committed(*committed, by=connector)
        connector.stop()

    # --- the topic and the group ------------------------------------------------------------------------------------

    def produce(self, count: int, partition: int | None = None, size: int = 0) -> None:
        """Produce records, each with the next number, into one partition or evenly into all; ``size`` pads them."""
        first, self.produced = self.produced, self.produced + count

        def records() -> Iterable[Record]:
            for n in range(first, first + count):
                value = json.dumps({"n": n, "ts_ms": 1_704_067_200_000 + n, "pad": "x" * size})
                yield "key", value, None, n % self.partitions if partition is None else partition

        self.kafka.produce(self.topic, records())

    def make_anew(self) -> None:
        admin = self._admin()
        answered(admin.delete_topics([self.topic])[self.topic])
        wait_until(lambda: self.topic not in admin.list_topics(timeout=30).topics, "the end of the topic")
        self.kafka.create_topic(self.topic, self.partitions)

    def committed(self, group: str = "") -> list[int]:
        """The offsets that the group has committed, by partition; -1 where it has none."""
        return [max(-1, offset) for offset in committed_offsets(self.kafka, group or self.group, self._tps())]

    def commit(self, *offsets: int, first: int = 0) -> None:
        """Set the group's offsets from this partition on by hand, as admin tools do while no member is there."""
        with closing(self._consumer()) as consumer:
            consumer.commit(offsets=self._tps(*offsets)[first:], asynchronous=False)

    def expire(self, *before: int) -> None:
        self.kafka.delete_records(self._tps(*before))

    def wait_until_committed(self, *offsets: int, by: ConnectorThread) -> None:
        by.wait_until(lambda: self.committed() == list(offsets), f"the commit of {offsets}")

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers, **QUIET})

    def _consumer(self) -> Consumer:
        return Consumer({"bootstrap.servers": self.kafka.bootstrap_servers, "group.id": self.group, **QUIET})

    def _tps(self, *offsets: int) -> list[TopicPartition]:
        if not offsets:
            return [TopicPartition(self.topic, partition) for partition in range(self.partitions)]
        return [TopicPartition(self.topic, partition, offset) for partition, offset in enumerate(offsets)]

    # --- the table --------------------------------------------------------------------------------------------------

    @property
    def store_folder(self) -> Path:
        return self.folder / "lake"

    def table(self, name: str = "readings") -> Path:
        return self.store_folder / "data" / name

    def files(self, table: str = "readings") -> list[Path]:
        """Those with rows: after a crash, placeholders may have the names of files that were undone."""
        found = sorted(path for path in self.table(table).rglob("data_*.parquet") if path.is_file())
        return [path for path in found if pq.read_metadata(path).num_rows]

    def numbers(self, table: str = "readings") -> list[int]:
        return sorted(n for path in self.files(table) for n in pq.ParquetFile(path).read(["n"])["n"].to_pylist())

    def journals(self, group: str = "", table: str = "readings") -> dict[int, dict[str, Any]]:
        """What the logs of a group say of each partition, by the log that its claim names."""
        found: dict[int, dict[str, Any]] = {}
        for partition, _, log in self._claimed(group_folder(f"data/{table}", group or self.group), "*/*.json"):
            progress = next(each for each in log["partitions"] if each["partition"] == partition)
            end = progress["end"] if progress["to"] is None else progress["to"]
            found[partition] = {**progress, "state": log["state"], "end": end}
        return found

    def claims(self) -> dict[int, str]:
        folder = group_folder("data/readings", self.group)
        return {partition: owner for partition, owner, _ in self._claimed(folder, "*/*.json")}

    def _claimed(self, folder: str, pattern: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """Each claim in the folder: its partition, the assignment that it names, and the log of that."""
        for path in sorted((self.store_folder / folder).glob(pattern)):
            if not is_log(str(path)):
                owner = json.loads(path.read_bytes())["owner"]
                (log,) = path.parent.parent.rglob(f"{owner}.json")
                yield int(path.stem), owner, json.loads(log.read_bytes())

    def close_log(self) -> None:
        """Close the log of the first partition's owner, as a member does whose claim comes late."""
        folder = self.store_folder / group_folder("data/readings", self.group)
        log = self.store_folder / log_key("data/readings", self.group, self.claims()[0])
        document = json.loads(log.read_bytes())
        written = folder / "written"
        written.write_text(json.dumps({**document, "seq": document["seq"] + 1, "closed": True, "writer": "late"}))
        written.replace(log)

    def assert_whole(self, numbers: Iterable[int] | None = None, table: str = "readings") -> None:
        """These records, by default each that was produced once, are in the table, and the journals say so."""
        assert self.numbers(table) == sorted(range(self.produced) if numbers is None else numbers)
        states = {log["state"] for _, _, log in self._claimed(journal_folder(f"data/{table}"), "*/*/*.json")}
        assert states == {"done"}
