"""A transform() that keeps state, on a real Kafka: its state and the table never tell different stories.

It numbers the records by a count that it keeps. So a record that the state has not seen, or has seen twice, shows in
the numbers of all that come after it.
"""

from dataclasses import replace

import pytest
from quixstreams import State
from quixstreams.dataframe import StreamingDataFrame

from app.errors import DataError, RetryableError
from tests.fakes.moody_store import MoodyStore
from tests.faults.connector_thread import FAST, Place


def _numbered(sdf: StreamingDataFrame) -> StreamingDataFrame:
    def number(value: dict[str, int], state: State[str, int]) -> dict[str, int]:
        so_far: int = state.get("count", 0)
        state.set("count", so_far + 1)
        return {**value, "n": so_far}

    return sdf.apply(number, stateful=True)


def _is_in_the_table(place: Place, count: int) -> bool:
    return [(entry["state"], entry["end"]) for entry in place.journals().values()] == [("done", count - 1)]


def test_after_a_crash_the_state_gets_what_only_the_table_has(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    first = place.connector(transform=_numbered)
    place.produce(100)
    first.crash_before_commit(lambda: _is_in_the_table(place, 100))
    assert place.committed() != [100]

    second = place.connector(transform=_numbered)
    second.wait_until_consuming()
    place.produce(50)
    place.finish(second, 150)
    place.assert_whole()
    assert "rows are already in the table" in caplog.text


def test_it_goes_back_to_the_last_commit_where_a_late_member_has_closed_the_log(place: Place) -> None:
    connector = place.connector(transform=_numbered)
    place.produce(90)
    place.wait_until_committed(90, by=connector)
    place.close_log()
    place.produce(90)
    place.finish(connector, 180)
    place.assert_whole()


def test_records_without_rows_are_in_the_state_once(place: Place) -> None:
    def every_other(sdf: StreamingDataFrame) -> StreamingDataFrame:
        numbered = _numbered(sdf)
        return numbered[numbered["n"] % 10 == 0]

    for life in (1, 2):
        connector = place.connector(transform=every_other)
        connector.wait_until_consuming()
        place.produce(98)
        place.finish(connector, 98 * life)
    place.assert_whole(range(0, 196, 10))  # the count went on from the changelog
    assert list(place.journals()) == [0]


@pytest.mark.parametrize("place", [2], indirect=True)  # of one partition nothing is sent on
@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_records_that_are_grouped_anew_are_sent_once_and_read(place: Place, reset: str) -> None:
    for life in (1, 2):
        grouped = lambda sdf: sdf.group_by("pad", name="by-pad")  # noqa: E731
        connector = place.connector(transform=grouped, AUTO_OFFSET_RESET=reset)
        connector.wait_until_consuming()
        place.produce(100, size=1)
        place.wait_until_committed(50 * life, 50 * life, by=connector)
        connector.wait_until(lambda: len(place.numbers()) == place.produced, "the rows")
        connector.stop()
    place.assert_whole()


def test_with_state_a_bad_record_that_ends_the_connector_is_in_no_commit(place: Place) -> None:
    """Its changes of the state would be there once more after each restart."""

    def failing_at_the_fiftieth(sdf: StreamingDataFrame) -> StreamingDataFrame:
        def check(value: dict[str, int]) -> dict[str, int]:
            if value["n"] == 50 and refuse:
                raise ValueError("not this one")
            return value

        return _numbered(sdf).apply(check)

    refuse = True
    place.produce(100)
    for _ in range(2):
        lazy = {"COMMIT_INTERVAL": "3600"}
        connector = place.connector(lazy, transform=failing_at_the_fiftieth, ON_BAD_RECORD="fail")
        assert isinstance(connector.wait(), DataError)
    refuse = False
    connector = place.connector(transform=failing_at_the_fiftieth, ON_BAD_RECORD="fail")
    place.finish(connector, 100)
    place.assert_whole()


def test_back_pressure_while_records_come_again_writes_none_of_them_twice(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """The flush takes too long, and quixstreams goes back."""
    first = place.connector(transform=_numbered)
    place.produce(100)
    first.crash_before_commit(lambda: _is_in_the_table(place, 100))

    store = MoodyStore(place.store_folder)
    store.refuse = lambda _: RetryableError("uploading to the lake", "no route to host")
    place.produce(50)
    hasty = replace(FAST, flush_seconds=1.0)
    second = place.connector({"COMMIT_INTERVAL": "1"}, store=store, transform=_numbered, timings=hasty)
    second.wait_until(lambda: "read again" in caplog.text, "back-pressure")
    store.refuse = lambda _: None
    place.finish(second, 150)
    place.assert_whole()
