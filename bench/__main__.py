"""``make bench``: the connector beside other sinks, on one machine and in one run."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.command import RESULTS, interruptible, positive, services
from bench.laps import Field, Lap
from bench.machine import facts
from bench.messages import Workload
from bench.report import Report, as_markdown, as_picture
from bench.row_checks import MANY_ROWS, RowCheck, check_rows
from bench.sinks import CONNECTOR, all_sinks, avro_sinks, this_connector
from bench.sinks.base import in_avro
from bench.stage import Stage
from bench.stopping import Stop, stop_busy, stop_idle
from dev.machine import ServiceError, announce

ROUNDS = 3
PARTITIONS = 4
BATCH_SIZE = 1_000
# The default of quixstreams, which the dependency's sink is run with. Our own of 30 s is longer than a run.
COMMIT_INTERVAL = 5.0
EVERYONE = tuple(all_sinks(BATCH_SIZE, COMMIT_INTERVAL))
FORMATS = ("json", "avro")
JSON_ALONE = "this benchmark runs it with JSON alone"
LONGER = (CONNECTOR, "connector-identity", "connector-edited", "iceberg-2", "iceberg-2-edited")
# Java's start counts for less the longer a topic is, so those that write at full speed soon are compared thrice.
LAPS = ((2_000_000, EVERYONE), (3_000_000, LONGER), (5_000_000, LONGER))


def main() -> int:
    """Run the benchmark; 0 when every row came out as it went in, 1 when not, 130 when interrupted."""
    return interruptible(lambda: _run(_options()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    told = ", ".join(f"{messages:,}" for messages, _ in LAPS)
    parser.add_argument("--messages", type=positive, help=f"one topic of this length (instead of {told})")
    parser.add_argument("--partitions", type=positive, default=PARTITIONS, help="of the topic (%(default)s)")
    parser.add_argument("--folders", type=positive, help="readings of one day in so many folders (instead of 8)")
    parser.add_argument("--rounds", type=positive, default=ROUNDS, help="runs of each sink (%(default)s)")
    parser.add_argument(
        "--sinks", nargs="+", choices=EVERYONE, default=EVERYONE, metavar="SINK", help=f"of {', '.join(EVERYONE)}"
    )
    parser.add_argument(
        "--formats", nargs="+", choices=FORMATS, default=FORMATS[:1], help="of the messages: json, avro, or both (json)"
    )
    parser.add_argument(
        "--batch-size", type=positive, default=BATCH_SIZE, help="BATCH_SIZE of the connector (%(default)s)"
    )
    parser.add_argument(
        "--commit-interval", type=float, default=COMMIT_INTERVAL, help="COMMIT_INTERVAL of the connector (%(default)s)"
    )
    parser.add_argument("--rates-alone", action="store_true", help="leave out stopping and the checks of batch sizes")
    parser.add_argument("--output", type=Path, help="folder for the results (bench/results for a complete run alone)")
    return parser.parse_args()


def _run(options: argparse.Namespace) -> int:
    report = _measure(options)
    print(as_markdown(report))
    usual = not options.messages and not options.folders and options.partitions == PARTITIONS
    usual = usual and set(options.formats) == {"json"}
    complete = usual and not options.rates_alone and set(options.sinks) == set(EVERYONE)
    folder = options.output or (RESULTS if complete and options.rounds >= ROUNDS else None)
    if folder:
        _keep(report, folder)
    else:
        announce("Not kept: this is no complete run, and --output names no folder")
    return 0 if report.passed else 1


def _measure(options: argparse.Namespace) -> Report:
    machine = facts()
    field = _field(options)
    titles = {name: sink.title for name, sink in field.sinks.items()}
    field.prepare()  # before anything is timed
    with services(registry="avro" in options.formats) as stage:
        laps = [lap for lap in _laps(field, stage, options) if lap.runs]
        if not laps:
            raise ServiceError("none of the sinks could be run")
        stops = None if options.rates_alone else _stops(stage, options)
        checks = [] if options.rates_alone else list(_row_checks(stage, options))
    return Report(
        date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        machine={**machine, **field.facts},
        rounds=options.rounds,
        laps=laps,
        sinks=field.sinks,
        not_run={titles.get(name, name): reason for name, reason in field.not_run.items()},
        stops=stops,
        row_checks=checks,
    )


def _field(options: argparse.Namespace) -> Field:
    """The chosen sinks in the chosen formats, each beside itself in the other one."""
    field = Field({})
    readers = avro_sinks(options.batch_size, options.commit_interval)
    for name, sink in all_sinks(options.batch_size, options.commit_interval).items():
        if name not in options.sinks:
            continue
        if "json" in options.formats:
            field.sinks[name] = sink
        if "avro" in options.formats and in_avro(name) in readers:
            field.sinks[in_avro(name)] = readers[in_avro(name)]
        elif "avro" in options.formats:
            announce(f"{sink.title}, Avro, is out: {JSON_ALONE}")
            field.not_run[f"{sink.title}, Avro"] = JSON_ALONE
    return field


def _laps(field: Field, stage: Stage, options: argparse.Namespace) -> Iterator[Lap]:
    laps: Sequence[tuple[int, Sequence[str]]] = [(options.messages, EVERYONE)] if options.messages else LAPS
    for messages, names in laps:
        in_formats = [each for name in names for each in (name, in_avro(name))]
        if set(in_formats) & set(field.sinks):  # else a topic would be filled for nobody
            yield field.run(stage, _workload(messages, options), in_formats, options.rounds)


def _workload(messages: int, options: argparse.Namespace) -> Workload:
    if options.folders:
        return Workload(messages, options.partitions, locations=options.folders, over_midnight=False)
    return Workload(messages, options.partitions)


def _stops(stage: Stage, options: argparse.Namespace) -> tuple[Stop, Stop]:
    sink = this_connector(options.batch_size, options.commit_interval)
    messages = options.messages or LAPS[0][0]
    idle = stop_idle(stage, stage.topic(Workload(min(MANY_ROWS, messages), PARTITIONS)), sink)
    busy = stop_busy(stage, stage.topic(Workload(messages, PARTITIONS)), sink)
    announce(f"stopped in {idle.seconds:.2f} s, and in {busy.seconds:.2f} s while batches were under way")
    return idle, busy


def _row_checks(stage: Stage, options: argparse.Namespace) -> Iterator[RowCheck]:
    for check in check_rows(stage, options.messages or MANY_ROWS):
        where = f"partitions={check.partitions}, BATCH_SIZE={check.batch_size:,}, {check.rows:,} rows"
        announce(f"{where}: {'all verified' if check.passed else 'NOT what was produced'}")
        yield check


def _keep(report: Report, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "latest.json").write_text(json.dumps(report.as_data(), indent=2) + "\n")
    (folder / "latest.md").write_text(as_markdown(report))
    (folder / "latest.svg").write_text(as_picture(report))


if __name__ == "__main__":
    sys.exit(main())
