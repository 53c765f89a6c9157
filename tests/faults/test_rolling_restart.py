"""All members of a group are replaced one after the other under load, as a rolling update does it."""

from contextlib import closing
from http import HTTPStatus
from pathlib import Path

import pytest

from dev.broker import Broker
from tests.e2e.connector import ConnectorProcess
from tests.e2e.lake import Tally
from tests.e2e.scenario import Scenario

PARTITIONS, MEMBERS = 16, 8
RECORDS_A_SECOND = 1_000


@pytest.mark.night
def test_every_row_is_there_once(kafka: Broker, tmp_path: Path) -> None:
    with closing(Scenario(kafka, tmp_path, PARTITIONS)) as scenario:
        members = [scenario.connector() for _ in range(MEMBERS)]
        with scenario.load(RECORDS_A_SECOND) as produced:
            for member in members:
                _wait_until_ready(member)
            for number, old in enumerate(members):
                assert old.stop() == 0, old.log[-6000:]
                members[number] = scenario.connector()
                _wait_until_ready(members[number])
        scenario.wait_until_committed(produced[0], by=members[0])
        for member in members:
            assert member.stop() == 0, member.log[-6000:]

        assert scenario.lake.tally_by_duckdb() == Tally.of(range(produced[0]))


def _wait_until_ready(member: ConnectorProcess) -> None:
    """As a platform does before it goes on."""
    member.wait_until(lambda: member.health("ready") == HTTPStatus.OK, "a member that is ready")
