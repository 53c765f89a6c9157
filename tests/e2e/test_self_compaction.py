"""COMPACT: members of a group merge the table's small files by themselves, beside their work."""

import os
import time

import pytest

from tests.e2e.conftest import NewScenario
from tests.e2e.lake import Tally
from tests.e2e.records import records
from tests.e2e.test_metrics import scrape, total

BATCHES, ROWS = 4, 1_000


@pytest.mark.alone  # beside others, what has the lowest priority takes for ever
def test_one_of_two_members_merges_old_files_and_each_row_stays_there_once(new_scenario: NewScenario) -> None:
    scenario = new_scenario(partitions=2)
    members = [scenario.connector(HIVE_COLUMNS="location", COMPACT="1m") for _ in range(2)]
    for batch in range(BATCHES):
        scenario.produce(records(ROWS, first=batch * ROWS, partitions=2))
        scenario.wait_until_committed((batch + 1) * ROWS, by=members[0])
    small = scenario.lake.files()
    for path in small:
        os.utime(path, (time.time() - 3_600,) * 2)

    with scenario.load(a_second=200) as count:
        begun = time.time()
        members[0].wait_until(lambda: not any(path.exists() for path in small), "the old files merged")
    at = "lake_sink_compaction_timestamp_seconds"  # later runs change the numbers
    members[0].wait_until(lambda: total(scrape(members[0]), at) > begun, "told")
    total_rows = BATCHES * ROWS + count[0]
    scenario.wait_until_committed(total_rows, by=members[0])
    for member in members:
        member.stop()
    expected = Tally.of([*range(BATCHES * ROWS), *range(count[0])])
    assert scenario.lake.tally_by_duckdb() == expected
