"""What tests/e2e/test_iceberg.py promises, with catalogs that people run: each of them in one site."""

import json
import time

import pytest

from dev.iceberg_nessie import LocalNessie
from tests.e2e.conftest import NewScenario
from tests.e2e.records import records, value
from tests.e2e.test_iceberg import (  # noqa: F401 - each test once more, with the sites of here
    Site,
    test_a_catalog_that_is_away_is_waited_for,
    test_compact_merges_while_members_write_and_others_compact,
    test_each_row_is_there_once_though_a_member_dies_at_work,
    test_engines_read_every_value_and_partition,
    wait_for_catalog,
)
from tests.support.waiting import PATIENCE

OF_REST = (  # DuckDB reads only through REST, and only such a catalog lends keys
    test_compact_merges_while_members_write_and_others_compact,
    test_engines_read_every_value_and_partition,
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "site" in metafunc.fixturenames:
        is_rest = metafunc.function in OF_REST or "nessie" in metafunc.fixturenames
        metafunc.parametrize("site", ["nessie"] if is_rest else ["nessie", "hive"], indirect=True)


@pytest.fixture
def site(request: pytest.FixtureRequest) -> Site:
    catalog = request.getfixturevalue(request.param)
    return Site(catalog, catalog.minio, catalog.warehouse.removeprefix("s3://"))


def test_columns_are_added_and_old_rows_erased(new_scenario: NewScenario, site: Site) -> None:
    scenario = new_scenario()
    scenario.produce(records(100))
    scenario.finish(scenario.connector(site.settings), 100)
    new = value(100) | {"ts_ms": int(time.time() * 1_000), "later": {"a": [1.5]}}
    scenario.produce([(None, json.dumps(new), None, 0)])
    scenario.finish(scenario.connector(site.settings), 101)
    compacted = site.compact(scenario)
    assert "files became" in compacted.communicate(timeout=PATIENCE)[0]
    site.assert_whole(scenario, 101)
    erased = site.command(scenario, "erase", "--older-than", "400d", "--at-most", "100")
    assert "100 rows" in erased.communicate(timeout=PATIENCE)[0]
    [row] = site.table(scenario).scan().to_arrow().to_pylist()
    assert (row["n"], row["later"]) == (100, {"a": [1.5]})


@pytest.fixture
def lending_site(site: Site, nessie: LocalNessie, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The connector has no keys. Those that it gets may be used for a second: the last 15 are a reserve."""
    monkeypatch.setattr(nessie, "seconds_of_keys", 16)
    no_keys = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "ON_BAD_RECORD": "skip"}
    site.settings |= no_keys | {"CATALOG_VENDED_CREDENTIALS": "true"}
    return site


def test_keys_that_the_catalog_lends_are_enough(new_scenario: NewScenario, lending_site: Site) -> None:
    scenario = new_scenario(partitions=2)
    with scenario.load(500) as produced:
        _, *members = scenario.kill_at_work(
            lending_site.settings, lambda: lending_site.home.is_at_work(lending_site.root(scenario))
        )
    scenario.wait_until_committed(produced[0], by=members[0])
    assert [member.stop() for member in members] == [0, 0]
    lending_site.assert_whole(scenario, produced[0])
    lending_site.settings["KAFKA_BOOTSTRAP_SERVERS"] = scenario.kafka.bootstrap_servers
    for command in (["check"], ["compact", "--when-cold", "0h"]):
        run = lending_site.command(scenario, *command)
        said = run.communicate(timeout=PATIENCE)[0]
        assert run.returncode == 0, said
    assert "files became" in said


def test_a_catalog_that_is_away_when_keys_end_is_waited_for(new_scenario: NewScenario, lending_site: Site) -> None:
    wait_for_catalog(new_scenario(), lending_site, "requesting keys for")
