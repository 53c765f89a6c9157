import json
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict
from functools import partial
from math import inf
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any, Final

import pyarrow.parquet as pq
from quixstreams import Application, message_context
from quixstreams.models import Topic

from app.bad_records.refusals import BadRecords
from app.config.settings import Settings
from app.consumer.plain.client import new_client
from app.consumer.plain.intake import Intake
from app.delivery.assignment import Assignment, Portion
from app.delivery.stage import Stager
from app.errors import ConfigError
from app.formatting import counted
from app.json_texts import to_json
from app.kafka.questions import GroupOffsets
from app.kafka.topics import listing_topics, new_admin
from app.model import (
    Batch,
    BatchPart,
    FindSchema,
    Message,
    OffsetRange,
    Rejected,
    StagedFile,
    TopicPartition,
    headers_of,
    known_timestamp,
)
from app.parts import REGISTRY
from app.parts.avro.avro_file import AvroFile, is_avro_file
from app.parts.commands import print_line, warnings_alone
from app.parts.try_out.offline import offline_reader
from app.parts.try_out.plan import Planner
from app.parts.until.run_end import newest
from app.retries import Request, Waits
from app.service.formats import new_batch_limits, new_formats, new_stager
from app.service.kafka_client import new_application, open_topic
from app.service.lake import new_lake, new_location, new_store
from app.service.lane_choice import LaneChoice, choose_lane
from app.service.plain_lane import new_reader
from app.service.user_transform import load_customised
from app.spark.scratch import scratch_folder
from app.table.layout import RESCUED_COLUMN, folder
from app.timings import DEFAULT

_OFFSET: Final = "__offset"
_PORTION: Final = 1_000
_BROKER_SECONDS: Final = 10.0
_ENVELOPE: Final = frozenset({"value", "key", "timestamp", "headers"})

Record = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes]] | None]
"""The value, message key, timestamp in milliseconds, and headers of a Kafka record."""


def try_out(settings: Settings, options: Namespace) -> int:
    """Process records of standard input, a file or the topic in all steps before Spark. Return 1 for bad records."""
    with scratch_folder() as scratch, warnings_alone(in_answer=bool(options.topic)) as warnings:
        now, planner, find = int(time.time() * 1000), None, None
        records: Iterable[Record | None]
        if options.topic:
            newest_messages, a_second = _newest(settings, scratch, options.topic)
            planner = Planner(settings, scratch, a_second, options, warnings)
            records = [
                (message.value(), message.key(), known_timestamp(message.timestamp()[1]) or now, headers_of(message))
                for message in newest_messages
            ]
        elif is_avro_file(data := _read(options.file)):
            file = _open_avro(data, settings, options)
            find, records = file.find, [(value, None, now, None) for value in file.values]
        else:
            records = _parse_lines(data, settings, now, envelope=options.envelope)
        messages = [_Message(settings.input_topic, offset, each) for offset, each in enumerate(records) if each]
        return _Trial(settings, scratch, messages, find, planner).run()


class _Message(SimpleNamespace):
    """A record of partition 0. The object has the methods of a message of Kafka's client."""

    def __init__(self, topic: str, offset: int, record: Record) -> None:
        value, key, timestamp, headers = record
        super().__init__(
            topic=lambda: topic,
            partition=lambda: 0,
            offset=lambda: offset,
            value=lambda: value,
            key=lambda: key,
            timestamp=lambda: (1, timestamp),
            headers=lambda: headers,
            leader_epoch=lambda: None,
        )

    def __len__(self) -> int:
        return len(self.value() or b"")


class _NotedBadRecords(BadRecords):
    """Stores each bad record for the output, with a hint."""

    def __init__(self, note: Callable[[str, int, str], None]) -> None:
        super().__init__("dead-letter", lambda _: None)  # no warning, because the output shows bad records
        self._note = note

    def keep(self, rejected: Rejected, hint: str) -> bool:
        self._note("bad", rejected.offset, f"{rejected.reason.whole}. {hint}")
        return super().keep(rejected, hint)


class _Trial:
    """Processes the records in all steps before Spark, for a new table in the scratch folder."""

    def __init__(
        self,
        settings: Settings,
        scratch: Path,
        messages: Sequence[Any],
        find: FindSchema | None,
        planner: Planner | None,
    ) -> None:
        self._planner = planner
        self._settings = settings = settings.offline(scratch / "lake")
        self._scratch = scratch
        self._messages = messages
        self._outcomes: dict[int, list[tuple[str, str]]] = {message.offset(): [] for message in messages}
        self._rescued = 0
        self._bad_records = _NotedBadRecords(self._note)
        store = new_store(settings)
        location = new_location(settings, store, None)
        store.connect(f"{location.root}/")
        self._lake = new_lake(settings, store, location)
        self._lake.schema.open()
        if find is None and settings.needs_registry:
            find = resolve_name(REGISTRY)(settings, scratch).find
        self._formats = new_formats(settings, find)

    def run(self) -> int:
        settings, formats, scratch = self._settings, self._formats, self._scratch
        customised = load_customised()
        lane = choose_lane(customised, settings)
        limits = new_batch_limits(settings, DEFAULT, scratch)
        topic = Topic(settings.input_topic, value_deserializer=formats.value, key_deserializer=formats.key)
        new = partial(new_application, Application, settings, self._lake.location, scratch, state_dir=scratch / "state")
        with (
            nullcontext(new_reader(settings, formats, topic, lane.built, limits, DEFAULT.clock))
            if lane.is_plain
            else offline_reader(new, customised, settings, formats, limits, self._note_sent)
        ) as (of_messages, transformer):
            columns = (*dict.fromkeys((*settings.metadata_columns, _OFFSET)),)
            with_offset = settings.model_copy(update={"metadata_columns": columns})
            stager = new_stager(with_offset, self._lake, self._bad_records, of_messages)
            intake = Intake(limits.max_record_bytes, self._bad_records, formats.size_of, transformer=transformer)
            no_log: Any = None  # no partition is claimed
            tp, messages = TopicPartition(topic.name, 0), self._messages
            assignment = Assignment([tp], no_log, partial(self._stage, stager))
            while messages:
                taken = intake.take(assignment, tp, messages[:_PORTION], room=limits.max_buffer_bytes, until=inf)
                messages = messages[taken.messages :]
        return 1 if self._show(lane)["bad"] else 0

    def _stage(self, stager: Stager, portion: Portion) -> None:
        """Convert and stage a portion, and store its rows for the output. No row is written to the lake."""
        for piece in portion.pieces:
            part = BatchPart(OffsetRange(piece.tp, 0, piece.end), "", portion.number)
            batch = Batch((part,), ([*piece.rows],), ([*piece.messages],))
            opened = stager.open(portion.number, self._scratch / "staged.parquet")
            opened.append(batch, stager.convert(batch, lambda work: work()))
            if staged := opened.close().file:
                self._note_rows(staged)

    def _note_rows(self, staged: StagedFile) -> None:
        without = {_OFFSET}.difference(self._settings.metadata_columns)
        if self._planner:
            self._planner.add(staged, without)
        for row in pq.ParquetFile(staged.path).read().to_pylist(maps_as_pydicts="strict"):
            group, offset = staged.groups[row.pop(staged.group_column)], row[_OFFSET]
            self._rescued += row.get(RESCUED_COLUMN) is not None
            values = {name: value for name, value in row.items() if value is not None and name not in without}
            self._note("row", offset, f"{folder(group.partition_values) or '.'}  {to_json(values)}")

    # --- output -----------------------------------------------------------------------------------------------------

    def _note(self, kind: str, offset: int, text: str) -> None:
        self._outcomes[offset].append((kind, text))

    def _note_sent(self, to: str, key: Any, value: Any) -> None:
        self._note("sent", message_context().offset, f"to {to}: {_shown(key)} {_shown(value)}")

    def _show(self, lane: LaneChoice) -> Counter[str]:
        """Print the rows and rejections of each record. Return the number of results of each kind."""
        for offset, outcomes in self._outcomes.items():
            if not {"row", "bad"}.intersection(kind for kind, _ in outcomes):
                self._note("none", offset, "no row")
            for kind, text in outcomes if not self._planner else ():
                print_line(f"{kind:<4}  line {offset + 1}  {text}")
        counts = Counter(kind for outcomes in self._outcomes.values() for kind, _ in outcomes)
        if self._planner:
            self._show_plan(self._planner, counts)
            return counts
        print_line(
            f"{counted(len(self._messages), 'record')}: {counted(counts['row'], 'row')}, "
            f"{self._rescued:,} of them with values in {RESCUED_COLUMN}; {counts['bad']:,} bad, "
            f"{counts['none']:,} without a row, {counts['sent']:,} sent elsewhere"
        )
        print(lane.why, file=sys.stderr)  # noqa: T201 - not one of the outcomes
        if any(self._scratch.glob("state/*/*")):
            print_line("State was empty and is deleted now; changelogs and effects of partitions are not tested")
        return counts

    def _show_plan(self, planner: Planner, counts: Counter[str]) -> None:
        reasons = Counter(text for each in self._outcomes.values() for kind, text in each if kind == "bad")
        plan = planner.plan(len(self._messages), counts["bad"], reasons, self._rescued)
        for line in [json.dumps(asdict(plan))] if planner.options.json else plan.lines():
            print_line(line)


def _newest(settings: Settings, scratch: Path, count: int) -> tuple[list[Message], float]:
    application = new_application(Application, settings, new_location(settings, new_store(settings), None), scratch)
    connection = application.config.broker_address
    visible = Waits().retry(Request("Kafka"), listing_topics(connection), give_up_seconds=_BROKER_SECONDS)
    topic = open_topic(settings, application, visible)
    with closing(new_client(application.config, {"enable.partition.eof": True})) as consumer:
        return newest(GroupOffsets(consumer, new_admin(connection)), topic.name, count)


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, str) else to_json(value)


def _read(file: Path | None) -> bytes:
    try:
        return file.read_bytes() if file else (sys.stdin.buffer.read() if sys.stdin else b"")
    except OSError as error:
        raise ConfigError(
            f"reading {file}", error.strerror or str(error), "Name a file with one record per line, or an Avro file"
        ) from None


def _open_avro(data: bytes, settings: Settings, options: Namespace) -> AvroFile:
    doing = f"reading {options.file or 'standard input'}"
    if options.envelope or settings.value_deserializer != "avro":
        hint = "Set KAFKA_VALUE_DESERIALIZER=avro, and omit --envelope"
        raise ConfigError(doing, "it is an Avro file", hint)
    try:
        return AvroFile(data)
    except ValueError as error:
        raise ConfigError(doing, str(error), "Write it again, with the codec null or deflate") from None


def _parse_lines(data: bytes, settings: Settings, now: int, *, envelope: bool) -> Iterator[Record | None]:
    """Yield the record of each line; ``None`` for a blank line."""
    for number, line in enumerate(data.split(b"\n"), 1):
        text = line.strip()
        try:
            yield (
                _parse_envelope(text, settings, now) if text and envelope else (text, None, now, None) if text else None
            )
        except (ValueError, RecursionError) as error:
            hint = "With --envelope, each line is a JSON object: see `python main.py try --help`"
            raise ConfigError(f"reading line {number}", str(error), hint) from None


def _parse_envelope(line: bytes, settings: Settings, now: int) -> Record:
    """Return the record in an envelope. Raise ``ValueError`` or ``RecursionError`` if the line contains no record."""
    record = json.loads(line)
    if not isinstance(record, dict) or "value" not in record or not _ENVELOPE.issuperset(record):
        raise ValueError(f"it is not an object of {', '.join(sorted(_ENVELOPE))}, where value is required")
    value, timestamp, headers = record["value"], record.get("timestamp"), record.get("headers")
    if timestamp is None:
        timestamp = now
    if type(timestamp) is not int or not -(2**63) <= timestamp < 2**63:  # in Python, true is an int
        raise ValueError(f"its timestamp is {json.dumps(timestamp)}, not a whole number of milliseconds")
    if not (headers is None or isinstance(headers, dict)):
        raise ValueError(f"its headers are {json.dumps(headers)}, not an object of names and texts")
    as_is = settings.value_deserializer != "json" and isinstance(value, str)
    return (
        None if value is None else value.encode() if as_is else json.dumps(value).encode(),
        _bytes(record.get("key")),
        timestamp,
        [(name, _bytes(text) or b"") for name, text in (headers or {}).items()] or None,
    )


def _bytes(text: Any) -> bytes | None:
    if text is None:
        return None
    return text.encode() if isinstance(text, str) else json.dumps(text).encode()
