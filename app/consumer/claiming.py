"""Logs where claimed partitions begin, and marks offsets that a tool has set."""

import logging
from collections.abc import Callable, Iterable

from app.delivery.assignment import Claimed
from app.kafka.questions import commit, own_offset
from app.monitoring.metrics import Metrics

logger = logging.getLogger(__name__)


def log_starts(claims: Iterable[Claimed], metrics: Metrics) -> None:
    """Log where partitions begin that do not begin at the group's offset, and why."""
    skipped = {claim.tp: claim.start.skipped for claim in claims if claim.start.skipped}
    if skipped:
        logger.warning(
            "%s records after the group's committed offset are in the table already (%s), as after a crash or when "
            "offsets were reset by hand: skipped. To read them again on purpose, stop, set the offsets back and set "
            "FOLLOW_OFFSETS to a new text; they are then in the table twice unless deleted there first",
            f"{sum(skipped.values()):,}",
            ", ".join(f"{tp}: {count:,}" for tp, count in sorted(skipped.items())),
        )
    for claim in claims:
        if claim.start.remark:
            level = logging.ERROR if claim.start.is_loss else logging.WARNING
            logger.log(level, "%s: %s", claim.tp, claim.start.remark)
        if claim.start.is_loss:
            metrics.lost(f"{claim.tp}: {claim.start.remark}")


def mark_set_offsets(claims: Iterable[Claimed], consumers_commit: Callable[..., object]) -> None:
    """Commit the beginnings of partitions whose offsets a tool has set, before anything is written.

    Else a crash would leave such an offset behind the journal, and the next text would follow it again.
    """
    offsets = [own_offset(*claim.tp, claim.start.offset) for claim in claims if claim.start.is_set]
    if offsets:
        commit(consumers_commit, offsets, "committing where partitions begin")
