"""``make bench-scaling``: the connector alone, along rows, partitions, folders, days, width, replicas and stores."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from bench import homes
from bench.command import RESULTS, interruptible, positive, services
from bench.machine import facts
from bench.messages import Workload
from bench.run import Run, measure
from bench.scaling_report import Point, as_markdown
from bench.sinks.connector import ConnectorSink
from bench.stage import Stage
from dev.machine import announce

BATCH_SIZE, COMMIT_INTERVAL = 1_000, 5.0
USUAL = Workload(messages=2_000_000, partitions=4)
NARROW, NOTES_1_KB, NOTES_10_KB = replace(USUAL, plain=False), 17, 204


@dataclass(frozen=True, slots=True)
class Step:
    """A topic, how many connectors share it, and where they write to if not to MinIO."""

    label: str
    workload: Workload
    replicas: int = 1
    home: Callable[[], AbstractContextManager[homes.Home]] | None = None


def _folders(count: int) -> Step:
    """All readings of one day, so that each batch is spread over so many folders."""
    return Step(f"{count:,}", replace(USUAL, locations=count, over_midnight=False))


# A message of 10 kB counts as much as fifty usual ones: as many would fill 20 GB.
AXES: dict[str, Sequence[Step]] = {
    "rows": [
        Step(f"{messages:,}", replace(USUAL, messages=messages))
        for messages in (500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000)
    ],
    "partitions": [Step(str(number), replace(USUAL, partitions=number)) for number in (1, 4, 24, 100)],
    "folders": [_folders(count) for count in (1, 10, 100, 1_000)],
    "days": [Step("12", replace(USUAL, messages=1_000_000, locations=1, every_ms=12 * 86_400 // 1_000))],
    "width": [
        Step("0.1 kB, 6 columns", NARROW),
        Step("0.2 kB, 8 columns", USUAL),
        Step("1 kB, 25 columns", replace(USUAL, messages=1_000_000, notes=NOTES_1_KB)),
        Step("10 kB, 212 columns", replace(USUAL, messages=200_000, notes=NOTES_10_KB)),
    ],
    "replicas": [Step(str(number), USUAL, number) for number in (1, 2)],
    "stores": [
        Step("MinIO", USUAL),
        Step("Azurite", USUAL, home=homes.azurite),
        Step("fake-gcs-server", USUAL, home=homes.gcs_server),
        Step("a local folder", USUAL, home=homes.local_folder),
    ],
}


def main() -> int:
    """Run the measurements; 0 when every row came out as it went in, 1 when not, 130 when interrupted."""
    return interruptible(lambda: _run(_options()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=__doc__)
    parser.add_argument("--axes", nargs="+", choices=AXES, default=list(AXES), help="which (all)")
    parser.add_argument("--rounds", type=positive, default=1, help="runs of each step (%(default)s)")
    parser.add_argument("--divide", type=positive, default=1, help="take so many times fewer messages, to try it out")
    parser.add_argument("--output", type=Path, help="folder for the results (bench/results for a complete run alone)")
    return parser.parse_args()


def _run(options: argparse.Namespace) -> int:
    machine = facts()
    points = [point for axis in options.axes for point in _points(axis, options)]
    date = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    text = as_markdown(date, machine, points)
    print(text)
    complete = list(options.axes) == list(AXES) and options.divide == 1
    folder = options.output or (RESULTS if complete else None)
    if not folder:
        announce("Not kept: this is no complete run, and --output names no folder")
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    data = {"date": date, "machine": machine, "points": [asdict(point) for point in points]}
    (folder / "scaling.json").write_text(json.dumps(data, indent=2) + "\n")
    (folder / "scaling.md").write_text(text)
    return 0


def _points(axis: str, options: argparse.Namespace) -> Iterator[Point]:
    with services() as stage:  # new for each axis: its topics take gigabytes
        for step in AXES[axis]:
            workload = replace(step.workload, messages=max(1, step.workload.messages // options.divide))
            yield Point(
                axis=axis,
                label=step.label,
                messages=workload.messages,
                message_bytes=workload.message_bytes(),
                runs=[_measure(axis, step, workload, stage) for _ in range(options.rounds)],
            )


def _measure(axis: str, step: Step, workload: Workload, stage: Stage) -> Run:
    variables = {"BATCH_SIZE": str(BATCH_SIZE), "COMMIT_INTERVAL": f"{COMMIT_INTERVAL:g}"}
    topic = stage.topic(workload)
    with ExitStack() as servers:
        home = servers.enter_context(step.home()) if step.home else None
        sink = ConnectorSink("scaling", "this connector", variables, step.replicas, home)
        run = measure(sink, stage, topic)
    announce(f"{axis} {step.label}: every row there; {run.cold_seconds:.1f} s, {run.cold_rate:,.0f} msg/s cold")
    return run


if __name__ == "__main__":
    sys.exit(main())
