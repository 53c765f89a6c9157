"""All waits and limits of the connector that are no settings, with the clock: one frozen group.

Settings of the user, such as ``COMMIT_INTERVAL``, are not among them.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

# The consumer is thrown out of its group when it does not poll for this long (librdkafka's default).
_MAX_POLL_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Timings:
    """Durations in seconds. Tests replace some.

    Attributes:
        start_patience_seconds: how long a start waits for a broker, store or catalog that is not up yet.
        session_seconds: how long a killed member's partitions stay without a reader. Heartbeats have a thread of their
            own in the client, so a busy connector does not miss them; one that is thought dead by mistake is fenced by
            the journal.
        gather_seconds: the shortest time between two batches that are sealed for their size: one Spark job a second at
            most. A job costs a tenth of a CPU-second, and another 5 ms for each file.
        flush_seconds: deadline of a flush at a checkpoint.
        revoke_seconds: deadline of a flush while partitions are revoked. quixstreams gives it a fifth of what the
            consumer may stay away; ours ends just before, with a reason.
        stop_seconds: deadline of the last flush, after a signal to stop; Kubernetes waits for 30 s by default.
        full_seconds: how long a full buffer may wait for a flush of quixstreams; see ``RowSink``.
        look_seconds: the interval at which a waiting flush checks the pipeline for errors.
        fenced_seconds: how long Kafka may still assign a partition to this member after another member has closed its
            log; later, this member ends with an error. Also how long Kafka may take to confirm an assignment, before
            its partitions are claimed again.
        claim_again_seconds: the period in which a member claims its partitions again at most three times, after other
            members have closed its log.
        kafka_answer_seconds: how long Kafka may take to return the offsets of a partition.
        first_suspension_seconds, longest_suspension_seconds: after these, doubled each time, a suspended table is
            opened again; infinite if it is left to the next run.
        first_retry_seconds, longest_retry_seconds: the pauses between tries of what another system refuses.
    """

    clock: Callable[[], float] = time.monotonic
    start_patience_seconds: float = 60.0
    session_seconds: float = 20.0
    gather_seconds: float = 1.0
    flush_seconds: float = 0.6 * _MAX_POLL_SECONDS
    revoke_seconds: float = 0.2 * _MAX_POLL_SECONDS - 5.0
    stop_seconds: float = 25.0
    full_seconds: float = 60.0
    look_seconds: float = 0.25
    fenced_seconds: float = 20.0
    claim_again_seconds: float = 600.0
    kafka_answer_seconds: float = 20.0
    first_suspension_seconds: float = 60.0
    longest_suspension_seconds: float = 1_800.0
    first_retry_seconds: float = 0.5
    longest_retry_seconds: float = 30.0


DEFAULT = Timings()
