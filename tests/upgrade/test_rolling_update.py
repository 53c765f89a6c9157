"""Members of a former and of the present version share a group and a table: no record is lost or doubled."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.connector import REPO
from dev.former_tables import ARCHIVES, version_of
from tests.e2e.conftest import NewScenario, new_scenario
from tests.e2e.lake import Tally

__all__ = ["new_scenario"]  # a fixture

A_SECOND = 2_000
SETTINGS = {"HIVE_COLUMNS": "location", "BATCH_SIZE": "500"}

pytestmark = [pytest.mark.night, pytest.mark.java]


@pytest.fixture(params=ARCHIVES, ids=version_of)
def former(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A checkout of the former version."""
    tree = tmp_path / "former"
    subprocess.run(["git", "worktree", "add", "--detach", str(tree), version_of(request.param)], cwd=REPO, check=True)
    yield tree
    subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=REPO, check=True)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_replicas_are_replaced_one_after_the_other(new_scenario: NewScenario, former: Path, end: str) -> None:
    scenario = new_scenario(partitions=4)
    settings = scenario.local_store | SETTINGS
    with scenario.load(A_SECOND) as produced:
        members = [scenario.connector(settings, root=former) for _ in range(2)]
        for member in members:
            member.wait_for_log("batch 3 ")
        for number, member in enumerate(members):
            getattr(member, end)()
            members[number] = scenario.connector(settings)
            members[number].wait_for_log("batch 3 ")
    scenario.wait_until_committed(produced[0], by=members[0])
    assert [member.stop() for member in members] == [0, 0]
    assert scenario.lake.tally_by_duckdb() == Tally.of(range(produced[0]))
