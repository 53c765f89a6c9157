"""Makes assignments, and claims their partitions on threads.

The callback of an assignment must not fail, and must not wait for a store that is away: the broker would remove the
consumer from the group. So the callback begins an assignment, and the consumer's loop reads its partitions once they
are claimed.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

from app.delivery.assignment import Assignment, Claimed, Portion
from app.errors import ConnectorError, FatalError, RetryableError, System
from app.journal.journal import FencedError, LogClosedError
from app.journal.own_log import OwnLog
from app.journal.takeover import Takeover
from app.kafka.watch import KafkaWatch, TopicIds
from app.model import TopicPartition
from app.monitoring.metrics import Metrics
from app.monitoring.waits import Request, Stopped
from app.timings import DEFAULT, Timings

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_MOST_CLAIMS = 4  # at the same time: of the present assignment, and of former ones that do not know yet that they ended
_QUESTIONS = 10  # to Kafka, before partitions are claimed again
_RESTART = "It is tried again after a restart"
_MOST_AGAIN = 3  # in ``Timings.claim_again_seconds``
_SAFE = "Records that are not in the table yet are read again: nothing is lost"


@dataclass(frozen=True, slots=True)
class Membership:
    """What Kafka says of this member's place in the consumer group."""

    topic_ids: TopicIds
    check_group: Callable[[], ConnectorError | None]  # the error to end with if nothing may be claimed in this group
    is_member: Callable[[], bool]  # whether Kafka still has this member in the group
    watch: KafkaWatch  # asks regularly, from the first assignment on


class Claims(Protocol):
    """What a consumer asks for; see ``Claimer``."""

    def begin(self, tps: Collection[TopicPartition], closed: str | None = None) -> Assignment: ...
    def is_same_topic(self, tp: TopicPartition) -> bool | None: ...
    def check(self) -> None: ...


class Claimer:
    """Claims the partitions of an assignment together, and retries until it succeeds or the assignment ends."""

    def __init__(
        self,
        takeover: Takeover,
        new_log: Callable[[], OwnLog],
        membership: Membership,
        submit: Callable[[Portion], None],
        metrics: Metrics,
        timings: Timings = DEFAULT,
    ) -> None:
        self._takeover = takeover
        self.look = takeover.look
        self._new_log = new_log
        self._membership = membership
        self._submit = submit
        self._metrics = metrics
        self._timings = timings
        self._pool = ThreadPoolExecutor(max_workers=_MOST_CLAIMS, thread_name_prefix="claim")
        self._stop = threading.Event()
        self.current: Assignment | None = None

    # --- for the consumer's thread ----------------------------------------------------------------------------------

    def begin(self, tps: Collection[TopicPartition], closed: str | None = None) -> Assignment:
        """Begin an assignment of these partitions, and to claim them; the former one ends.

        ``closed``: why this member claims them again, where another one has closed the log of its assignment before.
        Nothing is claimed then before Kafka confirms that the partitions are still assigned to this member.
        """
        self._membership.watch.start()
        if self.current is not None:
            self.current.end()
        self.current = assignment = Assignment(tps, self._new_log(), self._submit)
        if tps:
            self._pool.submit(self._claim, assignment, closed)
        return assignment

    def is_same_topic(self, tp: TopicPartition) -> bool | None:
        """Whether the topic is the one that was claimed; ``None`` if Kafka does not say."""
        try:
            return self._membership.topic_ids.is_same(tp)
        except ConnectorError as error:
            logger.debug("%s", error)
            return None

    def check(self) -> None:
        """Raise the error that the watch has found; called at each turn of the consumer's loop."""
        self._membership.watch.raise_found()

    # --- from other threads -----------------------------------------------------------------------------------------

    def sweep(self, *, is_last: bool = False) -> None:
        """Delete the rolled-back objects of the current assignment that are due; ``is_last``: the process ends."""
        log = self.current.log if self.current else None
        if log is not None and log.fence is None and (is_last or not log.has_ended):
            log.sweep(is_last=is_last)

    def stop(self) -> None:
        """End the claims in progress; called when the pipeline has ended."""
        self._stop.set()
        self._membership.watch.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)

    # --- on threads of the pool -------------------------------------------------------------------------------------

    def _claim(self, assignment: Assignment, closed: str | None) -> None:
        doing = "claiming " + ", ".join(map(str, assignment.partitions))
        try:
            if closed is None:
                refusal = self._retry(assignment, self._membership.check_group, "Kafka")
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
                self._membership.topic_ids.claimed(tp, begin.topic_id)
            return {tp: Claimed(tp, begin.start) for tp, begin in begun.items()}

        while waiting:
            claimed = self._retry(assignment, claim, "store")
            # By itself: claimed again, a partition would not say any more what was lost before it.
            self._retry(assignment, assignment.log.remove_rolled_back, "store")
            assignment.claim_ended(*claimed.values())
            waiting -= claimed.keys()

    def _retry(self, assignment: Assignment, work: Callable[[], _T], system: System) -> _T:
        request = Request(system, operation="claim")
        return self._metrics.waits.retry(request, work, stop=self._stop, is_wanted=lambda: not assignment.log.has_ended)

    def _are_still_ours(self, assignment: Assignment, closed: str) -> ConnectorError | None:
        """Ask Kafka whether the partitions of a closed log are still this member's; else the error to end with.

        A frozen member is fenced too, and must not close the log of the next owner. If the group has expelled it, it
        soon loses the partitions in Kafka too, and the assignment ends (``Stopped``).
        """
        listed = ", ".join(map(str, assignment.partitions))
        for _ in range(_QUESTIONS):
            try:
                recreated = self._membership.topic_ids.recreated(assignment.partitions)
                if recreated is not None:
                    return recreated
                if self._membership.is_member():
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


class Reclaiming:
    """Notes each claim that ``may_again`` allows: two members of different clusters would do it for ever in turn."""

    def __init__(self, timings: Timings) -> None:
        self._timings = timings
        self._at: deque[float] = deque(maxlen=_MOST_AGAIN)

    def may_again(self, error: FencedError) -> bool:
        """Whether to claim again the partitions of an assignment that ended by this error."""
        now = self._timings.clock()
        is_often = len(self._at) == _MOST_AGAIN and now - self._at[0] <= self._timings.claim_again_seconds
        if is_often or not isinstance(error, LogClosedError):
            return False
        self._at.append(now)
        return True


def taken_over(reason: str) -> RetryableError:
    """The error to end with where Kafka goes on to assign partitions that another member has claimed."""
    return RetryableError(
        "writing a partition's rows",
        reason,
        "If no other connector uses this consumer group and table, a restart sets it right; nothing is lost",
    )
