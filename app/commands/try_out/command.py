"""``python main.py try``: shows the rows and rejections of sample records, without Kafka, Java or a store."""

import json
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from quixstreams import Application

from app.bad_records.refusals import BadRecords
from app.commands.offline import (
    MOST_BYTES,
    OfflineBroker,
    OfflineTopics,
    Record,
    Sent,
    offline_group,
    without_other_sinks,
)
from app.commands.output import log_warnings_only, print_line
from app.commands.try_out.avro_file import AvroFile, is_avro_file
from app.commands.try_out.plan import Planner
from app.config.settings import Settings
from app.consumer.framework.application import Callbacks, run
from app.consumer.framework.current import CurrentMessage, Due
from app.consumer.framework.flushing import Flushing
from app.consumer.framework.sink import RowSink
from app.consumer.plain.client import new_client
from app.consumer.sink_observer import Observed
from app.convert.registered_schemas import Find
from app.delivery.member import Member
from app.delivery.runtime import Runtime
from app.errors import ConfigError
from app.formatting import counted
from app.kafka.newest import Newest, newest
from app.kafka.questions import GroupOffsets
from app.kafka.topics import listing_topics, new_admin, open_topic
from app.lenient_json import to_json
from app.model import DataFile, Message, Rejected, StagedFile, headers_of, known_timestamp
from app.monitoring.metrics import Metrics
from app.monitoring.waits import Request, Waits
from app.service.build import new_batch_limits, new_stager
from app.service.customised import Choice, choose_lane, load_customised
from app.service.formats import new_formats, new_registry
from app.service.kafka import asking_for_topics, new_application
from app.service.lake import new_lake, new_location
from app.service.stores import new_store
from app.spark.scratch import scratch_folder
from app.table.layout import RESCUED_COLUMN, folder
from app.timings import DEFAULT

_TOPIC, _OFFSET = "__topic", "__offset"
_BEHIND: Final = -1  # stands for the offsets in topics of quixstreams
_TICK_MS: Final = 200
_COMMIT_SECONDS: Final = 0.2
_BROKER_SECONDS: Final = 10.0
_ENVELOPE: Final = frozenset({"value", "key", "timestamp", "headers"})


def try_out(settings: Settings, options: Namespace) -> int:
    """Put the records of standard input, a file or the topic through all steps but Spark's; returns 1 if any is bad."""
    log_warnings_only()
    with scratch_folder() as scratch:
        if options.topic:
            found = _newest(settings, scratch, options.topic)
            records = [_as_record(message) for message in found.messages if len(message) <= MOST_BYTES]
            planner = Planner(settings, scratch, found.a_second, options)
            return _Trial(settings, scratch, records, range(1, len(records) + 1), None, planner).run()
        data, find, now = _read(options.file), None, int(time.time() * 1000)
        if is_avro_file(data):
            file = _opened(data, settings, options)
            find, records = file.find, [Record(value, None, now, None) for value in file.values]
            numbers = list(range(1, len(records) + 1))
        else:
            lines = [(number, line) for number, each in enumerate(data.split(b"\n"), 1) if (line := each.strip())]
            records = list(_records(lines, settings, now, envelope=options.envelope))
            numbers = [number for number, _ in lines]
        _refuse_too_long(records, numbers)
        return _Trial(settings, scratch, records, numbers, find).run()


class _NotedBadRecords(BadRecords):
    """Keeps all bad records, and notes each with what can be done about it."""

    def __init__(self, note: Callable[[str, str, int, str], None]) -> None:
        super().__init__("dead-letter", lambda _: None)  # each is shown with its line
        self._note = note

    def keep(self, rejected: Rejected, hint: str) -> bool:
        self._note("bad", rejected.tp.topic, rejected.offset, f"{rejected.reason.whole}. {hint}")
        return super().keep(rejected, hint)


class _Trial:
    """Puts the records through a connector whose Kafka and lake are in this process, and whose writer shows rows."""

    def __init__(
        self,
        settings: Settings,
        scratch: Path,
        records: Sequence[Record],
        numbers: Sequence[int],
        find: Find | None,
        planner: Planner | None = None,
    ) -> None:
        self._planner = planner
        self._settings = settings = settings.offline(scratch / "lake")
        self._scratch = scratch
        self._records = records
        self._line_numbers = numbers  # by the offset
        self._outcomes: dict[int, list[tuple[str, str]]] = {}  # by the offset, or _BEHIND
        self._produced = self._consumed = self._rescued = 0
        self._bad_records = _NotedBadRecords(self._note)
        self.up: Future[None] = Future()  # as Spark's writer
        self.up.set_result(None)
        store = new_store(settings)
        location = new_location(settings, store, None)
        store.connect(f"{location.root}/")
        self._lake = new_lake(settings, store, location)
        self._lake.schema.open()
        columns = (*dict.fromkeys((*settings.metadata_columns, _TOPIC, _OFFSET)),)
        with_offset = settings.model_copy(update={"metadata_columns": columns})
        if find is None and settings.needs_registry:
            find = new_registry(settings, scratch).find
        self._formats = new_formats(settings, find)
        self._stager = new_stager(with_offset, self._lake, self._bad_records)

    def run(self) -> int:
        settings, lake = self._settings, self._lake
        keys, values = self._formats.key, self._formats.value
        current = CurrentMessage(settings.memory.max_record_bytes, holds_several=values.split_values)
        callbacks = Callbacks(current, lambda: self._go_on(application, sink, portions))
        broker = OfflineBroker()
        topics = OfflineTopics(broker, settings.consumer_group, self._note_sent)

        def offline(**arguments: Any) -> Application:
            of_consumer = callbacks.arguments(arguments["consumer_extra_config"])
            of_consumer["consumer_extra_config"]["statistics.interval.ms"] = _TICK_MS
            return Application(**arguments | of_consumer)

        application = new_application(
            offline,
            settings,
            lake.location,
            self._scratch,
            broker_address=broker.address,
            topic_manager=topics,
            use_changelog_topics=False,
            state_dir=self._scratch / "state",
            commit_interval=_COMMIT_SECONDS,
        )
        topic = application.topic(settings.input_topic, value_deserializer=values, key_deserializer=keys)
        dataframe = application.dataframe(topic)
        callbacks.notice_records(dataframe)
        customised = load_customised()
        with without_other_sinks(self._note_sent):
            built = customised.build(dataframe, application)
        limits = new_batch_limits(settings, DEFAULT, self._scratch)
        group, runtime = offline_group(settings.consumer_group), Runtime(self._scratch, Metrics(), workers=1)
        member = Member(lake.store, lake.registrar, self._stager, limits, self, group, runtime)
        sink = callbacks.sink = RowSink(
            member,
            Flushing(member, lambda **_: None),
            self._bad_records,
            current,
            Due(_COMMIT_SECONDS, DEFAULT),
            Observed(),
        )
        built.sink(sink)
        current.watch([topic], topic.name)
        portions = broker.produce(topic.name, self._records)
        member.start()
        try:
            run(application)
        finally:
            member.stop()
        return 1 if self._show(choose_lane(customised, settings))["bad"] else 0

    def _go_on(self, application: Application, sink: RowSink, portions: Iterator[int]) -> None:
        """Produce the next portion once all that came is committed, and no more comes, as behind a ``group_by()``."""
        consumed, self._consumed = self._consumed, sink.consumed
        if consumed == sink.consumed >= self._produced and sink.has_delivered:
            produced = next(portions, 0)
            self._produced += produced
            if not produced:
                application.stop()

    def write(self, staged: StagedFile, out: Path) -> list[DataFile]:  # noqa: ARG002 - as Spark's writer
        """Note the rows of a batch; none of them is written."""
        if self._planner:
            self._planner.add(staged)
        for row in pq.ParquetFile(staged.path).read().to_pylist():
            group = staged.groups[row.pop(staged.group_column)]
            topic, offset = row.get(_TOPIC, group.partition_values.get(_TOPIC)), row[_OFFSET]
            for added in {_TOPIC, _OFFSET}.difference(self._settings.metadata_columns):
                row.pop(added, None)
            self._rescued += row.get(RESCUED_COLUMN) is not None
            values = {column: value for column, value in row.items() if value is not None}
            self._note("row", topic, offset, f"{folder(group.partition_values) or '.'}  {to_json(values)}")
        return []

    # --- what is shown ----------------------------------------------------------------------------------------------

    def _note(self, what: str, topic: str, offset: int, text: str) -> None:
        place = offset if topic == self._settings.input_topic else _BEHIND
        self._outcomes.setdefault(place, []).append((what, text))

    def _note_sent(self, sent: Sent) -> None:
        self._note("sent", sent.topic, sent.offset, f"to {sent.to}: {_shown(sent.key)} {_shown(sent.value)}")

    def _show(self, lane: Choice) -> Counter[str]:
        """Print what became of each record; returns how many outcomes there are of each kind."""
        for offset, number in enumerate(self._line_numbers):
            outcomes = self._outcomes.get(offset, [])
            if not {"row", "bad"}.intersection(what for what, _ in outcomes):
                self._note("none", self._settings.input_topic, offset, "no row")
            for what, text in self._outcomes[offset] if not self._planner else ():
                print_line(f"{what:<4}  line {number}  {text}")
        for what, text in self._outcomes.get(_BEHIND, []) if not self._planner else ():
            print_line(f"{what:<4}  after group_by()  {text}")
        counts = Counter(what for outcomes in self._outcomes.values() for what, _ in outcomes)
        if self._planner:
            self._show_plan(self._planner, counts)
            return counts
        print_line(
            f"{counted(len(self._line_numbers), 'record')}: {counted(counts['row'], 'row')}, "
            f"{self._rescued:,} of them with values in {RESCUED_COLUMN}; {counts['bad']:,} bad, "
            f"{counts['none']:,} without a row, {counts['sent']:,} sent elsewhere"
        )
        print(lane.why, file=sys.stderr)  # noqa: T201 - beside the outcomes
        if any(self._scratch.glob("state/*/*")):
            print_line(
                "State began empty and is dropped again; changelogs, and what depends on partitions, are not tried"
            )
        return counts

    def _show_plan(self, planner: Planner, counts: Counter[str]) -> None:
        without = {_TOPIC, _OFFSET}.difference(self._settings.metadata_columns)
        reasons = Counter(text for each in self._outcomes.values() for what, text in each if what == "bad")
        plan = planner.plan(len(self._records), counts["bad"], reasons, self._rescued, frozenset(without))
        for line in [json.dumps(plan.as_json())] if planner.is_json else plan.lines():
            print_line(line)


def _newest(settings: Settings, scratch: Path, count: int) -> Newest:
    application = new_application(Application, settings, new_location(settings, new_store(settings), None), scratch)
    connection = application.config.broker_address
    visible = Waits().retry(Request("Kafka"), listing_topics(connection), give_up_seconds=_BROKER_SECONDS)
    with asking_for_topics(settings):
        topic = open_topic(
            application,
            settings.input_topic,
            visible,
            variable="input",
            value_deserializer="bytes",
            key_deserializer="bytes",
        )
    consumer = new_client(application.config, {"enable.partition.eof": True})
    try:
        return newest(GroupOffsets(consumer, new_admin(connection)), topic.name, count)
    finally:
        consumer.close()


def _as_record(message: Message) -> Record:
    timestamp = known_timestamp(message.timestamp()[1])
    return Record(message.value(), message.key(), timestamp or int(time.time() * 1000), headers_of(message))


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, str) else to_json(value)


def _read(file: Path | None) -> bytes:
    try:
        return file.read_bytes() if file else (sys.stdin.buffer.read() if sys.stdin else b"")
    except OSError as error:
        raise ConfigError(
            f"reading {file}", error.strerror or str(error), "Name a file with one record a line, or an Avro file"
        ) from None


def _opened(data: bytes, settings: Settings, options: Namespace) -> AvroFile:
    doing = f"reading {options.file or 'standard input'}"
    if options.envelope or settings.value_deserializer != "avro":
        hint = "Set KAFKA_VALUE_DESERIALIZER=avro, and leave out --envelope"
        raise ConfigError(doing, "it is an Avro file", hint)
    try:
        return AvroFile(data)
    except ValueError as error:
        raise ConfigError(doing, str(error), "Write it again, with the codec null or deflate") from None


def _records(lines: Sequence[tuple[int, bytes]], settings: Settings, now: int, *, envelope: bool) -> Iterator[Record]:
    for number, line in lines:
        if not envelope:
            yield Record(line, None, now, None)
            continue
        try:
            yield _unpacked(line, settings, now)
        except (ValueError, RecursionError) as error:
            hint = "With --envelope each line is a JSON object: see `python main.py try --help`"
            raise ConfigError(f"reading line {number}", str(error), hint) from None


def _refuse_too_long(records: Sequence[Record], numbers: Sequence[int]) -> None:
    for number, record in zip(numbers, records, strict=True):
        size = len(record.value or b"") + len(record.key or b"")
        if size > MOST_BYTES:
            cause = f"it has {size:,} bytes, and `try` takes {MOST_BYTES:,}"
            raise ConfigError(f"reading line {number}", cause, "Leave it out, or shorten it")


def _unpacked(line: bytes, settings: Settings, now: int) -> Record:
    """The record that an envelope describes; raises ``ValueError`` or ``RecursionError`` if it describes none."""
    record = json.loads(line)
    if not isinstance(record, dict) or "value" not in record or not _ENVELOPE.issuperset(record):
        raise ValueError(f"it is no object of {', '.join(sorted(_ENVELOPE))}, where value has to be there")
    value, timestamp, headers = record["value"], record.get("timestamp"), record.get("headers")
    if timestamp is None:
        timestamp = now
    if type(timestamp) is not int or not 0 < timestamp < 2**63:  # true is an int too
        raise ValueError(f"its timestamp is {json.dumps(timestamp)}, no whole number of milliseconds above 0")
    if not (headers is None or isinstance(headers, dict)):
        raise ValueError(f"its headers are {json.dumps(headers)}, no object of names and texts")
    as_is = settings.value_deserializer != "json" and isinstance(value, str)
    return Record(
        None if value is None else value.encode() if as_is else json.dumps(value).encode(),
        _bytes(record.get("key")),
        timestamp,
        [(name, _bytes(text) or b"") for name, text in (headers or {}).items()] or None,
    )


def _bytes(text: Any) -> bytes | None:
    if text is None:
        return None
    return text.encode() if isinstance(text, str) else json.dumps(text).encode()
