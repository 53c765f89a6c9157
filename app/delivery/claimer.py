"""Claims the partitions of assignments on separate threads.

Kafka's callback for an assignment must not fail, and must not wait for an unavailable store. Otherwise the broker would
remove the consumer from the group. Therefore the callback only begins an assignment. The consumer's loop reads
partitions after they are claimed.
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
from app.journal.log import AssignmentLog
from app.journal.takeover import Takeover
from app.kafka.questions import GroupOffsets
from app.kafka.watch import KafkaWatch, TopicIds
from app.model import TopicPartition
from app.retries import Request, Stopped

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_MOST_CLAIMS = 4  # claims at the same time, including claims of earlier assignments that have not stopped yet
_MOST_QUERIES = 10  # queries to Kafka, before partitions are claimed again
_RESTART = "The connector tries again after a restart"
_SAFE = "Records that are not in the table yet are read again: nothing is lost"


@dataclass(frozen=True, slots=True)
class StartSettings:
    """The settings that decide where partitions begin; see ``Beginnings`` and ``FirstOffsets``.

    ``first_topics`` contains the first topics of a group with several topics, and the topics of ``follow_offsets``.
    """

    reset: str | datetime | timedelta = "earliest"
    follow_offsets: str = ""
    internal: Collection[str] = ()
    keeps_state: bool = False
    first_topics: Mapping[str, FirstTopics] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """The consumer group in Kafka, and the settings that decide where partitions begin.

    Attributes:
        check: Function that returns an error if this member must not claim any partition, otherwise ``None``.
        is_member: Function that returns whether Kafka still counts this member in the group.
        watch: Thread that queries Kafka regularly after the first assignment.
    """

    name: str
    offsets: GroupOffsets
    topic_ids: TopicIds
    watch: KafkaWatch
    is_member: Callable[[], bool] = lambda: True
    check: Callable[[], ConnectorError | None] = lambda: None
    settings: StartSettings = StartSettings()


class Claimer:
    """Claims all partitions of an assignment together. Retries until the claim succeeds or the assignment ends."""

    def __init__(self, takeover: Takeover, group: Group, runtime: Runtime) -> None:
        self._takeover = takeover
        self._group = group
        self._waits = runtime.metrics.waits
        self._announce = runtime.metrics.announce
        self._timings = runtime.timings
        self._pool = runtime.threads.new_pool("claim", _MOST_CLAIMS)
        self._stop = runtime.threads.new_event()

    def begin(self, assignment: Assignment, closed: str | None = None) -> None:
        """Begin to claim the partitions. ``Member.begin`` describes ``closed``."""
        self._group.watch.start()
        if assignment.partitions:
            self._pool.submit(self._claim, assignment, closed)

    def stop(self) -> None:
        """End the claims in progress. ``Member`` calls this method after the pipeline has ended."""
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
            for tp, begin in begun.items():  # after the claim, because a repeated claim is still the first claim
                self._group.topic_ids.claimed(tp, begin.topic_id)
            return {tp: Claimed(tp, begin.start) for tp, begin in begun.items()}

        while waiting:
            claimed = self._retry(assignment, claim, "store")
            # This call is retried separately, because a repeated claim would not report records lost before the start.
            self._retry(assignment, assignment.log.remove_rolled_back, "store")
            ends = tuple(each for each in log.partitions if each.tp in claimed) if (log := assignment.log.log) else ()
            self._announce(AssignmentLog(seq=1, owner=assignment.log.token, writer="", partitions=ends))
            assignment.claim_ended(*claimed.values())
            waiting -= claimed.keys()

    def _retry(self, assignment: Assignment, work: Callable[[], _T], system: System) -> _T:
        request = Request(system, operation="claim")
        return self._waits.retry(request, work, stop=self._stop, is_wanted=lambda: not assignment.log.has_ended)

    def _are_still_ours(self, assignment: Assignment, closed: str) -> ConnectorError | None:
        """Ask Kafka whether this member still owns the partitions of a closed log. Return an error if it does not.

        A member that was frozen is also fenced, and must not close the next owner's log. If the group has removed this
        member, Kafka soon revokes the partitions, and the assignment ends (``Stopped``).
        """
        tps = ", ".join(map(str, assignment.partitions))
        for _ in range(_MOST_QUERIES):
            try:
                recreated = self._group.topic_ids.recreated(assignment.partitions)
                if recreated is not None:
                    return recreated
                if self._group.is_member():
                    logger.warning("%s. Kafka still assigns %s to this member: claiming again. %s", closed, tps, _SAFE)
                    return None
                answer = "Kafka does not count this member in the consumer group"
            except RetryableError as error:
                answer = str(error)
            if self._stop.wait(self._timings.fenced_seconds / _MOST_QUERIES) or assignment.log.has_ended:
                raise Stopped
        return RetryableError(f"claiming {tps} again", f"{closed}, and {answer}", _RESTART)


def taken_over(reason: str) -> RetryableError:
    """Return the error for partitions that another member has claimed, but that Kafka still assigns to this member."""
    hint = "If no other connector uses this consumer group and table, a restart repairs this; nothing is lost"
    return RetryableError("writing a partition's rows", reason, hint)
