"""Whether a day is complete: the answer of ``complete`` while two members write, and one of them is killed."""

import json
from collections.abc import Iterator

import pytest

from dev.broker import Record
from dev.minio import LocalMinio
from tests.e2e.conftest import NewScenario
from tests.e2e.lake import mirror
from tests.e2e.records import records
from tests.e2e.scenario import s3_store
from tests.e2e.test_until import FIRST, in_transaction
from tests.services.groups import leave_group
from tests.support.commands import run_command
from tests.support.environment import load

ROWS, SECONDS, DAY = 8_640, 30, 86_400


def a_day(begin: int, count: int) -> Iterator[Record]:
    """Records of a day from its second ``begin`` on, one each ten seconds, by turns in two partitions."""
    for n, (key, value, _, partition) in enumerate(records(count, first=begin // 10, partitions=2)):
        yield key, value, (int(FIRST.timestamp()) + begin + 10 * n) * 1_000, partition


def test_the_day_is_complete_once_each_of_its_rows_is_there_though_a_member_was_killed(
    new_scenario: NewScenario, s3_server: LocalMinio, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = new_scenario(partitions=3)  # no record of the third is of the day
    store = s3_store(s3_server, bucket)
    settings = load(
        {
            **store,
            "input": scenario.topic,
            "KAFKA_BOOTSTRAP_SERVERS": scenario.kafka.bootstrap_servers,
            "CONSUMER_GROUP": scenario.group,
        }
    )

    def answer(*more: str) -> tuple[int, list[str]]:
        code = run_command(settings, "complete", "--to", "2026-03-02T00:00Z", "--json", *more)
        partitions = json.loads(capsys.readouterr().out)["partitions"]
        return code, [each["state"] for each in partitions]

    scenario.produce(a_day(0, ROWS // 2))
    assert answer() == (1, ["unclaimed", "unclaimed", "complete"])
    scenario.produce((key, value, at, 2) for key, value, at, _ in a_day(DAY, 1))
    killed = scenario.connector(store, LIGHT_DIE="before the log's last write:1")
    killed.wait_until(lambda: killed.exit_code is not None, "its death")
    leave_group(scenario.kafka.bootstrap_servers, scenario.group)
    assert answer()[0] == 1
    members = [scenario.connector(store) for _ in range(2)]
    for member in members:
        member.wait_for_log(r"assigned: ")
    scenario.produce(a_day(DAY // 2, ROWS // 2))
    aborted = in_transaction(scenario, a_day(DAY - 1, 1))
    assert answer()[0] == 1
    aborted.abort_transaction(SECONDS)  # the topic ends with a record that nobody reads, and with a marker
    assert answer("--wait", "2m") == (0, ["complete"] * 3)
    assert mirror(s3_server, bucket, scenario.folder / "seen").numbers() == [*range(ROWS + 1)]
