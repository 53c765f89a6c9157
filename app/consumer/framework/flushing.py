"""Writes the processed records to the lake and the log. The first flush after a rebalance begins the assignment.

quixstreams begins at the group's offset after an assignment, and reports assignments to no sink. So the first flush
claims the partitions of which messages were processed, and drops the rows that the log already contains.
"""

import logging
from collections.abc import Callable

from app.consumer.commits import log_starts, mark_set_offsets
from app.consumer.framework.processed_rows import Processed
from app.delivery.claimer import taken_over
from app.delivery.member import Member
from app.errors import RetryableError
from app.model import TopicPartition

logger = logging.getLogger(__name__)

_CLAIM_LOOK_SECONDS = 0.05


class HeldUpError(Exception):
    """What waits cannot be brought into lake and log now."""


class Flushing:
    """For one thread at a time. ``commit`` is that of quixstreams' consumer, with the connector's mark.

    ``is_outdated``: the assignment may be of a former assignment of Kafka's. ``went_back``: quixstreams has, without a
    flush. These are no single state, for a rebalance may come before or after it.
    """

    def __init__(self, member: Member, commit: Callable[..., object]) -> None:
        self._member = member
        self._flow = member.flow
        self._commit = commit
        self._metrics = member.runtime.metrics
        self._timings = member.runtime.timings
        self.is_outdated = self.went_back = False
        self._goes_on: frozenset[TopicPartition] = frozenset()  # of the former assignment

    def hand_over(self, processed: Processed, *, is_worth_it: bool) -> None:
        """Hand over what can be written; ``is_worth_it``: enough waits to claim partitions for it."""
        if found := self._member.group.watch.take_found():
            raise found
        self._flow.raise_failure()
        self._admit(processed)
        assignment = self._member.assignment
        if assignment is None:
            if is_worth_it:
                self._begin(processed)
        elif not assignment.is_over and not self._needs_claim(processed):
            processed.hand_over(assignment)

    def deliver(self, processed: Processed, seconds: float) -> None:
        """Claim what is not claimed, and bring all that waits into lake and log.

        Raises:
            HeldUpError: another member has closed the log, or it takes too long.
        """
        until = self._timings.clock() + seconds
        while True:
            is_done = self.step(processed)
            self._flow.raise_failure()
            self._raise_if_fenced()
            if is_done:
                self._metrics.committed({tp: end + 1 for tp, end in processed.ends.items()})
                return
            if self._timings.clock() >= until:
                raise HeldUpError(str(self._flow.obstacle or "claiming or writing takes too long"))
            assignment = self._member.assignment
            if assignment is None or assignment.unclaimed:
                self._flow.buffer.wait(_CLAIM_LOOK_SECONDS)
            else:
                self._flow.wait_delivered(assignment, self._timings.look_seconds)

    def step(self, processed: Processed) -> bool:
        """Do the next step of a delivery; returns whether all is in lake and log."""
        self._admit(processed)
        assignment = self._member.assignment
        if assignment is not None and not assignment.unclaimed and not assignment.is_over:
            if processed.news <= self._tps():  # else the next assignment gets them: their bytes are counted together
                processed.hand_over(assignment)
            if not assignment.is_delivered:
                assignment.end_batch(self._flow.buffer.flush_reason)
        is_delivered = assignment is None or assignment.is_delivered
        if not self._needs_claim(processed):
            return is_delivered
        if assignment is None or (is_delivered and not assignment.unclaimed and not assignment.is_over):
            self._begin(processed)
        return False

    def _raise_if_fenced(self) -> None:
        assignment = self._member.assignment
        fence = assignment.log.fence if assignment else None
        if fence is not None:
            reason = str(fence.error)
            raise HeldUpError(reason) if self._member.may_claim_again(fence.error) else taken_over(reason)

    # --- claims -----------------------------------------------------------------------------------------------------

    def _tps(self) -> frozenset[TopicPartition]:
        """The partitions of the assignment that are Kafka's present one, as far as is known."""
        assignment = self._member.assignment
        return frozenset(assignment.partitions if assignment and not self.is_outdated and not self.went_back else ())

    def _needs_claim(self, processed: Processed) -> bool:
        """Whether something waits that the present assignment may not write."""
        assignment = self._member.assignment
        return bool(assignment and assignment.unclaimed) or not processed.news <= self._tps()

    def _begin(self, processed: Processed) -> None:
        """Begin an assignment of all partitions with news, and of those of the former one, which is in the lake."""
        tps = sorted(processed.news | self._tps())
        former = self._member.assignment
        self._goes_on = frozenset(former.partitions if former and not self.went_back else ())
        self.is_outdated = self.went_back = False
        self._member.begin(tps)

    def _admit(self, processed: Processed) -> None:
        """Drop what the log has already of the partitions whose claims have succeeded."""
        assignment = self._member.assignment
        claims = assignment.new_claims() if assignment else []
        # Nothing is read again of those that go on, though the log is ahead of their offsets.
        log_starts([each for each in claims if each.start.is_loss or each.tp not in self._goes_on], self._metrics)
        mark_set_offsets(claims, self._commit)
        for claim in claims:
            end = claim.start.in_table
            if assignment is not None:
                assignment.partitions[claim.tp].begin(end + 1)
            self._metrics.begins(claim.tp, end + 1)
            waiting = processed.of.get(claim.tp)
            dropped = waiting.begin_after(end) if waiting else 0
            logger.info("claimed: %s after %d; %d rows are in the table already", claim.tp, end, dropped)


def cannot_go_back(cause: str) -> RetryableError:
    hint = "quixstreams cannot go back where it joins topics. The next start reads again what is not in the table"
    return RetryableError("writing rows", cause, hint)


def not_written(held_up: HeldUpError) -> RetryableError:
    return RetryableError(
        "writing the last rows before the partitions are given away",
        str(held_up),
        "Their offsets are not committed: the next owner of the partitions reads them again",
    )
