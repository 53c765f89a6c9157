"""``make bench-replicas``: how far a consumer group scales, and what it does while replicas come and go."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import moves
from bench.command import RESULTS, interruptible, positive, services
from bench.machine import facts
from bench.replicas_report import as_markdown, as_picture
from bench.shared_rate import measure_rate
from bench.stage import Stage
from dev.machine import announce

REPLICAS = (1, 2, 4, 8)
SHARE = 0.15
WARM_UP, MEASURED = 500_000, 600_000
ROUNDS = 2

Found = Iterator[tuple[str, Any]]
"""What was measured, with the key under which it is kept."""


def main() -> int:
    """Measure; 0 when every row came out as it went in, 1 when not, 130 when interrupted."""
    return interruptible(lambda: _run(_options()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.replicas", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="which (all)")
    parser.add_argument("--replicas", nargs="+", type=positive, default=REPLICAS, help="for the rates (%(default)s)")
    parser.add_argument("--share", type=float, default=SHARE, help="cores of each of them (%(default)s)")
    parser.add_argument("--warm-up", type=positive, default=WARM_UP, help="messages a replica before (%(default)s)")
    parser.add_argument("--measured", type=positive, default=MEASURED, help="messages a replica (%(default)s)")
    parser.add_argument("--rounds", type=positive, default=ROUNDS, help="of joins, leaves and deaths (%(default)s)")
    parser.add_argument(
        "--output", type=Path, default=RESULTS, help="folder of the results, which keep the other parts (%(default)s)"
    )
    return parser.parse_args()


def _run(options: argparse.Namespace) -> int:
    machine = facts()
    with services() as stage:
        for part in options.parts:
            for key, found in PARTS[part](stage, options):
                date = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
                _keep(options.output, key, {"date": date, "machine": machine, "found": found})
    print((options.output / "replicas.md").read_text())
    return 0


def _keep(folder: Path, key: str, result: dict[str, Any]) -> None:
    """At once: the machine may be needed for something else before the next part."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "replicas.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    results[key] = result
    file.write_text(json.dumps(results, indent=2) + "\n")
    (folder / "replicas.md").write_text(as_markdown(results))
    if picture := as_picture(results):
        (folder / "replicas.svg").write_text(picture)


def _rates(stage: Stage, options: argparse.Namespace) -> Found:
    for replicas in options.replicas:
        rate = measure_rate(stage, replicas, options.share, options.warm_up, options.measured)
        announce(f"{replicas} replicas: every row there once; {rate.rate:,.0f} msg/s")
        yield f"rate-{replicas}", asdict(rate)


def _moves(stage: Stage, options: argparse.Namespace) -> Found:
    yield "moves", [asdict(move) for move in moves.comings_and_goings(stage, options.rounds)]


def _rolling(stage: Stage, _: argparse.Namespace) -> Found:
    yield "rolling", asdict(moves.rolling_restart(stage))


def _added(stage: Stage, _: argparse.Namespace) -> Found:
    yield "added", asdict(moves.added_partitions(stage))


def _many(stage: Stage, _: argparse.Namespace) -> Found:
    yield "many", asdict(moves.many_partitions(stage))


PARTS: dict[str, Callable[[Stage, argparse.Namespace], Found]] = {
    "rates": _rates,
    "moves": _moves,
    "rolling": _rolling,
    "added": _added,
    "many": _many,
}


if __name__ == "__main__":
    sys.exit(main())
