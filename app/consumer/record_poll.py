"""Consumes record by record, for ``transform()`` and for deserializers that need single messages."""

from collections.abc import Callable
from typing import Any

from quixstreams.context import message_context

from app.consumer.application import LakeApplication
from app.consumer.assignment import Assignments
from app.consumer.paused_partitions import PausedPartitions
from app.consumer.sink import LakeSink
from app.model import known_timestamp
from app.timings import DEFAULT, Timings

_TURN_MESSAGES = 64


class RecordPoll:
    """Processes several messages in a turn, because the other work of a turn costs as much as a message.

    A turn ends when no message waits, at the latest after 64 messages or ``turn_seconds``.

    Args:
        application: processes one message after the other.
        assignments: the current ones, with the next offset of each.
        sink: notified of the beginning of each record.
        paused: seeks forward again where the client went back.
        timings: how long a turn may take.
    """

    def __init__(
        self,
        application: LakeApplication,
        assignments: Assignments,
        sink: LakeSink,
        paused: PausedPartitions,
        timings: Timings = DEFAULT,
    ) -> None:
        self._application = application
        self._assignments = assignments
        self._sink = sink
        self._paused = paused
        self._timings = timings
        self._has_begun = False  # a message came in this step of the loop
        self._composed: dict[str, Callable[..., None]] | None = None
        self._executors: dict[str, Callable[..., None]] = {}

    def turn(self, executors: dict[str, Callable[..., None]]) -> None:
        """See ``app.consumer.loop.Poll``."""
        application = self._application
        watched = self._watched(executors)
        clock = self._timings.clock
        until = clock() + self._timings.turn_seconds
        for _ in range(_TURN_MESSAGES):
            self._has_begun = False
            application.process_one(watched)
            is_over = not self._has_begun or application.is_stopping or self._sink.is_full
            if is_over or application.recovers_state or clock() > until:
                return

    def _watched(self, composed: dict[str, Callable[..., None]]) -> dict[str, Callable[..., None]]:
        """The same executors, which also notify the sink of the beginning of each record."""
        if self._composed is not composed:
            self._composed = composed
            self._executors = {name: self._beginning(execute) for name, execute in composed.items()}
        return self._executors

    def _beginning(self, execute: Callable[..., None]) -> Callable[..., None]:
        begin, current = self._sink.begin_record, self._application.current
        find, seek_to_expected = self._assignments.find, self._paused.seek_to_expected

        def run(value: Any, key: Any, timestamp: int, headers: Any) -> None:
            self._has_begun = True
            message = message_context()
            assignment = find(message.topic, message.partition)
            if assignment is not None:
                if message.offset < assignment.expected:
                    seek_to_expected(assignment.tp, message.offset, assignment.expected)
                    return
                if assignment.uncommitted.oldest is None:  # each commit here is of all that was consumed
                    assignment.uncommitted.consumed(message.offset, known_timestamp(timestamp))
            begin(current.message)
            try:
                execute(value, key, timestamp, headers)
            except SystemExit as error:  # of a user's function: it would end the process without an error message
                ended = RuntimeError(f"it called sys.exit({error.code!r})")
                raise ended.with_traceback(error.__traceback__) from None

        return run
