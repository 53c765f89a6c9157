"""Several members of one consumer group share the partitions, and come and go."""

from tests.e2e.conftest import NewScenario
from tests.e2e.lake import Tally
from tests.e2e.records import records


def test_members_come_and_go_without_a_row_missing_or_doubled(new_scenario: NewScenario) -> None:
    scenario = new_scenario(partitions=3)
    total = 0

    def produce(count: int) -> None:
        nonlocal total
        scenario.produce(records(count, first=total, partitions=3))
        total += count

    produce(30_000)
    first = scenario.connector(BATCH_SIZE="1000")
    first.wait_until_ready()
    second = scenario.connector(BATCH_SIZE="1000")
    third = scenario.connector(BATCH_SIZE="1000")
    members = (first, second, third)
    for member in (second, third):
        member.wait_until_ready()
        produce(6_000)  # into the rebalance
    for member in members:
        member.wait_for_log(r"assigned: \S+$")  # one partition each, in the end
        produce(3_000)

    assert third.stop() == 0
    produce(9_000)
    scenario.wait_until_committed(total, by=first)
    for member in (first, second):
        assert member.stop() == 0

    assert scenario.lake.tally_by_duckdb() == Tally.of(range(total))
    for member in members:
        assert not member.complaints()
        assert "given away" in member.log
