"""The connector's waits, time limits and clock in one frozen object. The user's settings are separate."""

import time
from collections.abc import Callable
from dataclasses import dataclass

# Kafka removes a consumer that does not poll for this time from the group (librdkafka's default).
_MAX_POLL_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Timings:
    """Durations in seconds. Tests replace some of these durations.

    Attributes:
        start_patience_seconds: Time limit for a broker, a store or a catalog that is still starting.
        session_seconds: Time after which Kafka reassigns the partitions of a killed member. The client sends heartbeats
            on a separate thread, even if the connector is busy. If Kafka removes a running member, the journal fences
            this member.
        gather_seconds: Minimum time between two batches that end because of their size. This limits Spark to one job
            per second. A job needs 0.1 CPU-seconds, and 5 ms more for each file.
        flush_seconds: Time limit of a flush at a checkpoint.
        revoke_seconds: Time limit of a flush while Kafka revokes partitions. After a fifth of the longest poll
            interval, quixstreams abandons the flush. This limit is shorter, so that the connector logs a reason.
        stop_seconds: Time limit of the last flush, after a signal to stop. Kubernetes waits for 30 s by default.
        full_seconds: Time limit for a flush of quixstreams when the buffer is full; see ``RowSink``.
        look_seconds: Interval at which a waiting flush checks the pipeline for errors.
        fenced_seconds: Time in which Kafka must revoke the partitions of a log that another member has closed. After
            this time, this member ends with an error. Also the time limit for Kafka's confirmation of an assignment
            before partitions are claimed again.
        claim_again_seconds: Period in which a member may claim its partitions again up to three times, after other
            members have closed the member's log.
        kafka_answer_seconds: Time limit for Kafka's answer with a partition's offsets.
        first_suspension_seconds, longest_suspension_seconds: Shortest and longest pause before a suspended table is
            opened again. Each pause is twice as long as the last one. Infinite if only the next run opens the table.
        first_retry_seconds, longest_retry_seconds: Shortest and longest pause between retries of a failed request.
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
