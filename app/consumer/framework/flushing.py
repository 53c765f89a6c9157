"""Writes processed records to the lake and the log. The first flush after a rebalance begins an assignment.

After an assignment, quixstreams begins at the group's offset, and does not report the assignment to the sink. Therefore
the first flush claims the partitions of the processed messages. It drops rows that are already in the lake.
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
    """The processed records cannot be written to the lake and the log at present."""


class Flushing:
    """Writes processed records, on one thread at a time. ``commit`` is the marked ``commit`` of quixstreams' consumer.

    ``is_outdated``: Kafka may have replaced the assignment. ``went_back``: quixstreams went back to its last commit
    without a flush. Both attributes are needed, because a rebalance may happen before or after quixstreams goes back.
    """

    def __init__(self, member: Member, commit: Callable[..., object]) -> None:
        self._member = member
        self._flow = member.flow
        self._commit = commit
        self._metrics = member.runtime.metrics
        self._timings = member.runtime.timings
        self.is_outdated = self.went_back = False
        self._continued: frozenset[TopicPartition] = frozenset()  # partitions of the former assignment

    def hand_over(self, processed: Processed, *, may_claim: bool) -> None:
        """Pass records to the pipeline if they can be written. With ``may_claim``, first claim partitions."""
        if error := self._member.group.watch.take_found():
            raise error
        self._flow.raise_failure()
        self._begin_claimed(processed)
        assignment = self._member.assignment
        if assignment is None:
            if may_claim:
                self._begin(processed)
        elif not assignment.is_over and not self._needs_claim(processed):
            processed.hand_over(assignment)

    def deliver(self, processed: Processed, seconds: float) -> None:
        """Claim all partitions, and write all processed records to lake and log.

        Raises:
            HeldUpError: another member has closed the log, or the time limit is exceeded.
        """
        until = self._timings.clock() + seconds
        while True:
            is_done = self.step(processed)
            self._flow.raise_failure()
            assignment = self._member.assignment
            if assignment and (fence := assignment.log.fence):
                reason = str(fence.error)
                raise HeldUpError(reason) if self._member.may_claim_again(fence.error) else taken_over(reason)
            if is_done:
                self._metrics.committed({tp: end + 1 for tp, end in processed.ends.items()})
                return
            if self._timings.clock() >= until:
                raise HeldUpError(str(self._flow.obstacle or f"claiming or writing takes longer than {seconds:.0f} s"))
            if assignment is None or assignment.unclaimed:
                self._flow.buffer.wait(_CLAIM_LOOK_SECONDS)
            else:
                self._flow.wait_delivered(assignment, self._timings.look_seconds)

    def step(self, processed: Processed) -> bool:
        """Do the next step of a delivery. Return whether all records are in lake and log."""
        self._begin_claimed(processed)
        assignment = self._member.assignment
        if assignment is not None and not assignment.unclaimed and not assignment.is_over:
            # Otherwise the next assignment receives all records, because the bytes of all records are counted together.
            if processed.news <= self._tps():
                processed.hand_over(assignment)
            if not assignment.is_delivered:
                assignment.end_batch(self._flow.buffer.flush_reason)
        is_delivered = assignment is None or assignment.is_delivered
        if not self._needs_claim(processed):
            return is_delivered
        if assignment is None or (is_delivered and not assignment.unclaimed and not assignment.is_over):
            self._begin(processed)
        return False

    # --- claims -----------------------------------------------------------------------------------------------------

    def _tps(self) -> frozenset[TopicPartition]:
        """The partitions of the assignment; no partitions if Kafka may have replaced the assignment."""
        assignment = self._member.assignment
        return frozenset(assignment.partitions if assignment and not self.is_outdated and not self.went_back else ())

    def _needs_claim(self, processed: Processed) -> bool:
        """Whether the present assignment must not write some of the waiting records."""
        assignment = self._member.assignment
        return bool(assignment and assignment.unclaimed) or not processed.news <= self._tps()

    def _begin(self, processed: Processed) -> None:
        """Begin an assignment of the former partitions, which are in the lake, and of partitions with records."""
        tps = sorted(processed.news | self._tps())
        former = self._member.assignment
        self._continued = frozenset(former.partitions if former and not self.went_back else ())
        self.is_outdated = self.went_back = False
        self._member.begin(tps)

    def _begin_claimed(self, processed: Processed) -> None:
        """Drop the rows of newly claimed partitions that are in the lake according to the log."""
        assignment = self._member.assignment
        claims = assignment.new_claims() if assignment else []
        # A partition of the former assignment continues. Its records are not read again, although the log is ahead.
        log_starts([claim for claim in claims if claim.start.is_loss or claim.tp not in self._continued], self._metrics)
        mark_set_offsets(claims, self._commit)
        for claim in claims:
            end = claim.start.in_table
            if assignment is not None:
                assignment.partitions[claim.tp].begin(end + 1)
            self._metrics.begins(claim.tp, end + 1)
            waiting = processed.by_tp.get(claim.tp)
            dropped = waiting.begin_after(end) if waiting else 0
            logger.info("claimed: %s after %d; %d rows are already in the table", claim.tp, end, dropped)


def cannot_go_back(cause: str) -> RetryableError:
    hint = "quixstreams cannot go back while it joins topics. The next start reads rows again that are not in the table"
    return RetryableError("writing rows", cause, hint)


def not_written(held_up: HeldUpError) -> RetryableError:
    return RetryableError(
        "writing the last rows before the partitions are revoked",
        str(held_up),
        "Their offsets are not committed. Therefore the next owner of the partitions reads them again",
    )
