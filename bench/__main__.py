"""``make bench``: the connector beside the dependency's own sink, on one machine and in one run."""

import argparse
import json
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import NoReturn

from bench.environment import peer_python
from bench.machine import facts
from bench.messages import records
from bench.report import Report, as_markdown
from bench.row_checks import RowCheck, check_rows
from bench.run import BusyStop, OurRun, Run, run_ours, run_theirs, stop_busy
from bench.stage import Stage, Topic
from bench.totals import WrongRowsError
from dev.java import find_java
from dev.kafka import LocalKafka
from dev.machine import ServiceError, announce
from dev.minio import LocalMinio

MESSAGES, ROUNDS = 500_000, 3
PARTITIONS = 4
BATCH_SIZE = 1_000
# The default of quixstreams, which the dependency's sink is run with. Our own of 30 s is longer than a run.
COMMIT_INTERVAL = 5.0
RESULTS = Path(__file__).with_name("results")


def main() -> int:
    """Run the benchmark; 0 when every row came out as it went in, 1 when not, 130 when interrupted."""
    options = _options()
    signal.signal(signal.SIGTERM, _interrupt)  # by default it would leave the servers behind
    try:
        report = _measure(options.messages, options.rounds, options.commit_interval)
    except (ServiceError, WrongRowsError) as error:
        print(f"The benchmark ends without a result: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted; everything that was started is stopped.", file=sys.stderr)
        return 130
    print(as_markdown(report))
    if options.messages >= MESSAGES and options.rounds >= ROUNDS:
        _keep(report)
    else:
        announce(f"Not kept: results of fewer than {MESSAGES:,} messages or {ROUNDS} rounds say little")
    return 0 if report.passed else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--messages", type=_positive, default=MESSAGES, help="messages of each run (%(default)s)")
    parser.add_argument("--rounds", type=_positive, default=ROUNDS, help="runs of each sink (%(default)s)")
    parser.add_argument(
        "--commit-interval", type=float, default=COMMIT_INTERVAL, help="COMMIT_INTERVAL of the connector (%(default)s)"
    )
    return parser.parse_args()


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _measure(messages: int, rounds: int, commit_interval: float) -> Report:
    if not Path("/proc/self/status").exists():
        raise ServiceError("memory and processor time are read from /proc, which Linux alone has")
    find_java()
    peer_python()  # before anything is timed
    machine = facts()
    sample = [len(value or "") for _, value, _, _ in records(1_000, PARTITIONS)]
    with LocalKafka() as kafka, LocalMinio() as minio:
        stage = Stage(kafka, minio, commit_interval)
        announce(f"Producing {messages:,} messages")
        topic = stage.fill_topic(messages, PARTITIONS)
        runs = list(_rounds(stage, topic, rounds))
        return Report(
            date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            machine=machine,
            messages=messages,
            message_bytes=sum(sample) / len(sample),
            partitions=PARTITIONS,
            batch_size=BATCH_SIZE,
            commit_interval=commit_interval,
            ours=[ours for ours, _, _ in runs],
            at_least_once=[run for _, run, _ in runs],
            theirs=[theirs for _, _, theirs in runs],
            busy_stop=_busy_stop(stage, topic),
            row_checks=list(_row_checks(stage, messages)),
        )


def _rounds(stage: Stage, topic: Topic, rounds: int) -> Iterator[tuple[OurRun, Run, Run]]:
    for number in range(1, rounds + 1):
        place = stage.new_place("connector", topic, BATCH_SIZE)
        ours = run_ours(stage, place)
        _tell_rate(f"round {number}, connector", ours.run)
        place = stage.new_place("at-least-once", topic, BATCH_SIZE, DELIVERY_GUARANTEE="at-least-once")
        at_least_once = run_ours(stage, place).run
        _tell_rate(f"round {number}, connector at least once", at_least_once)
        place = stage.new_place("dependency", topic, BATCH_SIZE)
        theirs = run_theirs(stage, place)
        _tell_rate(f"round {number}, dependency", theirs)
        yield ours, at_least_once, theirs


def _tell_rate(what: str, run: Run) -> None:
    announce(
        f"{what}: all rows verified; {run.whole_seconds:.1f} s, {run.whole_rate:,.0f} msg/s, "
        f"while consuming {run.consuming_rate:,.0f} msg/s"
    )


def _busy_stop(stage: Stage, topic: Topic) -> BusyStop:
    place = stage.new_place("stop", topic, BATCH_SIZE)
    stop = stop_busy(stage, place)
    announce(f"stopped while batches were under way: {stop.seconds:.2f} s; {stop.committed:,} rows, all verified")
    return stop


def _row_checks(stage: Stage, most_rows: int) -> Iterator[RowCheck]:
    for check in check_rows(stage, most_rows):
        where = f"partitions={check.partitions}, BATCH_SIZE={check.batch_size:,}, {check.rows:,} rows"
        announce(f"{where}: {'all verified' if check.passed else 'NOT what was produced'}")
        yield check


def _keep(report: Report) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "latest.json").write_text(json.dumps(report.as_data(), indent=2) + "\n")
    (RESULTS / "latest.md").write_text(as_markdown(report))


if __name__ == "__main__":
    sys.exit(main())
