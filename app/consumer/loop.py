"""Our part of the consumer's loop: what happens at each turn, at an assignment and when a partition is revoked."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from quixstreams.exceptions import PartitionAssignmentError
from quixstreams.models import Row

from app.consumer.application import LakeApplication
from app.consumer.assignment import Assignments
from app.consumer.batch_poll import BatchPoll
from app.consumer.checkpoints import BatchCheckpoints, Checkpoints
from app.consumer.errors import of_rebalance
from app.consumer.marked_commits import mark_commits
from app.consumer.paused_partitions import Claiming, PausedPartitions
from app.consumer.record_poll import RecordPoll
from app.consumer.rejections import RejectedMessages
from app.consumer.sink import LakeSink
from app.errors import DataError
from app.model import Message, TopicPartition
from app.monitoring.metrics import Metrics
from app.timings import DEFAULT, Timings


class Poll(Protocol):
    """Consumes what there is: in batches (``BatchPoll``) or record by record (``RecordPoll``)."""

    def turn(self, executors: dict[str, Callable[..., None]]) -> None:
        """Hand what comes next to the sink.

        Args:
            executors: of the dataframes, by the name of their topic.
        """


class ConsumerLoop:
    """Turns, assignments and commits, as the application tells of them. For the consumer's thread.

    Args:
        application: runs the loop.
        assignments: the present ones.
        sink: gets all rows.
        poll: consumes.
        checkpoints: commit offsets; of the kind that fits ``poll``.
        paused: the partitions that wait for their claims.
        rejected: takes messages that become no row.
        claims: told of commits.
        on_turn: called at each turn.
        metrics: told how far each partition is committed, and when it is revoked.
    """

    def __init__(
        self,
        *,
        application: LakeApplication,
        assignments: Assignments,
        sink: LakeSink,
        poll: Poll,
        checkpoints: Checkpoints,
        paused: PausedPartitions,
        rejected: RejectedMessages,
        claims: Claiming,
        on_turn: Callable[[], None],
        metrics: Metrics | None = None,
    ) -> None:
        self._application = application
        self._consumer = application.consumer
        self._assignments = assignments
        self._sink = sink
        self._poll = poll
        self.checkpoints = checkpoints
        self._paused = paused
        self._rejected = rejected
        self._claims = claims
        self._on_turn = on_turn
        self._metrics = metrics or Metrics()
        self._is_paused = False

    # --- seen from other threads ------------------------------------------------------------------------------------

    @property
    def has_claimed_all(self) -> bool:
        """Whether all assigned partitions are claimed; the others are paused."""
        return self._paused.is_complete

    @property
    def is_paused(self) -> bool:
        """Whether the destination does not take what comes, so that nothing is consumed."""
        return self._is_paused

    # --- called by the application ----------------------------------------------------------------------------------

    def turn(self, executors: dict[str, Callable[..., None]]) -> None:
        """One turn of the framework's loop."""
        if self._application.is_stopping:  # a stop before the loop began is forgotten by the framework
            self._application.stop()
            return
        self._paused.turn()
        self._check_after_pause()
        if self._sink.is_full and self.checkpoints.wait_for_room():
            self._on_turn()
            return  # the framework's loop goes on: signals and commits
        try:
            self._poll.turn(executors)
        except DataError as error:
            self._commit_before(error)
            raise
        except PartitionAssignmentError as error:
            raise of_rebalance(error) from None
        self._sink.turn()
        if self._sink.is_full and not self.checkpoints.wait_for_room():
            self.checkpoints.commit_checkpoint(force=True)
        self._on_turn()

    def _check_after_pause(self) -> None:
        was_paused, self._is_paused = self._is_paused, bool(self._consumer.backpressured_tps)
        if was_paused and not self._is_paused:
            self._paused.check_topics(self._assignments.tps)

    def _commit_before(self, error: DataError) -> None:
        """Bring what came before a bad record into the lake, so that a restart begins at that very record.

        Not so with state, for that has what the bad record did to it: a restart begins at the last commit then.
        """
        if self._application.keeps_state:
            return
        if error.record is not None:
            self._sink.discard(*error.record)
        self.checkpoints.last_chance = True
        self.checkpoints.commit_checkpoint(force=True)

    def stopping(self) -> None:
        """The process is asked to stop: there is one more commit, with a shorter deadline."""
        self.checkpoints.last_chance = True
        self._sink.stopping()

    def failed(self) -> None:
        """An error ends the loop: commit what is in the lake, unless what is done beside rows would lack it."""
        if not self._application.begins_at_commit:
            self.checkpoints.commit_delivered(self._sink.is_delivered)

    def consuming_failed(self, error: Exception, message: Message | None) -> bool:
        """See ``RejectedMessages.consuming_failed``."""
        return self._rejected.consuming_failed(error, message)

    def processing_failed(self, error: Exception, row: Row | None) -> bool:
        """See ``RejectedMessages.processing_failed``."""
        return self._rejected.processing_failed(error, row)

    def assigned(self, tps: Sequence[TopicPartition]) -> dict[TopicPartition, str]:
        """Begin a new life for each of these partitions; returns the tokens of their assignments."""
        return self._sink.assign(tps)

    def claim(self, tokens: Mapping[TopicPartition, str]) -> None:
        """Keep these partitions paused until they are claimed."""
        self._paused.begin(tokens)

    def revoking(self, *, active: bool) -> None:
        """Partitions are being revoked; see ``LakeSink.revoking``."""
        self._sink.revoking(active=active)

    def ended(self, tps: Sequence[TopicPartition]) -> None:
        """These partitions are not ours any more."""
        self._metrics.ended(tps)
        self._paused.end(tps)
        self._sink.unassign(tps)

    def lost(self, tps: Sequence[TopicPartition]) -> None:
        """These partitions went to another member without our being asked."""
        self.ended(tps)
        # The old checkpoint holds offsets of rows that will never be written here.
        self.checkpoints.init_checkpoint()

    def committed(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """The checkpoint is through; after a flush that asked for a pause nothing was committed."""
        if self._sink.last_flush_ok:
            self._metrics.committed({TopicPartition(*tp): offset + 1 for tp, offset in offsets.items()})
            tokens = {self._assignments.token(TopicPartition(*tp)): offset for tp, offset in offsets.items()}
            self._claims.advance({token: offset for token, offset in tokens.items() if token})


def new_loop(
    *,
    application: LakeApplication,
    assignments: Assignments,
    sink: LakeSink,
    paused: PausedPartitions,
    claims: Claiming,
    on_turn: Callable[[], None],
    in_batches: bool,
    metrics: Metrics | None = None,
    timings: Timings = DEFAULT,
) -> ConsumerLoop:
    """The loop of one of the two kinds, from parts that are there; for these see ``ConsumerLoop``.

    With ``in_batches``, messages go to the sink as they come, for they need no ``transform()``. There is neither state
    nor a produced record then that has to be safe before offsets are committed.
    """
    mark_commits(application.consumer, claims.topic_id)
    checkpoints = BatchCheckpoints.in_place_of(application.checkpoints, sink) if in_batches else application.checkpoints
    rejected = RejectedMessages(
        consumer=application.consumer,
        assignments=assignments,
        sink=sink,
        checkpoints=checkpoints,
        paused=paused,
        current=application.current,
    )
    poll = (
        BatchPoll(
            consume=application.consume,
            assignments=assignments,
            sink=sink,
            checkpoints=checkpoints,
            paused=paused,
            rejected=rejected,
        )
        if in_batches
        else RecordPoll(application, assignments, sink, paused, timings)
    )
    return ConsumerLoop(
        application=application,
        assignments=assignments,
        sink=sink,
        poll=poll,
        checkpoints=checkpoints,
        paused=paused,
        rejected=rejected,
        claims=claims,
        on_turn=on_turn,
        metrics=metrics,
    )
