"""The loop of the plain lane: polls thousands of messages, and hands them to the assignment of their partitions.

A partition is assigned to Kafka's client once it is claimed. So nothing is read before, and no partition is paused for
that.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, nullcontext
from operator import lt, methodcaller
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from quixstreams.kafka.exceptions import KafkaConsumerException

from app.bad_records.refusals import not_decompressed
from app.consumer.offsets import Copies, log_starts, mark_set_offsets
from app.consumer.plain.intake import TURN_SECONDS, Backpressure, Intake, Taken
from app.consumer.until import Until
from app.delivery.assignment import Assignment, Claimed, Partition
from app.delivery.claimer import taken_over
from app.delivery.member import Member
from app.delivery.members import Members
from app.errors import ConnectorError, RetryableError
from app.kafka.errors import cannot_be_decompressed, consuming_failed
from app.kafka.watch import recreated_error
from app.model import Message, TopicPartition, known_timestamp
from app.monitoring.status import DELETED, Consumption

logger = logging.getLogger(__name__)

# The client waits this long for as many messages as were asked for: the delay of the first one where few come.
_POLL_SECONDS = 0.1

_topic = methodcaller("topic")
_partition = methodcaller("partition")
_offset = methodcaller("offset")


class PlainLoop:
    """Runs until it is stopped or something fails. ``stop`` is safe in a signal handler; all else is for one thread.

    ``client`` belongs to the loop alone. ``on_turn`` is called at each turn with whether messages came.
    """

    def __init__(
        self,
        client: Consumer,
        intake: Intake,
        members: Members,
        on_turn: Callable[[bool], None],
        until: Until | None = None,
    ) -> None:
        self._client = client
        self._intake = intake
        self._members = members
        self._on_turn = on_turn
        self._until = until
        self._metrics = members.runtime.metrics
        self._timings = members.runtime.timings
        self._backpressure = Backpressure(client, members)
        self._copies = Copies(client, self._metrics, self._timings)
        self._has_topics = False
        self._is_stopping = False

    def stop(self) -> None:
        self._is_stopping = True

    def run(self, *topics: str) -> bool:
        """Consume until stopped; returns whether all that was read is in the lake."""
        self._has_topics = topics[1:] != () or topics[0].startswith("^")
        self._client.subscribe([*topics], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        try:
            while not self._is_stopping:
                self._turn()
            self._flush(self._timings.stop_seconds)
            self._members.raise_failure(also_aside=self._until is not None)
            for topic in self._members.aside:
                logger.warning(
                    "the table of topic %s is set aside: its records wait in Kafka for the next start", topic
                )
            return all(each.is_delivered for each in self._members.assignments)
        finally:
            self._give_up()
            self._client.close()

    # --- seen from other threads ------------------------------------------------------------------------------------

    def is_read(self, tp: TopicPartition) -> bool:
        """Whether messages of this partition come now, as far as this member knows."""
        _, partition = self._claimed(tp)
        return partition is not None and not self._backpressure.is_paused

    def consumption(self) -> Consumption:
        tps, aside = self._members.assigned, self._members.aside
        assignments, buffer = self._members.assignments, self._members.buffer
        return Consumption(
            assigned=len(tps),
            tps=tps,
            unclaimed=frozenset(tp for tp in tps if tp.topic not in aside and self._claimed(tp)[1] is None),
            aside=aside,
            left_out=self._members.left_out.copy(),
            fenced={tp: why for each in assignments for tp, why in each.fenced.items()},
            oldest={tp: at for each in assignments for tp, at in each.oldest_uncommitted.items()},
            consumed=self._backpressure.consumed,
            due_in=self._members.due_in,
            held_bytes=buffer.held_bytes,
            is_full=buffer.is_full,
            is_paused=self._backpressure.is_paused,
            is_stopping=self._is_stopping,
        )

    # --- rebalances, in a poll --------------------------------------------------------------------------------------

    def _assigned(self, client: Consumer, tps: list[KafkaTopicPartition]) -> None:
        client.assign([])  # nothing is read before it is claimed
        self._members.assigned = tuple(TopicPartition(tp.topic, tp.partition) for tp in tps)
        deleted = {topic for topic, why in self._members.left_out.items() if why == DELETED} - {tp.topic for tp in tps}
        self._members.left_out = dict.fromkeys(deleted, DELETED)
        if tps:
            self._begin(self._members.assigned)
        logger.info("assigned: %s", _listed(tps))

    def _revoked(self, client: Consumer, tps: list[KafkaTopicPartition]) -> None:
        self._flush(self._timings.revoke_seconds)
        self._give_up()
        client.unassign()
        logger.info("given away: %s", _listed(tps))

    def _lost(self, client: Consumer, tps: list[KafkaTopicPartition]) -> None:
        self._end_all()
        client.unassign()
        logger.warning("lost: %s; their new owner goes on from the journal", _listed(tps))

    def _begin(self, tps: Sequence[TopicPartition], closed: str | None = None) -> None:
        self._intake.observer.assigned(self._members.begin(tps, closed))

    def _give_up(self) -> None:
        """Commit what is in the lake, and end the assignments."""
        self._copies.copy(self._members.assignments, asynchronous=False)
        self._end_all()

    def _end_all(self) -> None:
        waiting, self._members.assigned = self._members.waiting, ()
        self._metrics.ended(waiting)
        for member in self._members.all:
            self._end(member)

    def _end(self, member: Member, *, is_given_up: bool = True) -> None:
        if (assignment := member.assignment) is not None:
            tps = tuple(assignment.partitions)
            if is_given_up:  # else its lag is still told
                self._metrics.ended(tps)
            self._intake.observer.unassigned(tps)
            self._backpressure.unassigned()
            member.end()

    # --- a turn -----------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        self._set_failed_aside()
        if waiting := self._members.waiting:
            self._begin(waiting)
        self._claim_again()
        self._admit()
        self._backpressure.hold_back()
        has_come = self._may_poll() and self._poll()
        self._intake.observer.turn(is_in_trouble=self._members.is_in_trouble)
        self._set_failed_aside()
        self._copies.copy(self._members.assignments, asynchronous=True)
        self._on_turn(has_come)

    def _admit(self) -> None:
        """Read the partitions whose claims have succeeded, from where the log ends."""
        of_each: list[tuple[Assignment, list[Claimed]]] = []
        for topic, member in self._members.by_topic:
            if assignment := member.assignment:
                with self._else_aside(topic):
                    of_each.append((assignment, assignment.new_claims()))
        claims = [claim for _, new in of_each for claim in new]
        if not claims:
            return
        log_starts(claims, self._metrics)
        mark_set_offsets(claims, self._client.commit)
        for assignment, new in of_each:
            for claim in new:
                assignment.partitions[claim.tp].begin(claim.start.offset)
                self._metrics.begins(claim.tp, claim.start.offset)
        self._backpressure.begin()
        listed = (f"{claim.tp} from {claim.start.offset}" for claim in sorted(claims, key=lambda claim: claim.tp))
        logger.info("claimed: %s", ", ".join(listed))

    def _claim_again(self) -> None:
        """Begin another assignment of the same partitions if another member has closed the log of a present one.

        The claim then asks Kafka whether the partitions are still assigned to this member. The process ends if Kafka
        has not revoked them for too long.
        """
        for topic, member in self._members.by_topic:
            assignment = member.assignment
            fence = assignment.log.fence if assignment else None
            if assignment is None or fence is None:
                continue
            if member.reclaiming.may_again(fence.error):
                self._end(member)
                self._backpressure.begin()
                self._begin(tuple(assignment.partitions), str(fence.error))
            elif self._timings.clock() - fence.since > self._timings.fenced_seconds:
                self._set_aside(topic, taken_over(str(fence.error)))

    def _set_failed_aside(self) -> None:
        for topic, error in self._members.failed():
            self._set_aside(topic, error)

    def _set_aside(self, topic: str, error: ConnectorError) -> None:
        """Go on with the other tables; raises the error where there are none."""
        member = self._members.of(topic)
        self._members.set_aside(topic, error)
        if member:
            self._end(member, is_given_up=False)
            self._backpressure.begin()

    @contextmanager
    def _else_aside(self, topic: str) -> Iterator[None]:
        """Sets the topic's table aside if what is done for it fails."""
        try:
            yield
        except ConnectorError as error:
            self._set_aside(topic, error)

    def _may_poll(self) -> bool:
        if not self._members.assignments or self._backpressure.may_poll():
            return True
        self._intake.observer.waited()
        return False

    # --- messages ---------------------------------------------------------------------------------------------------

    def _poll(self) -> bool:
        """Take what the client has; returns whether messages came."""
        polled = self._client.consume(self._backpressure.most_messages, _POLL_SECONDS)
        messages = [message for message in polled if message.error() is None]
        left: set[TopicPartition] = set()
        if messages:
            begin = self._timings.clock()
            each = _by_partition(messages, has_topics=self._has_topics)
            taken = [self._take_or_fail(of_partition, begin + TURN_SECONDS, left) for of_partition in each]
            seconds = self._timings.clock() - begin
            self._backpressure.took(sum(each.messages for each in taken), sum(each.size for each in taken), seconds)
        if len(messages) < len(polled):  # the good ones first: an error may end the process
            self._failed([message for message in polled if message.error() is not None], left)
        return bool(messages)

    def _take_or_fail(self, messages: Sequence[Message], until: float, left: set[TopicPartition]) -> Taken:
        with self._else_aside(messages[0].topic()):
            return self._take(messages, until, left)
        return Taken(0, 0)

    def _take(self, messages: Sequence[Message], until: float, left: set[TopicPartition]) -> Taken:
        """Hand the messages of a partition to the assignment; ``left`` gets it if they are more than fit into a turn.

        Those that are left are read again: Kafka's client goes back to them.
        """
        tp = TopicPartition(messages[0].topic(), messages[0].partition())
        assignment, partition = self._claimed(tp)
        if assignment is None or partition is None:
            return Taken(0, 0)  # it was revoked, or assigned again, while these messages were fetched
        if self._until:
            messages = self._until.before(tp, messages, partition.taken)
            if not messages:
                self._client.pause([KafkaTopicPartition(*tp)])
                return Taken(0, 0)
        offsets = list(map(_offset, messages))
        if offsets[0] < partition.taken or not all(map(lt, offsets, offsets[1:])):
            raise self._went_back(tp, min(offsets), partition.taken)
        partition.uncommitted.consumed(offsets[0], known_timestamp(messages[0].timestamp()[1]))
        taken = self._intake.take(assignment, tp, messages, room=self._members.buffer.room, until=until)
        if taken.messages < len(messages):
            left.add(tp)
            self._go_back(tp, offsets[taken.messages])
        return taken

    def _claimed(self, tp: TopicPartition) -> tuple[Assignment | None, Partition | None]:
        member = self._members.of(tp.topic)
        assignment = member.assignment if member else None
        partition = assignment.partitions.get(tp) if assignment else None
        return assignment, partition if partition and partition.is_claimed else None

    def _went_back(self, tp: TopicPartition, given: int, expected: int) -> RetryableError:
        cause = f"Kafka gives offset {given} where {expected} comes next"
        if self._members.group.is_same_topic(tp) is False:
            return recreated_error(tp, cause)
        return RetryableError(f"consuming {tp}", cause, "The next start goes on from the journal")

    def _failed(self, failed: Sequence[Any], left: Set[TopicPartition]) -> None:
        """Raise an error, or pass over its message; not in partitions with messages that are ``left`` before it."""
        passed_over, gone = {*left}, set[str]()  # the client repeats an error
        for message in failed:
            failure = KafkaConsumerException(error=message.error())
            if not cannot_be_decompressed(failure):
                topic = message.topic()
                if not (self._has_topics and failure.code == KafkaError.UNKNOWN_TOPIC_OR_PART):
                    with self._else_aside(topic) if self._members.of(topic) else nullcontext():
                        consuming_failed(failure)
                elif topic not in gone and not topic.startswith("^"):
                    gone.add(topic)
                    self._gone(topic)
                continue
            tp = TopicPartition(message.topic(), message.partition())
            assignment, partition = self._claimed(tp)
            if assignment and partition and tp not in passed_over:
                passed_over.add(tp)
                self._pass_over(assignment, partition, message)

    def _gone(self, topic: str) -> None:
        """Go on with the other topics where one of several does not exist any more."""
        logger.warning(
            "topic %s does not exist: the others go on. If it was deleted, what was read of it and is not in its table "
            "yet is not written",
            topic,
        )
        self._members.leave_out(topic, DELETED)
        member = self._members.of(topic)
        tps = member.assignment.partitions.keys() if member and member.assignment else set[TopicPartition]()
        others = [tp for tp in tps if tp.topic != topic]
        if member and len(others) < len(tps):
            self._end(member)
            self._backpressure.begin()
            self._begin(others)

    def _pass_over(self, assignment: Assignment, partition: Partition, message: Any) -> None:
        """Go on behind a message that Kafka's client cannot decompress; the dead letter gets its offset and the reason.

        If several messages were compressed together, the client fails again until the last of them is passed over.
        """
        refusal = not_decompressed(message, max(message.offset(), partition.taken))
        partition.uncommitted.consumed(refusal.rejected.offset, refusal.rejected.timestamp)
        self._intake.reject(assignment, refusal)
        self._backpressure.consumed += 1
        self._go_back(partition.tp, partition.taken)

    def _go_back(self, tp: TopicPartition, offset: int) -> None:
        try:
            self._client.seek(KafkaTopicPartition(*tp, offset))
        except KafkaException as error:
            doing = f"going on with {tp} at offset {offset}"
            raise RetryableError(doing, str(error), "The next start goes on from the journal") from error

    # --- to the lake ------------------------------------------------------------------------------------------------

    def _flush(self, seconds: float) -> None:
        """Bring what was read into the lake, for so long: what is left is read again."""
        clock = self._timings.clock
        until, reason = clock() + seconds, self._members.buffer.flush_reason
        each = [(member.flow, assignment) for member in self._members.all if (assignment := member.assignment)]
        for _, assignment in each:
            assignment.end_batch(reason)
        for flow, assignment in each:
            while not flow.wait_delivered(assignment, self._timings.look_seconds):
                if flow.failure is not None or flow.lacks_topic or assignment.is_over or clock() >= until:
                    break
        if each:
            self._intake.observer.flushed()


def _by_partition(messages: Sequence[Message], *, has_topics: bool) -> list[list[Message]]:
    found: dict[Any, list[Message]] = defaultdict(list)
    partitions: Iterable[Any] = map(_partition, messages)
    if has_topics:
        partitions = zip(map(_topic, messages), partitions, strict=True)
    for partition, message in zip(partitions, messages, strict=True):
        found[partition].append(message)
    return list(found.values())


def _listed(tps: Sequence[KafkaTopicPartition]) -> str:
    return ", ".join(str(tp) for tp in sorted(TopicPartition(tp.topic, tp.partition) for tp in tps)) or "nothing"
