"""``python main.py try``: shows the rows and rejections of sample records, without Kafka, Java or a store."""

import json
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from quixstreams.context import message_context

from app.bad_records.policy import BadRecords
from app.commands.output import log_warnings_only, print_line
from app.config.settings import Settings
from app.consumer.assignment import Assignments
from app.consumer.exact_json import new_deserializer
from app.consumer.loop import new_loop
from app.consumer.offline import GivenMessage, NoJournals, OfflineApplication, Sent
from app.consumer.paused_partitions import PausedPartitions
from app.consumer.sink import LakeSink
from app.errors import ConfigError, ConnectorError
from app.formatting import counted
from app.lenient_json import to_json
from app.model import Batch, Rejected
from app.pipeline.stage import Stager
from app.service.build import can_read_whole_batches, new_application, new_batch_limits, new_stager
from app.service.customised import load_customised
from app.service.lake import new_location, new_schema, new_spec
from app.service.stores import new_store
from app.spark.scratch import scratch_folder
from app.table.layout import RESCUED_COLUMN, folder
from app.timings import DEFAULT

_OFFSET: Final = "__offset"
_ENVELOPE: Final = frozenset({"value", "key", "timestamp", "headers"})


def try_out(settings: Settings, options: Namespace) -> int:
    """Put the records of standard input, or of a file, through all steps but Spark's.

    Returns:
        1 if any record cannot become a row, else 0.

    Raises:
        ConfigError: ``app/transform.py`` is wrong, or a line is no record.
    """
    log_warnings_only()
    with scratch_folder() as scratch:
        lines = list(_lines(options.file))
        records = list(_records(lines, settings, envelope=options.envelope))
        return _Trial(settings, scratch, records, [number for number, _ in lines]).run()


class _WithRemedies(BadRecords):
    """Keeps all bad records, and what can be done about each, by its offset."""

    def __init__(self) -> None:
        super().__init__("dead-letter", lambda _: None)  # each is shown with its line
        self.remedies: dict[int, str] = {}

    def keep(self, rejected: Rejected, hint: str) -> bool:
        self.remedies[rejected.offset] = hint
        return super().keep(rejected, hint)


class _Trial:
    """Stands in for the pipeline, from which the sink expects no more: batches are staged and shown at once."""

    is_idle = True
    closed_portion = 0
    held_bytes = 0
    failure: ConnectorError | None = None
    obstacle = None

    def __init__(
        self, settings: Settings, scratch: Path, records: Sequence[GivenMessage], line_numbers: Sequence[int]
    ) -> None:
        self._settings = settings = settings.offline(scratch / "lake")
        self._scratch = scratch
        self._line_numbers = line_numbers  # by the offset
        self._metadata = settings.metadata_columns
        self._outcomes: dict[int, list[tuple[str, str]]] = {}  # by the offset
        self._counts = Counter[str]()
        self._rescued = 0
        bad_records = self._bad_records = _WithRemedies()
        store = new_store(settings)
        location = new_location(settings, store, None)
        store.connect(f"{location.root}/")
        self._spec = new_spec(settings, store, location, None)
        schema = new_schema(settings, store, location)
        schema.open()
        with_offset = settings.model_copy(update={"metadata_columns": (*dict.fromkeys((*self._metadata, _OFFSET)),)})
        self._stager: Stager = new_stager(with_offset, location, self._spec, schema, bad_records)
        self._assignments = Assignments()
        kind = partial(
            OfflineApplication,
            records=iter(records),
            on_sent=self._note_sent,
            assignments=self._assignments,
            max_record_bytes=settings.memory.max_record_bytes,
        )
        self._application = new_application(kind, settings, location, scratch, state_dir=scratch / "state")
        self._sink = LakeSink(
            pipeline=self,
            assignments=self._assignments,
            limits=new_batch_limits(settings, DEFAULT, scratch),
            bad_records=bad_records,
        )

    def run(self) -> int:
        application, settings = self._application, self._settings
        topic = application.topic(
            settings.input_topic,
            value_deserializer=new_deserializer(settings.value_deserializer),
            key_deserializer=new_deserializer(settings.key_deserializer),
        )
        application.current.keep_of(topic)
        dataframe = application.dataframe(topic)
        customised = load_customised()
        transformed = customised.build(dataframe, application)
        application.built(is_untouched=customised.is_untouched)
        transformed.sink(self._sink)
        loop = new_loop(
            application=application,
            assignments=self._assignments,
            sink=self._sink,
            paused=PausedPartitions(application.consumer, NoJournals(), self._assignments),
            on_turn=lambda: None,
        )
        application.start(loop)
        application.run()
        self._show(is_untouched=customised.is_untouched)
        return 1 if self._counts["bad"] else 0

    # --- what the sink asks of the pipeline -------------------------------------------------------------------------

    def submit(self, batch: Batch) -> None:
        """Convert and stage the batch, and note the outcome of each record."""
        path = self._scratch / f"{batch.number}.parquet"
        staged = self._stager.stage(batch, path, lambda work: work())
        for _, rejected in staged.rejected:
            for record in rejected:
                self._note("bad", record.offset, f"{record.reason}. {self._bad_records.remedies[record.offset]}")
        if staged.file:
            for row in pq.ParquetFile(path).read().to_pylist():
                group = staged.file.groups[row.pop(staged.file.group_column)]
                offset = row[_OFFSET] if _OFFSET in self._metadata else row.pop(_OFFSET)
                self._rescued += row.get(RESCUED_COLUMN) is not None
                values = {column: value for column, value in row.items() if value is not None}
                self._note("row", offset, f"{folder(group.partition_values) or '.'}  {to_json(values)}")

    def wait_delivered(self, number: int, seconds: float) -> bool:  # noqa: ARG002 - as the pipeline
        """Return at once: a batch is done when it was submitted."""
        return True

    def wait_for_change(self, seconds: float) -> None:
        """Return at once: no batch is ever under way."""

    # --- what is shown ----------------------------------------------------------------------------------------------

    def _note(self, what: str, offset: int, text: str) -> None:
        self._counts[what] += 1
        self._outcomes.setdefault(offset, []).append((what, text))

    def _note_sent(self, sent: Sent) -> None:
        self._note("sent", message_context().offset, f"to {sent.to}: {_shown(sent.key)} {_shown(sent.value)}")

    def _show(self, *, is_untouched: bool) -> None:
        for offset, number in enumerate(self._line_numbers):
            outcomes = self._outcomes.get(offset, [])
            if not {"row", "bad"}.intersection(what for what, _ in outcomes):
                self._note("none", offset, "no row")
            for what, text in self._outcomes[offset]:
                print_line(f"{what:<4}  line {number}  {text}")
        counts = self._counts
        print_line(
            f"{counted(len(self._line_numbers), 'record')}: {counted(counts['row'], 'row')}, "
            f"{self._rescued:,} of them with values in {RESCUED_COLUMN}; {counts['bad']:,} bad, "
            f"{counts['none']:,} without a row, {counts['sent']:,} sent elsewhere"
        )
        if is_untouched and can_read_whole_batches(self._settings):
            print_line("transform() changes nothing: thousands of messages are taken at once")
        elif is_untouched:
            print_line(
                "transform() changes nothing; the deserializers or ON_BAD_RECORD want records one by one all the same"
            )
        if self._application.keeps_state:
            print_line(
                "State began empty and is dropped again; changelogs, and what depends on partitions, are not tried"
            )


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, str) else to_json(value)


def _lines(file: Path | None) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers as an editor has them."""
    try:
        with file.open("rb") if file else sys.stdin.buffer as stream:
            yield from ((number, line) for number, each in enumerate(stream, 1) if (line := each.strip()))
    except OSError as error:
        raise ConfigError(
            f"reading {file}", error.strerror or str(error), "Name a file with one record a line"
        ) from None


def _records(lines: Sequence[tuple[int, bytes]], settings: Settings, *, envelope: bool) -> Iterator[GivenMessage]:
    now = int(time.time() * 1000)
    for offset, (number, line) in enumerate(lines):
        if not envelope:
            yield GivenMessage(settings.input_topic, offset, line, None, now, None)
            continue
        try:
            yield _unpacked(line, offset, settings, now)
        except (ValueError, RecursionError) as error:
            hint = "With --envelope each line is a JSON object: see `python main.py try --help`"
            raise ConfigError(f"reading line {number}", str(error), hint) from None


def _unpacked(line: bytes, offset: int, settings: Settings, now: int) -> GivenMessage:
    """The message that an envelope describes.

    Raises:
        ValueError: it describes none.
        RecursionError: it is nested too deeply.
    """
    record = json.loads(line)
    if not isinstance(record, dict) or "value" not in record or not _ENVELOPE.issuperset(record):
        raise ValueError(f"it is no object of {', '.join(sorted(_ENVELOPE))}, where value has to be there")
    value, timestamp, headers = record["value"], record.get("timestamp"), record.get("headers")
    if timestamp is None:
        timestamp = now
    if type(timestamp) is not int or not -(2**63) <= timestamp < 2**63:  # true is an int too
        raise ValueError(f"its timestamp is {json.dumps(timestamp)}, no whole number of milliseconds")
    if not (headers is None or isinstance(headers, dict)):
        raise ValueError(f"its headers are {json.dumps(headers)}, no object of names and texts")
    as_is = settings.value_deserializer != "json" and isinstance(value, str)
    return GivenMessage(
        settings.input_topic,
        offset,
        None if value is None else value.encode() if as_is else json.dumps(value).encode(),
        _bytes(record.get("key")),
        timestamp,
        [(name, _bytes(text) or b"") for name, text in (headers or {}).items()] or None,
    )


def _bytes(text: Any) -> bytes | None:
    if text is None:
        return None
    return text.encode() if isinstance(text, str) else json.dumps(text).encode()
