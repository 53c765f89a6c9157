"""What a consumer of either lane has around it: the clock stands still, and the member delivers by hand."""

from dataclasses import replace

from app.errors import RetryableError
from app.model import TopicPartition
from app.timings import Timings
from tests.fakes.clock import Clock
from tests.fakes.manual_member import ManualMember
from tests.support.batches import UNBOUNDED

P0, P1 = TopicPartition("sensors", 0), TopicPartition("sensors", 1)
AWAY = RetryableError("uploading s3://lake/x", "no route to host")


class ConsumerBench:
    """The member delivers while a flush waits, unless a test says otherwise."""

    def __init__(
        self, *, clock: Clock | None = None, batch_size: int = 1_000, max_buffer_bytes: int = 1_000_000
    ) -> None:
        self.clock = clock or Clock()
        self.timings = Timings(clock=self.clock)
        limits = replace(UNBOUNDED, batch_size=batch_size, max_buffer_bytes=max_buffer_bytes, max_record_bytes=1_000)
        self.member = ManualMember(self.clock, limits)
