"""The thread "stage": takes the records of an assignment, converts and stages them, and ends batches."""

import logging
import queue
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain

import pyarrow as pa

from app.convert.batch import Converted
from app.delivery.assignment import Assignment, Piece, Portion
from app.delivery.flow import BatchInFlight, Flow
from app.delivery.limits import BEFORE_FAILURE, LITTLE_ROOM, OTHER_COLUMNS, BatchSize
from app.delivery.open_batch import OpenBatch
from app.delivery.runtime import Runtime
from app.delivery.stage import Stager
from app.errors import FatalError
from app.model import Batch, BatchPart, OffsetRange, StagedFile, TopicPartition
from app.monitoring.waits import Stopped

logger = logging.getLogger(__name__)

_STOP_LOOK_SECONDS = 0.2  # between two checks whether the pipeline is stopped
_MORE_ROOM = "Give the temporary folder more room (TMPDIR, or the size of the tmpfs)"


class Gathering:
    """Steps 1 and 2. All but ``submit`` is for its thread.

    Each batch leaves the scratch folder as it found it. ``in_files`` returns the rows with the columns that the catalog
    wants in files.
    """

    def __init__(
        self,
        flow: Flow,
        stager: Stager,
        runtime: Runtime,
        in_files: Callable[[pa.Table], pa.Table] = lambda table: table,
    ) -> None:
        self._flow = flow
        self._stager = stager
        self._runtime = runtime
        self._in_files = in_files
        self._submitted: queue.SimpleQueue[Portion] = queue.SimpleQueue()
        self._waiting = _Waiting()
        self._open: tuple[BatchInFlight, OpenBatch] | None = None

    def submit(self, portion: Portion) -> None:
        """Take over a portion, from any thread. Never blocks: the consumer bounds the records, by ``held_bytes``."""
        self._flow.hold(portion.size)
        self._submitted.put(portion)

    def step(self, seconds: float) -> bool:
        """Take the next portion, if one comes within so many seconds; end the batch if it is time.

        Returns whether one came.
        """
        flow = self._flow
        try:
            came = self._take(seconds)
            if flow.stop.is_set():
                raise Stopped
            if flow.limits.is_portion(self._waiting.size):
                self._convert()
            reason = came or flow.ends.reason(
                self.size, is_writer_idle=flow.staged.is_empty, stored_share=flow.stored_share
            )
            if reason:
                self._convert()
                self._close_open(reason)
        except OSError as error:
            raise FatalError("gathering rows in the temporary folder", str(error), _MORE_ROOM) from None
        return came is not None

    def _take(self, seconds: float) -> str | None:
        """Take the next portion; returns the reason to end the batch, or an empty one; ``None`` if no portion came.

        Keeps no reference to records.
        """
        try:
            portion = self._submitted.get(timeout=seconds)
        except queue.Empty:
            self._drop_ended()
            return None
        self._drop_ended()
        if portion.assignment.is_over:
            self._flow.hold(-portion.size)
            return ""
        if self._waiting.has_messages and any(each.rows for each in portion.pieces):
            self._convert()  # else these rows would come before the messages that wait
        self._waiting.add(portion)
        if portion.pieces:
            self._flow.ends.came()
        return portion.reason or ""

    @property
    def size(self) -> BatchSize:
        """Of the batch, with what is not converted yet."""
        in_flight, batch = self._open or (None, None)
        size = batch.size if batch else BatchSize()
        is_ahead = bool(self._waiting.pieces or (in_flight and in_flight.last_portion))
        return replace(size, records=size.records + self._waiting.records, is_ahead=is_ahead)

    # --- an assignment that has ended -------------------------------------------------------------------------------

    def _drop_ended(self) -> None:
        """Drop what is there of an assignment that is over: the next one begins after that."""
        gathered = self._open[0].assignment if self._open else self._waiting.assignment
        if gathered is None or not gathered.is_over:
            return
        self._flow.hold(-self._waiting.size)
        self._waiting.take_out()
        if self._open:
            (in_flight, batch), self._open = self._open, None
            batch.close()
            self._flow.end(in_flight)
        self._flow.ends.ended()

    # --- convert, and append to the staged file ---------------------------------------------------------------------

    def _convert(self) -> None:
        """Convert what waits, and append it to the open batch; where it does not fit to that, this is closed first."""
        assignment = self._waiting.assignment
        if assignment is None:
            return
        last, size = self._waiting.last, self._waiting.size
        self._gather(assignment, self._waiting.take_out())
        self._opened(assignment)[0].last_portion = last
        self._flow.hold(-size)

    def _gather(self, assignment: Assignment, pieces: list[Piece]) -> None:
        records, ends = _joined(pieces, assignment.log.token)
        pieces.clear()  # the rows are in ``records`` alone
        if records.parts:
            converted = self._converted(self._opened(assignment)[0], records)
            self._make_room(converted)
            in_flight, batch = self._opened(assignment)
            in_flight.timed("stage", lambda: batch.append(records, converted))
        self._opened(assignment)[0].ends.update(ends)

    def _make_room(self, converted: Converted) -> None:
        """End the batch if these rows do not fit to it, or into the scratch folder beside it."""
        if self._open and not self._open[1].takes(converted.rows):
            self._close_open(OTHER_COLUMNS)
        if self._open and self._open[0].last_portion and not self._has_room(converted):
            self._close_open(LITTLE_ROOM)
            self._wait_for_room(converted)

    def _converted(self, in_flight: BatchInFlight, records: Batch) -> Converted:
        patiently = partial(self._flow.until_it_works, in_flight, "schema")
        try:
            converted = in_flight.timed("convert", lambda: self._stager.convert(records, patiently))
        except Stopped:
            raise
        except Exception:
            if in_flight.last_portion:
                self._close_open(BEFORE_FAILURE)
            raise
        if converted.rows is None:
            return converted
        return replace(converted, rows=replace(converted.rows, table=self._in_files(converted.rows.table)))

    def _has_room(self, converted: Converted) -> bool:
        """Whether the scratch folder takes these rows, and then what Spark makes of them and of three batches."""
        rows = converted.rows.table.nbytes if converted.rows else 0
        staged = self._open[1].size.staged_bytes if self._open else 0
        return self._runtime.free_bytes(self._runtime.scratch) >= 2 * rows + 3 * staged

    def _wait_for_room(self, converted: Converted) -> None:
        """Wait until there is room, or until no batch is left whose end would make any."""
        if self._has_room(converted):
            return
        folder = self._runtime.scratch
        logger.warning("the temporary folder %s is nearly full: waiting until batches are in the lake", folder)
        while self._flow.under_way and not self._has_room(converted):
            if self._flow.stop.is_set():
                raise Stopped
            self._flow.wait(_STOP_LOOK_SECONDS)

    # --- begin and end batches --------------------------------------------------------------------------------------

    def _opened(self, assignment: Assignment) -> tuple[BatchInFlight, OpenBatch]:
        if self._open is None:
            in_flight = self._flow.begin(assignment)
            self._open = in_flight, self._stager.open(in_flight.number, in_flight.folder / "staged.parquet")
        return self._open

    def _close_open(self, reason: str) -> None:
        """Hand the batch on, if one is open; nothing of it stays here while the next step is busy."""
        self._flow.ends.ended()
        if self._open is not None:
            self._flow.staged.put(self._closed(reason))

    def _closed(self, reason: str) -> tuple[BatchInFlight, StagedFile | None]:
        assert self._open is not None  # noqa: S101 - the caller has looked
        (in_flight, batch), self._open = self._open, None
        in_flight.reason = reason
        staged = batch.close()
        in_flight.parts, in_flight.rescued = staged.parts, staged.rescued
        in_flight.dead_letters = staged.dead_letters
        return in_flight, staged.file


class _Waiting:
    """The pieces that wait for their conversion, of one assignment; ``last`` is the number of their last portion."""

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

    def take_out(self) -> list[Piece]:
        """The pieces; nothing waits then."""
        pieces = self.pieces
        self.assignment, self.pieces, self.size, self.records = None, [], 0, 0
        return pieces


def _joined(pieces: list[Piece], token: str) -> tuple[Batch, dict[TopicPartition, int]]:
    """All records of these pieces by their partition, and the last offset that was read of each."""
    of: dict[TopicPartition, list[Piece]] = {}
    for piece in pieces:
        of.setdefault(piece.tp, []).append(piece)
    ends = {tp: some[-1].end for tp, some in of.items() if some[-1].end >= 0}
    records = {tp: kept for tp, some in of.items() if (kept := [each for each in some if each.records])}
    return Batch(
        parts=tuple(BatchPart(_offsets(tp, some), token, 0) for tp, some in records.items()),
        rows=tuple([row for each in some for row in each.rows] for some in records.values()),
        messages=tuple([message for each in some for message in each.messages] for some in records.values()),
        rejected=tuple(chain.from_iterable(each.rejected for some in records.values() for each in some)),
    ), ends


def _offsets(tp: TopicPartition, pieces: list[Piece]) -> OffsetRange:
    """The first and last offset with a record; a lookup of the framework may give a row late."""
    offsets = [message.offset() for each in pieces for message in (*each.messages[:1], *each.messages[-1:])]
    offsets += [row.offset for each in pieces for row in each.rows]
    offsets += [record.offset for each in pieces for record in each.rejected]
    return OffsetRange(tp, min(offsets), max(offsets))
