"""Claims the partitions of assignments on threads.

The callback of an assignment must not fail, and must not wait for a store that is away: the broker would remove the
consumer from the group. So the callback begins an assignment, and the consumer's loop reads its partitions once they
are claimed.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from app.delivery.assignment import Assignment, Claimed
from app.delivery.runtime import Runtime
from app.errors import ConnectorError, FatalError, RetryableError, System
from app.journal.first_offsets import FirstTopics
from app.journal.journal import FencedError, LogClosedError
from app.journal.takeover import Takeover
from app.kafka.questions import GroupOffsets
from app.kafka.watch import KafkaWatch, TopicIds
from app.model import TopicPartition
from app.retries import Request, Stopped

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_MOST_CLAIMS = 4  # at the same time: of the present assignment, and of former ones that do not know yet that they ended
_QUESTIONS = 10  # to Kafka, before partitions are claimed again
_RESTART = "It is tried again after a restart"
_SAFE = "Records that are not in the table yet are read again: nothing is lost"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Where partitions are to begin by settings and ``transform()``; see ``Beginnings`` and ``FirstOffsets``.

    ``first_topics``: those with which a group of several topics began, and its text of ``follow_offsets``.
    """

    reset: str | datetime | timedelta = "earliest"
    follow_offsets: str = ""
    internal: Collection[str] = ()
    keeps_state: bool = False
    first_topics: Mapping[str, FirstTopics] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """The consumer group as Kafka has it, and where its partitions are to begin.

    Attributes:
        check: the error to end with if nothing may be claimed in this group.
        is_member: whether Kafka still has this member in the group.
        watch: asks regularly, from the first assignment on.
    """

    name: str
    offsets: GroupOffsets
    topic_ids: TopicIds
    watch: KafkaWatch
    is_member: Callable[[], bool] = lambda: True
    check: Callable[[], ConnectorError | None] = lambda: None
    wanted: Wanted = Wanted()


class Claimer:
    """Claims the partitions of an assignment together, and retries until it succeeds or the assignment ends."""

    def __init__(self, takeover: Takeover, group: Group, runtime: Runtime) -> None:
        self._takeover = takeover
        self._group = group
        self._waits = runtime.metrics.waits
        self._timings = runtime.timings
        self._pool = runtime.threads.new_pool("claim", _MOST_CLAIMS)
        self._stop = runtime.threads.new_event()

    def begin(self, assignment: Assignment, closed: str | None = None) -> None:
        """Begin to claim; ``closed`` as for ``Member.begin``."""
        self._group.watch.start()
        if assignment.partitions:
            self._pool.submit(self._claim, assignment, closed)

    def stop(self) -> None:
        """End the claims in progress; called when the pipeline has ended."""
        self._stop.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    # --- on threads of the pool -------------------------------------------------------------------------------------

    def _claim(self, assignment: Assignment, closed: str | None) -> None:
        doing = "claiming " + ", ".join(map(str, assignment.partitions))
        try:
            if closed is None:
                refusal = self._retry(assignment, self._group.check, "Kafka")
            else:
                refusal = self._are_still_ours(assignment, closed)
            if refusal is None:
                self._claim_all(assignment, is_again=closed is not None)
            else:
                assignment.claim_ended(refusal)
        except (Stopped, LogClosedError):
            pass  # the consumer sees the fence
        except FencedError as error:
            if not assignment.log.has_ended:
                assignment.claim_ended(RetryableError(doing, str(error), _RESTART))
        except ConnectorError as error:
            assignment.claim_ended(error)
        except Exception as error:
            logger.debug("claiming failed", exc_info=True)
            assignment.claim_ended(FatalError(doing, repr(error), "Please report this as a bug"))

    def _claim_all(self, assignment: Assignment, *, is_again: bool) -> None:
        waiting = set(assignment.partitions)

        def claim() -> dict[TopicPartition, Claimed]:
            begun = self._takeover.claim(sorted(waiting), assignment.log, is_again=is_again)
            for tp, begin in begun.items():  # not before: a claim that is repeated is still the first
                self._group.topic_ids.claimed(tp, begin.topic_id)
            return {tp: Claimed(tp, begin.start) for tp, begin in begun.items()}

        while waiting:
            claimed = self._retry(assignment, claim, "store")
            # By itself: claimed again, a partition would not say any more what was lost before it.
            self._retry(assignment, assignment.log.remove_rolled_back, "store")
            assignment.claim_ended(*claimed.values())
            waiting -= claimed.keys()

    def _retry(self, assignment: Assignment, work: Callable[[], _T], system: System) -> _T:
        request = Request(system, operation="claim")
        return self._waits.retry(request, work, stop=self._stop, is_wanted=lambda: not assignment.log.has_ended)

    def _are_still_ours(self, assignment: Assignment, closed: str) -> ConnectorError | None:
        """Ask Kafka whether the partitions of a closed log are still this member's; else the error to end with.

        A frozen member is fenced too, and must not close the log of the next owner. If the group has expelled it, it
        soon loses the partitions in Kafka too, and the assignment ends (``Stopped``).
        """
        listed = ", ".join(map(str, assignment.partitions))
        for _ in range(_QUESTIONS):
            try:
                recreated = self._group.topic_ids.recreated(assignment.partitions)
                if recreated is not None:
                    return recreated
                if self._group.is_member():
                    logger.warning(
                        "%s, and Kafka still assigns %s to this one: claiming again. %s", closed, listed, _SAFE
                    )
                    return None
                answer = "Kafka does not count this member in the consumer group"
            except RetryableError as error:
                answer = str(error)
            if self._stop.wait(self._timings.fenced_seconds / _QUESTIONS) or assignment.log.has_ended:
                raise Stopped
        return RetryableError(f"claiming {listed} again", f"{closed}, and {answer}", _RESTART)


def taken_over(reason: str) -> RetryableError:
    """The error to end with where Kafka goes on to assign partitions that another member has claimed."""
    return RetryableError(
        "writing a partition's rows",
        reason,
        "If no other connector uses this consumer group and table, a restart sets it right; nothing is lost",
    )
