"""What the charts of the status page are made of."""

import pytest

from app.parts.console.history import History, Point, Sample, lay_out, window


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
    assert history(0, 0, lag=7).series(5.0, 5, "lag") == [Point(5, 7), Point(0, 7)]
    assert history(0, lag=None).series(0.0, 5, "lag") == [Point(0, None)]


def test_half_an_hour_is_kept_and_no_more() -> None:
    samples = history(*range(1_000))
    assert samples.span(999 * 5.0) == 1_800


@pytest.mark.parametrize(("span", "shown"), [(0, 300), (299, 300), (301, 600), (1_000, 1_800), (9_999, 1_800)])
def test_a_young_process_gets_a_short_axis(span: float, shown: float) -> None:
    assert window(span) == shown


def test_the_line_is_broken_where_nothing_is_known() -> None:
    points = [Point(40, 1), Point(30, 2), Point(20, None), Point(10, 3), Point(0, 4)]
    assert [len(line) for line in lay_out(points, 300).lines] == [2, 2]
