"""A process of the framework's lane: the stock application over a played client, and parts of ``stepped_member``."""

import logging
from collections.abc import Callable
from typing import Any

from quixstreams import Application
from quixstreams.context import message_context
from quixstreams.models import Row, Topic

from app.bad_records.refusals import BadRecords
from app.consumer.commits import commit_where_partitions_begin, mark_commits
from app.consumer.errors import translated
from app.consumer.framework.application import Callbacks
from app.consumer.framework.current import CurrentMessage, Due
from app.consumer.framework.flushing import Flushing
from app.consumer.framework.sink import RowSink
from app.consumer.sink_observer import Observed
from app.model import TopicPartition
from tests.fakes.kafka_message import KafkaMessage
from tests.faults.kafka_model import TOPIC, Consumer, Group, to_kafka
from tests.faults.stepped_member import COMMIT_SECONDS, KINDS, LIMITS, METADATA, Process, World
from tests.support.batches import spec, stager


class Client(Consumer):
    """What quixstreams uses of librdkafka's consumer; some messages are no JSON."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self.on_error: Callable[[Exception, KafkaMessage], bool]

    def poll_row(self, timeout: float, buffered: bool) -> Row | None:
        row = super().poll_row(timeout, buffered)
        if row is None or row.value != {"kind": "bad"} or row.offset % 2:
            return row
        message = KafkaMessage(b"{", b"key", row.offset, row.partition, row.topic)
        assert self.on_error(ValueError("no JSON"), message)
        return None


class FrameworkMember(Process):
    def __init__(self, name: str, world: World) -> None:
        client = Client(world.group)
        super().__init__(
            name, world, client, lambda root: stager(spec("p"), table_root=root, metadata=METADATA), LIMITS
        )
        current = CurrentMessage(1_000_000)
        callbacks = Callbacks(current)
        arguments = callbacks.arguments({})
        self._application = Application(
            broker_address="127.0.0.1:9",
            consumer_group="group",
            commit_interval=1e9,
            broker_availability_timeout=0,
            loglevel=None,
            state_dir=world.scratch / name / "state",
            **arguments,
        )
        consumer: Any = self._application._consumer
        for method in ("poll_row", "commit", "assign", "assignment", "position", "pause", "resume", "seek"):
            setattr(consumer, method, getattr(client, method))
        mark_commits(consumer)
        self._due = Due(COMMIT_SECONDS, self.timings)
        self.sink = callbacks.sink = RowSink(
            self.member,
            Flushing(self.member, consumer.commit),
            BadRecords("dead-letter", lambda _: None, world.clock),
            current,
            self._due,
            Observed(),
        )
        client.on_error = lambda error, message: bool(
            arguments["on_consumer_error"](error, message, logging.getLogger())
        )
        self._application._topic_manager._regular_topics[TOPIC] = Topic(TOPIC)  # else it would be a changelog
        producer: Any = self._application._producer
        producer.poll = lambda _: None
        producer.flush = lambda **_: 0  # how many messages are left
        self._context = self._application._processing_context
        self._context.revoke_flush_timeout = -1.0  # none: it would be told by a real clock
        self._context.sink_manager.register(self.sink)
        self._context.init_checkpoint()  # type: ignore[no-untyped-call]
        self._is_stable = True

    @property
    def held_bytes(self) -> int:
        return self.sink.consumption(0).held_bytes

    def _is_journaled(self, tp: TopicPartition) -> bool:
        """A partition without records is not claimed, nor is one that begins at its end by a time."""
        records, committed = len(self.group.records[tp]), self.group.committed.get(tp)
        return committed == records or not records or super()._is_journaled(tp)

    def _assigned(self, tps: list[TopicPartition]) -> None:
        self.sink.setup()
        self._is_stable = False
        if self.group.reset != "earliest":  # as before it subscribes
            played: Any = self.kafka
            commit_where_partitions_begin(played, [(tp, self.member.would_begin(tp)) for tp in tps])
        self._application._on_assign(None, to_kafka(tps))

    def _turns(self, count: int) -> None:
        for _ in range(count):
            self._translating(self._turn)

    def _turn(self) -> None:
        self._application._process_message({TOPIC: self._dataframe})  # type: ignore[no-untyped-call]
        due_in = self._due.seconds
        if due_in is not None and due_in <= 0:
            self._commit()

    def _checkpoint(self) -> None:
        self._translating(self._commit)
        self._translating(self._tick)

    def _commit(self) -> None:
        self._context.commit_checkpoint(force=True)
        self._application._consumer.resume_backpressured()  # type: ignore[no-untyped-call]

    def _tick(self) -> None:
        is_stable, self._is_stable = self._is_stable, True
        self.sink.tick(is_stable=is_stable)

    def _dataframe(self, value: Any, key: Any, timestamp: int, headers: Any) -> None:
        context = message_context()
        self.sink.begin_record(context, timestamp)
        for result in KINDS[value["kind"]]:
            self.sink.add(result, key, timestamp, headers, context.topic, context.partition, context.offset)

    def _revoke(self) -> None:
        self._is_stable = False
        tps = self.kafka.assigned
        self._translating(lambda: self._application._on_revoke(None, to_kafka(tps)))
        self.kafka.forget(tps)

    def _lose(self) -> None:
        self._is_stable = False
        tps = self.kafka.assigned
        self._application._on_lost(None, to_kafka(tps))
        self.kafka.forget(tps)

    def _stop(self) -> None:
        self.sink.stop()
        self._translating(lambda: self._context.commit_checkpoint(force=True))
        self._revoke()

    def _fail(self) -> None:
        """quixstreams commits nothing after an error."""

    def _translating(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:
            raise translated(error) from error
