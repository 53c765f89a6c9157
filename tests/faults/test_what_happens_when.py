"""What docs/guarantees.md promises under "What happens when", as far as nothing has to be killed for it."""

import shutil
from dataclasses import replace

import pytest

from app.errors import RetryableError
from tests.faults.connector_thread import Place

LATEST = {"AUTO_OFFSET_RESET": "latest"}


def test_records_that_expired_between_two_runs_are_told(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.write(100, 100)
    place.produce(100)
    place.expire(150)

    place.write(10, 210, **LATEST)

    assert "offsets 100 to 149 (50 records)" in caplog.text
    place.assert_whole([*range(100), *range(150, 210)])


def test_a_table_that_is_deleted_while_it_is_written_begins_anew(place: Place) -> None:
    place.timings = replace(place.timings, fenced_seconds=0.5)
    connector = place.connector()
    place.produce(100)
    place.wait_until_committed(100, by=connector)
    shutil.rmtree(place.table())
    place.produce(100)

    error = connector.wait()

    assert isinstance(error, RetryableError)
    assert "the table was deleted" in str(error)
    again = place.connector()
    place.finish(again, 200)
    place.assert_whole(range(100, 200))


def test_two_groups_on_one_table_write_their_rows_each(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    one, other = place.group, f"{place.group}-2"
    connectors = []
    for place.group in (one, other):
        connectors.append(place.connector())
        connectors[-1].wait_until_consuming()
    place.produce(100)
    for place.group, connector in zip((one, other), connectors, strict=True):
        place.finish(connector, 100)

    assert f"other consumer groups too ({one})" in caplog.text
    place.assert_whole([*range(100), *range(100)])
