"""The connector's waits and limits, with the clock, in one frozen object. The user's settings are not among them."""

import time
from collections.abc import Callable
from dataclasses import dataclass

# The group expels a consumer that does not poll for this time (librdkafka's default).
_MAX_POLL_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Timings:
    """Durations in seconds. Tests replace some.

    Attributes:
        start_patience_seconds: Limit of waiting for a broker, store or catalog that is not up yet.
        session_seconds: Time without a reader for a killed member's partitions. The client sends heartbeats on a
            separate thread, so a busy connector does not miss them. If Kafka expels a living member, the journal fences
            it.
        gather_seconds: Minimum time between two batches that end for their size: at most one Spark job per second. A
            job costs a tenth of a CPU-second, and 5 ms more for each file.
        flush_seconds: Deadline of a flush at a checkpoint.
        revoke_seconds: Deadline of a flush while partitions are revoked. quixstreams abandons it after a fifth of the
            longest poll interval; ours ends just before, with a reason.
        stop_seconds: Deadline of the last flush, after a signal to stop; Kubernetes waits for 30 s by default.
        full_seconds: Limit of a full buffer's wait for a flush of quixstreams; see ``RowSink``.
        look_seconds: Interval at which a waiting flush checks the pipeline for errors.
        fenced_seconds: Time for which Kafka may still assign a partition to this member after another member has closed
            its log; later, this member ends with an error. Also the limit for Kafka's confirmation of an assignment
            before its partitions are claimed again.
        claim_again_seconds: Period in which a member claims its partitions again at most three times, after other
            members have closed its log.
        kafka_answer_seconds: Limit for Kafka's answer with the offsets of a partition.
        first_suspension_seconds, longest_suspension_seconds: Pauses before a suspended table is opened again, doubled
            each time; infinite if it is left to the next run.
        first_retry_seconds, longest_retry_seconds: Pauses between retries of a request that failed.
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
