"""The benchmark's report: what it says must follow from the runs, and what was not measured must not look measured."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bench.bars import COLD, CPU, WARM, Verdict, verdicts
from bench.laps import Lap
from bench.report import Report, as_markdown
from bench.run import Run
from bench.sinks import all_sinks

RUN = Run(
    messages=2_000_000,
    cold_seconds=20.0,
    first_seconds=4.0,
    warm_rate=200_000.0,
    cpu_seconds=30.0,
    java_cpu_seconds=18.0,
    warm_cpu_seconds=8.0,
    peak_mb=1_200.4,
    files=64,
    size=48_000_000,
)


def _slower(times: float) -> Run:
    return replace(RUN, cold_seconds=20.0 * times, warm_rate=200_000.0 / times, warm_cpu_seconds=8.0 * times)


def _lap(messages: int, **runs: Sequence[Run]) -> Lap:
    at_this_length = {
        name.replace("_", "-"): [replace(run, messages=messages) for run in found] for name, found in runs.items()
    }
    return Lap(messages, 182.1, 4, at_this_length)


def _report(lap: Lap) -> Report:
    sinks = {name: sink for name, sink in all_sinks(1_000, 5.0).items() if name in lap.runs}
    return Report("2025-04-01 12:00 UTC", {"Processor": "2 cores"}, 3, [lap], sinks, {}, stops=None, row_checks=[])


def _verdict(laps: Sequence[Lap], other: str, figure: str) -> Verdict:
    (found,) = [v for v in verdicts(laps) if (v.bar.other, v.bar.figure) == (other, figure)]
    return found


def test_a_bar_compares_the_medians_of_the_lap_it_is_for() -> None:
    two = _lap(2_000_000, connector=[RUN, _slower(2), _slower(9)], dependency_1000=[_slower(14)] * 3)
    three = _lap(3_000_000, connector=[RUN], iceberg_1=[_slower(0.5)])
    laps = [two, three]

    cold = _verdict(laps, "dependency-1000", COLD)
    assert (cold.messages, cold.reached) == (2_000_000, True)
    assert cold.ratio == pytest.approx(7.0)
    iceberg = _verdict(laps, "iceberg-1", COLD)
    assert (iceberg.messages, iceberg.reached) == (3_000_000, False)
    assert iceberg.ratio == pytest.approx(0.5)
    cpu = _verdict([_lap(5_000_000, connector=[RUN], iceberg_2=[_slower(1.9)])], "iceberg-2", CPU)
    assert cpu.ratio == pytest.approx(1.9)
    assert cpu.reached, "of processor time less is better"


def test_a_bar_of_another_length_is_compared_in_the_lap_there_is_but_not_judged() -> None:
    lap = _lap(100_000, connector=[RUN], iceberg_2=[RUN])

    verdict = _verdict([lap], "iceberg-2", WARM)

    assert (verdict.messages, verdict.reached) == (100_000, None)
    assert verdict.ratio == pytest.approx(1.0)
    assert "| is for 5,000,000" in as_markdown(_report(lap))


@pytest.mark.parametrize("runs", [{}, {"iceberg_2": [RUN, replace(RUN, warm_rate=None)]}])
def test_what_was_not_measured_has_no_ratio(runs: dict[str, Sequence[Run]]) -> None:
    verdict = _verdict([_lap(5_000_000, connector=[RUN], **runs)], "iceberg-2", WARM)

    assert (verdict.ratio, verdict.reached) == (None, None)
