"""Logs where claimed partitions begin, and marks offsets that a tool has set."""

import logging
from collections.abc import Callable, Iterable

from confluent_kafka import KafkaException

from app.errors import RetryableError
from app.kafka.questions import own_offset
from app.monitoring.metrics import Metrics
from app.pipeline.assignment import Claimed

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


def mark_set_offsets(claims: Iterable[Claimed], commit: Callable[..., object]) -> None:
    """Commit the beginnings of partitions whose offsets a tool has set, before anything is written.

    Else a crash would leave such an offset behind the journal, and the next text would follow it again.

    Raises:
        RetryableError: they are not committed.
    """
    offsets = [own_offset(*claim.tp, claim.start.offset) for claim in claims if claim.start.is_set]
    try:
        if offsets:
            commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        raise RetryableError("committing where partitions begin", error.args[0].str()) from None
