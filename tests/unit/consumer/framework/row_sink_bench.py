"""The sink of the framework's lane with what it needs around it; the bench does what quixstreams does."""

import threading
from collections.abc import Sequence
from typing import Any

from quixstreams.models import MessageContext

from app.bad_records.refusals import BadRecords, OnBadRecord, Refusal
from app.consumer.framework.current import CurrentMessage, Due
from app.consumer.framework.flushing import Flushing
from app.consumer.framework.sink import RowSink
from app.consumer.sink_observer import NOBODY, Observed, SinkObserver
from app.model import Rejected, TopicPartition
from app.reason_texts import Reason
from tests.fakes.kafka_message import KafkaMessage
from tests.fakes.manual_member import ManualMember
from tests.support.waiting import join
from tests.support.world import P0

NOON = 1_705_320_000_000


class Bench:
    def __init__(
        self,
        *,
        on_bad_record: OnBadRecord = "dead-letter",
        observer: SinkObserver = NOBODY,
        can_go_back: bool = True,
        **of_member: Any,
    ) -> None:
        self.member = ManualMember(**of_member)
        self.clock = self.member.clock
        self.current = CurrentMessage(1_000)
        self.commits: list[tuple[dict[TopicPartition, int], int]] = []  # each with how many portions there were
        self.sink = RowSink(
            self.member,
            Flushing(self.member, self._commit),
            BadRecords(on_bad_record, lambda _: None, self.clock),
            self.current,
            Due(5.0, self.member.runtime.timings),
            Observed(observer),
            can_go_back=can_go_back,
        )
        self.sink.setup()

    def _commit(self, *, offsets: list[Any], asynchronous: bool) -> None:
        assert not asynchronous
        committed = {TopicPartition(tp.topic, tp.partition): tp.offset for tp in offsets}
        self.commits.append((committed, len(self.member.portions)))

    def process(
        self,
        offset: int,
        *values: Any,
        tp: TopicPartition = P0,
        error: bool = False,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """A message becomes these rows; with ``error``, ``transform()`` then fails."""
        self.begin(offset, tp, headers)
        for value in values:
            self.sink.add(value, b"k", NOON, list(headers), *tp, offset)
        if error:
            self.sink.reject(refused(offset, tp), is_deserialized=True)
        self.sink.message_processed(tp, offset)

    def begin(self, offset: int, tp: TopicPartition = P0, headers: Sequence[tuple[str, bytes]] = ()) -> None:
        context = MessageContext(tp.topic, tp.partition, offset, 10)
        raw = b"raw %d" % offset
        self.current.begin(KafkaMessage(raw, raw, offset, tp.partition, tp.topic, raw_headers=list(headers)))
        self.sink.begin_record(context, NOON)

    def rows(self, *offsets: int, tp: TopicPartition = P0) -> None:
        for offset in offsets:
            self.process(offset, {"v": offset}, tp=tp)

    def not_deserialized(self, offset: int, tp: TopicPartition = P0) -> None:
        self.sink.reject(refused(offset, tp), is_deserialized=False)

    def flush_while_revoked(self) -> Exception | None:
        """Flush on a thread, as quixstreams does; returns what it raised."""
        raised: list[Exception] = []

        def flush() -> None:
            try:
                self.sink.flush()
            except Exception as error:  # noqa: BLE001
                raised.append(error)

        thread = threading.Thread(target=flush)
        thread.start()
        join(thread)
        return raised[0] if raised else None

    @property
    def taken(self) -> list[tuple[int, Any]]:
        """The partition's number and the value of each row that went to the pipeline."""
        return [(piece.tp.partition, row.value["v"]) for piece in self.member.pieces for row in piece.rows]

    @property
    def ends(self) -> dict[TopicPartition, int]:
        return {piece.tp: piece.end for piece in self.member.pieces}

    @property
    def rejected(self) -> list[int]:
        return [record.offset for record in self.member.rejected]


def refused(offset: int, tp: TopicPartition = P0) -> Refusal:
    return Refusal(Rejected(tp, offset, NOON, b"k", b"v", None, Reason("no JSON")), "correct it")
