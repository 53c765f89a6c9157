"""What the charts of the status page are made of."""

import pytest

from app.monitoring.history import Chart, History, Point, Sample, lay_out, ticks, window


def history(*rows: int, lag: int | None = 0) -> History:
    """Samples every 5 s, the first of them at second 0."""
    return filled(*((count, lag) for count in rows))


def lags(*each: int | None) -> History:
    return filled(*((0, lag) for lag in each))


def filled(*samples: tuple[int, int | None]) -> History:
    filled = History()
    for index, (rows, lag) in enumerate(samples):
        filled.add(Sample(index * 5.0, rows, lag))
    return filled


def test_without_samples_there_is_nothing_to_show() -> None:
    empty, chart = History(), lay_out([Point(0, None)], 300)
    assert (empty.span(100), empty.rate(100, 60)) == (0, (0, 0))
    assert (empty.rates(100, 15), empty.lags(100, 15)) == ([], [])
    assert (chart.lines, labels(chart)[:2]) == ([], ["0", "1"])


def test_rates_are_of_the_rows_between_two_samples() -> None:
    assert history(0, 50, 50, 200).rates(15.0, 5) == [Point(10, 10), Point(5, 0), Point(0, 30)]
    spread = history(0, 0, 0, 300, 300, 300, 300)  # batches that come one by one, over wider steps
    assert spread.rates(30.0, 15) == [Point(15, 20), Point(0, 0)]


def test_the_rate_of_the_last_minute() -> None:
    samples = history(*range(0, 10_000, 100))
    assert samples.rate(495.0, 60) == (20, 0)
    samples.add(Sample(500.0, 10_000, 0, 6_000))
    assert samples.rate(500.0, 60) == (20, 100)
    assert history(7).rate(0.0, 60) == (0, 0)


def test_a_lag_that_shrinks_or_grows() -> None:
    assert lags(*range(700, 0, -10)).lag_change(345.0, 300) == pytest.approx(-2)
    assert lags(*range(0, 700, 10)).lag_change(345.0, 300) == pytest.approx(2)


def test_commits_alone_do_not_shrink_a_lag() -> None:
    """Between two commits it grows, and with each it falls back at once."""
    sawtooth = [1_000 + 100 * (index % 6) for index in range(60)]
    change = lags(*sawtooth).lag_change(295.0, 300)
    assert change is not None
    assert abs(change) < 0.5


def test_the_change_of_a_lag_takes_half_a_minute_to_tell() -> None:
    assert lags(*[9, 8, 7, 6, 5, 4]).lag_change(25.0, 300) is None
    assert lags(*[None] * 20).lag_change(95.0, 300) is None
    assert lags(*[None] * 20, *[7] * 7).lag_change(130.0, 300) == 0


def test_lags_are_shown_as_they_were() -> None:
    assert history(0, 0, lag=7).lags(5.0, 5) == [Point(5, 7), Point(0, 7)]
    assert history(0, lag=None).lags(0.0, 5) == [Point(0, None)]


def test_half_an_hour_is_kept_and_no_more() -> None:
    samples = history(*range(1_000))
    assert samples.span(999 * 5.0) == 1_800


@pytest.mark.parametrize(
    ("highest", "marks"),
    [
        (0, [0, 1]),
        (0.3, [0, 0.1, 0.2, 0.3]),
        (1, [0, 0.5, 1]),
        (101, [0, 50, 100, 150]),
        (200_000, [0, 50_000, 100_000, 150_000, 200_000]),
        (1e12, [0, 5e11, 1e12]),
    ],
)
def test_the_grid_is_at_round_values(highest: float, marks: list[float]) -> None:
    assert ticks(highest) == pytest.approx(marks)
    assert len(ticks(highest)) <= 5


@pytest.mark.parametrize(("span", "shown"), [(0, 300), (299, 300), (301, 600), (1_000, 1_800), (9_999, 1_800)])
def test_a_young_process_gets_a_short_axis(span: float, shown: float) -> None:
    assert window(span) == shown


def labels(drawn: Chart) -> list[str]:
    return [label for _, label in drawn.values] + [label for _, label, _ in drawn.moments]


def test_both_axes_are_labelled() -> None:
    drawn = lay_out([Point(60, 1_000.0), Point(0, 3_000.0)], 300)
    assert labels(drawn) == ["0", "1k", "2k", "3k", "now", "1 min", "2 min", "3 min", "5 min ago"]


def test_the_newest_point_is_at_the_right_and_the_highest_at_the_top() -> None:
    drawn = lay_out([Point(300, 0), Point(0, 100)], 300)
    assert drawn.lines == [[(40.0, 146.0), (392.0, 12.0)]]


def test_the_line_is_broken_where_nothing_is_known() -> None:
    points = [Point(40, 1), Point(30, 2), Point(20, None), Point(10, 3), Point(0, 4)]
    assert [len(line) for line in lay_out(points, 300).lines] == [2, 2]


def test_what_is_older_than_the_axis_is_left_out() -> None:
    drawn = lay_out([Point(4_000, 9_999), Point(0, 5)], 1_800)
    assert "10k" not in labels(drawn)
