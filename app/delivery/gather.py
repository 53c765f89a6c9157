"""The thread "stage": converts an assignment's records, writes the rows to a staged file, and ends batches."""

import logging
import queue
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa

from app.convert.batch import Converted
from app.delivery.assignment import Assignment, Piece, Portion
from app.delivery.batch_limits import BatchSize
from app.delivery.flow import SCHEMA, BatchInFlight, Flow, GatheredBatch
from app.delivery.runtime import Runtime
from app.delivery.stage import OpenBatch, Stager
from app.model import Batch, BatchPart, OffsetRange, TopicPartition
from app.retries import Stopped

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.1  # interval of the checks whether the batch ends while no records arrive
_STOP_LOOK_SECONDS = 0.2  # interval of the checks whether the pipeline is stopped


class Gathering:
    """Does steps 1 and 2. Any thread may call ``submit``. Only the thread "stage" calls the other methods.

    A batch that ends deletes its files in the scratch folder. ``as_known`` returns rows with the catalog's columns.
    """

    def __init__(
        self,
        flow: Flow,
        stager: Stager,
        runtime: Runtime,
        as_known: Callable[[pa.Table], pa.Table] = lambda table: table,
    ) -> None:
        self._flow = flow
        self._stager = stager
        self._runtime = runtime
        self._as_known = as_known
        self._submitted: queue.SimpleQueue[Portion] = queue.SimpleQueue()
        self.on_submit: Callable[[], object] = lambda: None
        self._waiting = _Unconverted()
        self._open: _Open | None = None

    def submit(self, portion: Portion) -> None:
        """Accept a portion, from any thread. This method never waits. The consumer limits ``held_bytes``."""
        self._flow.share.hold(portion.size)
        self._submitted.put(portion)
        self.on_submit()

    def take_all(self) -> None:
        """Take portions until all received portions are in batches that have ended."""
        self._flow.ends.resume()
        while self.step(_LOOK_SECONDS) or self._open is not None or self._waiting.pieces:
            pass
        self._flow.ends.pause()

    def step(self, seconds: float) -> bool:
        """Take the next portion if a portion arrives within ``seconds``. If the batch is due, end the batch.

        Returns whether a portion arrived.
        """
        flow = self._flow
        reason = taken = self._take(seconds)
        if flow.stop.is_set():
            raise Stopped
        is_all = flow.buffer.is_crowded and self._submitted.empty() and self._waiting.size > 0
        if is_all or flow.buffer.limits.is_portion(self._waiting.size):
            self._convert()
        if not reason:
            idle = flow.staged.is_empty
            reason = flow.ends.reason(self.size, is_writer_idle=idle, stored_share=flow.stored_share)
        if reason:
            self._convert()
            self._end_batch(reason)
        return taken is not None

    def _take(self, seconds: float) -> str | None:
        """Take the next portion. Return its reason to end the batch, or an empty text; ``None`` if no portion arrived.

        The method keeps no reference to records.
        """
        try:
            portion = self._submitted.get(timeout=seconds)
        except queue.Empty:
            self._drop_ended()
            return None
        self._drop_ended()
        if portion.assignment.is_over:
            self._flow.share.hold(-portion.size)
            return ""
        if self._waiting.has_messages and any(each.rows for each in portion.pieces):
            self._convert()  # otherwise these rows would be written before the waiting messages
        self._waiting.add(portion)
        if portion.pieces:
            self._flow.ends.came()
        return portion.reason or ""

    @property
    def size(self) -> BatchSize:
        """The size of the batch, including records that are not converted yet."""
        size = self._open.rows.size if self._open else BatchSize()
        is_ahead = bool(self._waiting.pieces or (self._open and self._open.last_portion))
        self._flow.share.staged_bytes = size.staged_bytes
        shared = self._flow.buffer.shared_bytes(size.staged_bytes)
        return replace(size, shared_bytes=shared, records=size.records + self._waiting.records, is_ahead=is_ahead)

    # --- an assignment that has ended -------------------------------------------------------------------------------

    def _drop_ended(self) -> None:
        """Drop the records of an assignment that has ended, before the next assignment begins."""
        assignment = self._open.in_flight.assignment if self._open else self._waiting.assignment
        if assignment is None or not assignment.is_over:
            return
        self._flow.share.hold(-self._waiting.size)
        self._waiting = _Unconverted()
        if self._open:
            self._open.rows.close()
            self._open.in_flight.end()
            self._open = None
        self._flow.ends.ended()

    # --- convert, and append to the staged file ---------------------------------------------------------------------

    def _convert(self) -> None:
        """Convert the waiting records, and append the rows to the open batch, or to a new batch if they do not fit."""
        waiting, self._waiting = self._waiting, _Unconverted()
        if waiting.assignment is None:
            return
        records, ends = _join_pieces(waiting.pieces, waiting.assignment.log.token)
        waiting.pieces.clear()  # now only ``records`` has references to the rows
        batch = self._open = self._open or self._begin_batch(waiting.assignment)
        if records.parts:
            converted = self._convert_records(batch, records)
            if reason := self._reason_to_end(batch, converted):
                self._end_batch(reason)
                self._wait_for_room(converted)
                batch = self._open = self._begin_batch(waiting.assignment)
            batch.in_flight.step("stage", partial(batch.rows.append, records, converted))
        batch.ends.update(ends)
        batch.last_portion = waiting.last
        self._flow.share.hold(-waiting.size)

    def _convert_records(self, batch: "_Open", records: Batch) -> Converted:
        """Convert these records. While this table waits for the schema, other tables may convert their records."""
        converting, held = self._flow.buffer.converting, ExitStack()

        def convert() -> Converted:
            with held:
                held.enter_context(converting)
                return self._stager.convert(records, patiently)

        def patiently(ask: Callable[[], Any]) -> Any:
            held.close()
            try:
                return batch.in_flight.retry(SCHEMA, ask)
            finally:
                held.enter_context(converting)

        try:
            converted = batch.in_flight.step("convert", convert)
        except Stopped:
            raise
        except Exception:
            if batch.last_portion:
                self._end_batch("records before a failure")
            raise
        if converted.rows is None:
            return converted
        return replace(converted, rows=replace(converted.rows, table=self._as_known(converted.rows.table)))

    def _reason_to_end(self, batch: "_Open", converted: Converted) -> str | None:
        """Return why the batch must end before these records are added; ``None`` if these records fit."""
        if not batch.rows.fits(converted.rows):
            return "a column's type changed"
        return "little room in the temporary folder" if batch.last_portion and not self._has_room(converted) else None

    def _has_room(self, converted: Converted) -> bool:
        """Whether the scratch folder has room for these rows, Spark's files of these rows, and three batches."""
        rows = converted.rows.table.nbytes if converted.rows else 0
        staged = self._open.rows.size.staged_bytes if self._open else 0
        return self._runtime.free_bytes(self._runtime.scratch) >= 2 * rows + 3 * staged

    def _wait_for_room(self, converted: Converted) -> None:
        """Wait until the scratch folder has room, or until no batch in progress can free more room."""
        if self._has_room(converted):
            return
        folder = self._runtime.scratch
        logger.warning("the temporary folder %s is nearly full: waiting until batches are in the lake", folder)
        while self._flow.buffer.under_way and not self._has_room(converted):
            if self._flow.stop.is_set():
                raise Stopped
            self._flow.buffer.wait(_STOP_LOOK_SECONDS)

    # --- begin and end batches --------------------------------------------------------------------------------------

    def _begin_batch(self, assignment: Assignment) -> "_Open":
        in_flight = self._flow.begin(assignment)
        return _Open(in_flight, self._stager.open(in_flight.number, in_flight.folder / "staged.parquet"))

    def _end_batch(self, reason: str) -> None:
        """Hand the open batch to the next step. Keep no reference to the batch, because the next step may be busy."""
        self._flow.ends.ended()
        if self._open is not None:
            self._flow.staged.put(self._close_batch(self._open, reason))

    def _close_batch(self, batch: "_Open", reason: str) -> GatheredBatch:
        self._open = None
        return GatheredBatch(batch.in_flight, batch.rows.close(), reason, batch.last_portion, batch.ends)


@dataclass(slots=True)
class _Open:
    """The batch in progress. Rows are appended to this batch."""

    in_flight: BatchInFlight
    rows: OpenBatch
    last_portion: int = 0
    ends: dict[TopicPartition, int] = field(default_factory=dict)


class _Unconverted:
    """The unconverted records of one assignment. ``last`` is the number of the last portion."""

    def __init__(self) -> None:
        self.assignment: Assignment | None = None
        self.pieces: list[Piece] = []
        self.size = self.records = self.last = 0

    @property
    def has_messages(self) -> bool:
        return any(each.messages for each in self.pieces)

    def add(self, portion: Portion) -> None:
        if portion.pieces:
            self.assignment, self.last = portion.assignment, portion.number
        self.pieces += portion.pieces
        self.size += portion.size
        self.records += sum(each.records for each in portion.pieces)


def _join_pieces(pieces: list[Piece], token: str) -> tuple[Batch, dict[TopicPartition, int]]:
    """Return all records of these pieces by partition, and the last offset read from each partition."""
    by_tp: dict[TopicPartition, list[Piece]] = {}
    for piece in pieces:
        by_tp.setdefault(piece.tp, []).append(piece)
    ends = {tp: some[-1].end for tp, some in by_tp.items() if some[-1].end >= 0}
    records = {tp: kept for tp, some in by_tp.items() if (kept := [each for each in some if each.records])}
    return Batch(
        parts=tuple(BatchPart(_offsets(tp, some), token, 0) for tp, some in records.items()),
        rows=tuple([row for each in some for row in each.rows] for some in records.values()),
        messages=tuple([message for each in some for message in each.messages] for some in records.values()),
        rejected=tuple(chain.from_iterable(each.rejected for some in records.values() for each in some)),
    ), ends


def _offsets(tp: TopicPartition, pieces: list[Piece]) -> OffsetRange:
    """Return the lowest and the highest offset of the records. Rows may be out of order after a quixstreams lookup."""
    offsets = [message.offset() for each in pieces for message in (*each.messages[:1], *each.messages[-1:])]
    offsets += [row.offset for each in pieces for row in each.rows]
    offsets += [record.offset for each in pieces for record in each.rejected]
    return OffsetRange(tp, min(offsets), max(offsets))
