"""The connector's part of the consumer's loop: its turns, assignments, revocations and commits."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from quixstreams.exceptions import PartitionAssignmentError
from quixstreams.models import Row

from app.consumer.application import LakeApplication
from app.consumer.assignment import Assignments
from app.consumer.checkpoints import Checkpoints
from app.consumer.errors import of_rebalance
from app.consumer.paused_partitions import PausedPartitions
from app.consumer.record_poll import RecordPoll
from app.consumer.rejections import RejectedMessages
from app.consumer.sink import LakeSink
from app.errors import DataError
from app.model import Message, TopicPartition
from app.monitoring.metrics import Metrics
from app.timings import DEFAULT, Timings

_MOST_CLAIMS_AGAIN = 3  # in ``Timings.claim_again_seconds``


class Poll(Protocol):
    """Consumes messages: in batches (``BatchPoll``) or record by record (``RecordPoll``)."""

    def turn(self, executors: dict[str, Callable[..., None]]) -> None:
        """Consume the next messages and hand their rows to the sink.

        Args:
            executors: of the dataframes, by the name of their topic.
        """


class ConsumerLoop:
    """Handles turns, assignments and commits when the application calls it. For the consumer's thread.

    Args:
        application: runs the loop.
        assignments: the current ones.
        sink: gets all rows.
        poll: consumes.
        checkpoints: commit offsets; of the kind that fits ``poll``.
        paused: the partitions that wait for their claims.
        rejected: takes messages that cannot become rows.
        on_turn: called at each turn.
        metrics: records the committed offsets and the revocations.
        timings: in which time a closed generation may be claimed again a few times.
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
        on_turn: Callable[[], None],
        metrics: Metrics | None = None,
        timings: Timings = DEFAULT,
    ) -> None:
        self._application = application
        self._consumer = application.consumer
        self._assignments = assignments
        self._sink = sink
        self._poll = poll
        self.checkpoints = checkpoints
        self._paused = paused
        self._rejected = rejected
        self._on_turn = on_turn
        self._metrics = metrics or Metrics()
        self._timings = timings
        self._claimed_again: deque[float] = deque(maxlen=_MOST_CLAIMS_AGAIN)  # when, in monotonic seconds
        self._is_paused = False

    # --- seen from other threads ------------------------------------------------------------------------------------

    @property
    def has_claimed_all(self) -> bool:
        """Whether all assigned partitions are claimed; the others are paused."""
        return self._paused.is_complete

    @property
    def is_paused(self) -> bool:
        """Whether consuming is paused because the store or the catalog is away."""
        return self._is_paused

    @property
    def unclaimed(self) -> frozenset[TopicPartition]:
        """The assigned partitions that are not claimed yet."""
        return self._paused.tps

    # --- called by the application ----------------------------------------------------------------------------------

    def turn(self, executors: dict[str, Callable[..., None]]) -> None:
        """One turn of the framework's loop."""
        if self._application.is_stopping:  # a stop before the loop began is forgotten by the framework
            self._application.stop()
            return
        self._claim_again()
        self._paused.turn()
        self._check_after_pause()
        try:
            self._poll.turn(executors)
        except DataError as error:
            self._commit_before(error)
            raise
        except PartitionAssignmentError as error:
            raise of_rebalance(error) from None
        self._sink.turn()
        if self._sink.is_full:
            self.checkpoints.commit_checkpoint(force=True)
        self._on_turn()

    def _claim_again(self) -> None:
        """Begin a new generation of the same partitions if another member has closed the log of the present one.

        The claim then asks Kafka whether the partitions are still assigned to this member. With state in
        ``transform()`` the process ends instead: state cannot go back to the last commit without a new assignment.
        """
        closed = self._assignments.closed
        if closed is None or self._application.keeps_state or not self._may_claim_again():
            return
        tps, reason = closed
        self._claimed_again.append(self._timings.clock())
        self._drop_uncommitted(tps)
        self._paused.begin(tps, self.assigned(tps), reason)

    def _may_claim_again(self) -> bool:
        """Whether it has not happened too often: two members of different clusters would do it for ever in turn."""
        if len(self._claimed_again) < _MOST_CLAIMS_AGAIN:
            return True
        return self._timings.clock() - self._claimed_again[0] > self._timings.claim_again_seconds

    def _drop_uncommitted(self, tps: Sequence[TopicPartition]) -> None:
        """Drop what was read of these partitions and is not committed, here and in the framework."""
        for sink in self.checkpoints.sink_manager.sinks:
            sink.on_paused()  # type: ignore[no-untyped-call]
        self._consumer.reset_backpressure()
        for tp in tps:
            self._consumer._buffer.clear(topic=tp.topic, partition=tp.partition)
        self.lost(tps)

    def _check_after_pause(self) -> None:
        was_paused, self._is_paused = self._is_paused, bool(self._consumer.backpressured_tps)
        if was_paused and not self._is_paused:
            self._paused.check_topics(self._assignments.tps)

    def _commit_before(self, error: DataError) -> None:
        """Write and commit the records before a bad one, so that a restart begins at the bad record.

        With state, a restart begins at the last commit instead: the state already has the effects of the bad record.
        """
        if self._application.keeps_state:
            return
        if error.record is not None:
            self._sink.discard(*error.record)
        self.checkpoints.last_chance = True
        self.checkpoints.commit_checkpoint(force=True)

    def stopping(self) -> None:
        """Prepare the last commit, with a shorter deadline: the process was asked to stop."""
        self.checkpoints.last_chance = True
        self._sink.stopping()

    def consuming_failed(self, error: Exception, message: Message | None) -> bool:
        """See ``RejectedMessages.consuming_failed``."""
        return self._rejected.consuming_failed(error, message)

    def processing_failed(self, error: Exception, row: Row | None) -> bool:
        """See ``RejectedMessages.processing_failed``."""
        return self._rejected.processing_failed(error, row)

    def assigned(self, tps: Sequence[TopicPartition]) -> str:
        """Begin a new assignment of these partitions; returns the token of the generation."""
        return self._sink.assign(tps)

    def claim(self, tps: Sequence[TopicPartition], token: str) -> None:
        """Keep these partitions paused until they are claimed for the generation with this token."""
        self._paused.begin(tps, token)

    def revoking(self, *, active: bool) -> None:
        """Note that a revocation begins or ends; see ``LakeSink.revoking``."""
        self._sink.revoking(active=active)

    def ended(self, tps: Sequence[TopicPartition]) -> None:
        """End the assignments of these partitions."""
        self._metrics.ended(tps)
        self._paused.end(tps)
        self._sink.unassign(tps)

    def lost(self, tps: Sequence[TopicPartition]) -> None:
        """End the assignments of these partitions, which another member got or claimed without a revocation."""
        self.ended(tps)
        # The old checkpoint has offsets of rows that this member will never write.
        self.checkpoints.init_checkpoint()

    def committed(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Record these committed offsets; after a flush that asked for a pause, nothing was committed."""
        if self._sink.last_flush_ok:
            following = {TopicPartition(*tp): offset + 1 for tp, offset in offsets.items()}
            self._metrics.committed(following)
            self._assignments.committed(following)


def new_loop(
    *,
    application: LakeApplication,
    assignments: Assignments,
    sink: LakeSink,
    paused: PausedPartitions,
    on_turn: Callable[[], None],
    metrics: Metrics | None = None,
    timings: Timings = DEFAULT,
) -> ConsumerLoop:
    """Builds the loop; see ``ConsumerLoop`` for the arguments."""
    rejected = RejectedMessages(
        consumer=application.consumer,
        assignments=assignments,
        sink=sink,
        checkpoints=application.checkpoints,
        paused=paused,
        current=application.current,
    )
    return ConsumerLoop(
        application=application,
        assignments=assignments,
        sink=sink,
        poll=RecordPoll(application, assignments, sink, paused, timings),
        checkpoints=application.checkpoints,
        paused=paused,
        rejected=rejected,
        on_turn=on_turn,
        metrics=metrics,
        timings=timings,
    )
