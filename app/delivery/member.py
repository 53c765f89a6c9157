"""A member of the consumer group: writes one table's records from Kafka's partitions to the lake.

A lane begins an assignment, hands records to the assignment, and reads free memory and failures from ``flow``. The
member creates all Python objects that write the lane's records to the table.
"""

import logging
from collections import deque
from collections.abc import Collection
from functools import partial

from app.bad_records.dead_letter import SCHEMA as DEAD_LETTER
from app.catalog.registrar import Registrar
from app.delivery.assignment import Assignment
from app.delivery.claimer import Claimer, Group
from app.delivery.deliver import Delivery
from app.delivery.flow import Flow
from app.delivery.gather import Gathering
from app.delivery.pipeline import Pipeline, Writer
from app.delivery.runtime import Buffer, Runtime
from app.delivery.stage import Stager
from app.errors import ConnectorError
from app.journal.first_offsets import FirstOffsets
from app.journal.journal import FencedError, Journal, LogClosedError, ObsoleteLogs
from app.journal.late_uploads import Placeholders
from app.journal.own_log import OwnLog
from app.journal.recovery import Settlement, roll_forward
from app.journal.start_offset import Beginnings, Start
from app.journal.takeover import Takeover
from app.kafka.questions import PartitionOffsets
from app.model import TopicPartition
from app.storage.base import ObjectStore

logger = logging.getLogger(__name__)

_MOST_AGAIN = 3  # claims within ``Timings.claim_again_seconds``


class Member:
    """A member. Only the consumer's thread may call a method, if the method's docstring allows no other thread.

    Attributes:
        flow: The records that are not in the lake yet; thread-safe.
        pipeline: The steps of the member's batches.
    """

    def __init__(
        self,
        store: ObjectStore,
        registrar: Registrar,
        stager: Stager,
        buffer: Buffer,
        writer: Writer,
        group: Group,
        runtime: Runtime,
    ) -> None:
        root, settings, threads = registrar.location.root, group.settings, runtime.threads
        self.group = group
        self.runtime = runtime
        self.flow = Flow(buffer, runtime)
        delivery = Delivery(self.flow, store, registrar, runtime, group.topic_ids.recreated)
        self.pipeline = Pipeline(self.flow, Gathering(self.flow, stager, runtime, registrar.as_known), writer, delivery)
        self._claimed_again_at: deque[float] = deque(maxlen=_MOST_AGAIN)
        journal, parallel_map = Journal(store, root, group.name), threads.new_pool("recovery", runtime.workers).map
        register = partial(roll_forward, store, registrar, parallel_map)
        first = FirstOffsets(
            journal,
            kafka=group.offsets,
            reset=settings.reset,
            internal=settings.internal,
            first_topics=settings.first_topics,
            now=runtime.now,
            new_lock=threads.new_lock,
        )
        self._takeover = Takeover(
            journal,
            Settlement(
                store, register, registrar.has, group.offsets, parallel_map, runtime.now, runtime.metrics.announce
            ),
            Beginnings(group.offsets, group.topic_ids, first, settings.follow_offsets, settings.keeps_state),
            threads.new_pool("takeover", runtime.workers).map,
        )
        self._claimer = Claimer(self._takeover, group, runtime)
        self._new_log = partial(
            OwnLog,
            journal,
            fill=Placeholders(store, root, DEAD_LETTER, parallel_map).put,
            on_fenced=lambda _: runtime.metrics.fenced(),
            parallel_map=parallel_map,
            clock=runtime.timings.clock,
            now=runtime.now,
            new_lock=threads.new_lock,
        )
        self._obsolete = ObsoleteLogs(journal, runtime.now)
        self._last: Assignment | None = None

    def start(self) -> None:
        self.pipeline.start()
        self.runtime.threads.sweeper.add(self.sweep)

    def stop(self) -> None:
        """Drop the batches in progress, and end the threads. A thread that is stuck in a call continues."""
        self.pipeline.stop()
        self.runtime.threads.sweeper.remove(self.sweep)
        self.sweep(is_last=True)
        self._claimer.stop()

    # --- the assignment ---------------------------------------------------------------------------------------------

    @property
    def assignment(self) -> Assignment | None:
        """The assignment that has not ended; ``None`` if all assignments have ended."""
        return self._last if self._last is not None and not self._last.log.has_ended else None

    def begin(self, tps: Collection[TopicPartition], closed: str | None = None) -> Assignment:
        """End the former assignment, begin an assignment of these partitions, and start to claim the partitions.

        ``closed`` is the reason if another member has closed the log of this member's assignment. The partitions are
        then claimed only after Kafka confirms that they are still assigned to this member.
        """
        self.end()
        log = self._new_log(self.runtime.new_token())
        self._last = assignment = Assignment(tps, log, self.pipeline.gathering.submit)
        self._claimer.begin(assignment, closed)
        return assignment

    def end(self) -> None:
        """End the present assignment, and drop its records in progress. Any thread may call this method."""
        if self._last is not None:
            self._last.end()

    def may_claim_again(self, error: FencedError) -> bool:
        """Whether partitions may be claimed again after this error has ended their assignment. Counts the new claim.

        Without a limit, two members of different Kafka clusters could fence each other again and again.
        """
        now, last, timings = self.runtime.timings.clock(), self._claimed_again_at, self.runtime.timings
        is_often = len(last) == _MOST_AGAIN and now - last[0] <= timings.claim_again_seconds
        if is_often or not isinstance(error, LogClosedError):
            return False
        last.append(now)
        return True

    def would_begin(self, tp: TopicPartition) -> tuple[Start, PartitionOffsets]:
        """Return where the partition would begin, and Kafka's offsets, without a claim. Any thread may call this."""
        return self._takeover.would_begin(tp)

    # --- on the sweeper's thread ------------------------------------------------------------------------------------

    def sweep(self, *, is_last: bool = False) -> None:
        """Delete rolled-back objects that are due, and obsolete logs. This method never raises an error."""
        try:
            self._delete_due(is_last=is_last)
        except ConnectorError as error:
            logger.info("%s. %s", error, "The next start tries again" if is_last else "The next sweep tries again")
        except Exception as error:
            logger.warning("deleting rolled-back files: %r. Please report this as a bug", error, exc_info=True)

    def _delete_due(self, *, is_last: bool) -> None:
        log = self._last.log if self._last else None
        if log is not None and log.fence is None and (is_last or not log.has_ended):
            log.sweep(is_last=is_last)
        if not is_last:
            self._obsolete.delete()
