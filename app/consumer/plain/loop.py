"""The loop of the plain lane: polls thousands of messages, and passes them to the assignments of their partitions.

Kafka's client receives a partition only after the partition is claimed. Therefore no record is read too early.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from operator import lt, methodcaller
from typing import Any

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as KafkaTopicPartition
from quixstreams.kafka.exceptions import KafkaConsumerException

from app.bad_records.refusals import not_decompressed
from app.consumer.commits import OffsetCommitter
from app.consumer.plain.intake import TURN_SECONDS, Intake, Reading, Taken
from app.consumer.sink_observer import RunEnd
from app.delivery.assignment import Assignment, Partition
from app.delivery.members import Members
from app.errors import ConnectorError, RetryableError
from app.kafka.errors import cannot_be_decompressed, consuming_failed
from app.kafka.watch import TopicIds
from app.model import Message, TopicPartition, known_timestamp
from app.monitoring.status import Consumption

logger = logging.getLogger(__name__)

# The client waits this long for the requested number of messages. If few messages arrive, the first waits this long.
_POLL_SECONDS = 0.1

_topic = methodcaller("topic")
_partition = methodcaller("partition")
_offset = methodcaller("offset")


class PlainLoop:
    """Runs until the loop is stopped or fails. ``stop`` is safe in a signal handler. Other methods are for one thread.

    Only the loop uses ``client``. Each turn calls ``on_turn``, with ``True`` if messages were received.
    """

    def __init__(
        self,
        client: Consumer,
        intake: Intake,
        members: Members,
        on_turn: Callable[[bool], None],
        run_end: RunEnd | None = None,
    ) -> None:
        self._client = client
        self._intake = intake
        self._members = members
        self._on_turn = on_turn
        self._run_end = run_end
        self._timings = members.runtime.timings
        self._reading = Reading(client, members, intake.observer)
        self._committer = OffsetCommitter(client, members.runtime.metrics, self._timings)
        self._has_topics = False
        self._is_stopping = False

    def stop(self) -> None:
        self._is_stopping = True

    def run(self, *topics: str) -> bool:
        """Consume until the loop is stopped. Return whether all consumed records are in the lake."""
        self._has_topics = topics[1:] != () or topics[0].startswith("^")
        self._client.subscribe([*topics], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        try:
            while not self._is_stopping:
                self._turn()
            self._members.flush(self._timings.stop_seconds)
            self._intake.observer.flushed()
            self._members.raise_failure(also_suspended=self._run_end is not None)
            for topic in self._members.suspended:
                logger.warning("the table of topic %s is suspended: the next start reads its records", topic)
            return all(assignment.is_delivered for assignment in self._members.assignments)
        finally:
            self._end_assignments()
            self._client.close()

    # --- called by other threads ------------------------------------------------------------------------------------

    def is_read(self, tp: TopicPartition) -> bool:
        """Whether this member consumes the partition now."""
        _, partition = self._members.claimed_partition(tp)
        return partition is not None and not self._reading.is_paused

    def consumption(self) -> Consumption:
        members = self._members
        tps, suspended, assignments, buffer = members.assigned, members.suspended, members.assignments, members.buffer
        return Consumption(
            assigned=len(tps),
            tps=tps,
            unclaimed=frozenset(tp for tp in tps if tp.topic not in suspended and not members.claimed_partition(tp)[1]),
            suspended=suspended,
            left_out=members.left_out,
            deleted=members.deleted,
            fenced={tp: why for assignment in assignments for tp, why in assignment.fenced.items()},
            oldest={tp: at for assignment in assignments for tp, at in assignment.oldest_uncommitted.items()},
            consumed=self._reading.consumed,
            due_in=min((member.flow.ends.due_in for member in members.all), default=None),
            held_bytes=buffer.held_bytes,
            is_full=buffer.is_full,
            is_paused=self._reading.is_paused,
            is_stopping=self._is_stopping,
        )

    # --- rebalances, in a poll --------------------------------------------------------------------------------------

    def _assigned(self, client: Consumer, tps: list[KafkaTopicPartition]) -> None:
        client.assign([])  # a partition is read only after it is claimed
        self._members.assign(TopicPartition(tp.topic, tp.partition) for tp in tps)
        logger.info("assigned: %s", _listed(tps))

    def _revoked(self, client: Consumer, tps: list[KafkaTopicPartition]) -> None:
        seconds = self._timings.revoke_seconds  # during which all tables wait
        self._members.flush(seconds, seconds / 10)
        self._intake.observer.flushed()
        self._end_assignments()
        client.unassign()
        logger.info("revoked: %s", _listed(tps))

    def _lost(self, client: Consumer, tps: list[KafkaTopicPartition]) -> None:
        self._members.end()
        self._reading.end()
        client.unassign()
        logger.warning("lost: %s; their new owner continues from the journal", _listed(tps))

    def _end_assignments(self) -> None:
        """Commit the offsets of the records in the lake, and end the assignments."""
        self._committer.commit(self._members.assignments, asynchronous=False)
        self._members.end()
        self._reading.end()

    # --- a turn -----------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        self._members.suspend_failed()
        self._members.begin_waiting()
        self._members.claim_again()
        self._reading.begin_claimed()
        has_messages = self._reading.may_poll() and self._poll()
        self._intake.observer.turn(is_in_trouble=any(member.flow.is_in_trouble for member in self._members.all))
        self._members.suspend_failed()
        self._committer.commit(self._members.assignments, asynchronous=True)
        self._on_turn(has_messages)

    # --- messages ---------------------------------------------------------------------------------------------------

    def _poll(self) -> bool:
        """Poll Kafka's client, and take the messages. Return whether messages were received."""
        polled = self._client.consume(self._reading.most_messages, _POLL_SECONDS)
        messages = [message for message in polled if message.error() is None]
        unfinished: set[TopicPartition] = set()
        if messages:
            taken: list[Taken] = []
            begin = self._timings.clock()
            for of_partition in _by_partition(messages, has_topics=self._has_topics):
                with self._members.suspending_on_error(of_partition[0].topic()):
                    taken.append(self._take(of_partition, begin + TURN_SECONDS, unfinished))
            seconds = self._timings.clock() - begin
            self._reading.count_taken(sum(part.messages for part in taken), sum(part.size for part in taken), seconds)
        if len(messages) < len(polled):  # errors are handled after the messages, because an error may end the process
            self._failed([message for message in polled if message.error() is not None], unfinished)
        return bool(messages)

    def _take(self, messages: Sequence[Message], until: float, unfinished: set[TopicPartition]) -> Taken:
        """Pass the messages of a partition to its assignment.

        If they exceed one turn, the partition is added to ``unfinished``, and Kafka's client reads the rest again.
        """
        tp = TopicPartition(messages[0].topic(), messages[0].partition())
        assignment, partition = self._members.claimed_partition(tp)
        if assignment is None or partition is None:
            return Taken(0, 0)  # the partition was revoked or assigned again after the client fetched these messages
        if self._run_end:
            messages = self._run_end.before(tp, messages, partition.taken)
            if not messages:
                self._client.pause([KafkaTopicPartition(*tp)])
                return Taken(0, 0)
        offsets = list(map(_offset, messages))
        if offsets[0] < partition.taken or not all(map(lt, offsets, offsets[1:])):
            raise _went_back_error(self._members.group.topic_ids, tp, min(offsets), partition.taken)
        partition.uncommitted.consumed(offsets[0], known_timestamp(messages[0].timestamp()[1]))
        taken = self._intake.take(assignment, tp, messages, room=self._members.buffer.room, until=until)
        if taken.messages < len(messages):
            unfinished.add(tp)
            self._reading.seek(tp, offsets[taken.messages])
        return taken

    def _failed(self, failed: Sequence[Any], unfinished: Set[TopicPartition]) -> None:
        """Raise the messages' errors, or skip the messages. ``unfinished`` partitions are not skipped: they reread."""
        ignored = {*unfinished}  # the client repeats an error
        for message in failed:
            failure, topic = KafkaConsumerException(error=message.error()), message.topic()
            with self._members.suspending_on_error(topic):
                if cannot_be_decompressed(failure):
                    tp = TopicPartition(topic, message.partition())
                    assignment, partition = self._members.claimed_partition(tp)
                    if assignment and partition and tp not in ignored:
                        ignored.add(tp)
                        self._skip(assignment, partition, message)
                elif not (self._has_topics and failure.code == KafkaError.UNKNOWN_TOPIC_OR_PART):
                    consuming_failed(failure)
                elif not topic.startswith("^"):
                    self._members.note_deleted(topic)

    def _skip(self, assignment: Assignment, partition: Partition, message: Any) -> None:
        """Skip a message that Kafka's client cannot decompress. The dead letter receives its offset and the reason.

        If several messages were compressed together, the client fails again until the last of them is skipped.
        """
        refusal = not_decompressed(message, max(message.offset(), partition.taken))
        partition.uncommitted.consumed(refusal.rejected.offset, refusal.rejected.timestamp)
        self._intake.reject(assignment, refusal)
        self._reading.consumed += 1
        self._reading.seek(partition.tp, partition.taken)


def _by_partition(messages: Sequence[Message], *, has_topics: bool) -> list[list[Message]]:
    by_partition: dict[Any, list[Message]] = defaultdict(list)
    partitions: Iterable[Any] = map(_partition, messages)
    if has_topics:
        partitions = zip(map(_topic, messages), partitions, strict=True)
    for partition, message in zip(partitions, messages, strict=True):
        by_partition[partition].append(message)
    return list(by_partition.values())


def _went_back_error(topic_ids: TopicIds, tp: TopicPartition, received: int, expected: int) -> RetryableError:
    with suppress(ConnectorError):  # Kafka may not answer the query whether the topic was recreated
        if recreated := topic_ids.recreated([tp]):
            return recreated
    cause = f"Kafka returned offset {received} instead of {expected} or a later one"
    return RetryableError(f"consuming {tp}", cause, "The next start continues from the journal")


def _listed(tps: Sequence[KafkaTopicPartition]) -> str:
    return ", ".join(str(tp) for tp in sorted(TopicPartition(tp.topic, tp.partition) for tp in tps)) or "nothing"
