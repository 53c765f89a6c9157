"""An Iceberg table of a real catalog gets each row once, also where members are killed at work and others join."""

import json
import os
import re
import subprocess
import sys
import uuid
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from app.parts.iceberg.store_io import ADDRESS, OWNS, STORE, StoreIO
from app.storage.s3.store import S3Store
from dev import iceberg_spark
from dev.connector import REPO, environment
from dev.iceberg_catalog import IcebergServer, LocalIcebergCatalog
from dev.minio import LocalMinio
from tests.e2e.conftest import NewScenario
from tests.e2e.lake import Home
from tests.e2e.records import records, value
from tests.e2e.scenario import Scenario, s3_store
from tests.e2e.test_every_store import azure_home, gcs_home, local_home  # noqa: F401 - fixtures
from tests.faults.tcp_detour import TcpDetour
from tests.support.iceberg_readers import pyiceberg_catalog, read_with_duckdb, read_with_pyiceberg
from tests.support.waiting import PATIENCE, wait_until

A_SECOND = 2_000
TRANSFORMED = "__partition,location,year,month,day(at),bucket(4,n)"


class Site:
    """A catalog, and a bucket for its tables."""

    def __init__(self, catalog: IcebergServer, minio: LocalMinio, bucket: str) -> None:
        self.catalog = catalog
        self.namespace = f"lake_{uuid.uuid4().hex[:8]}"
        self.home = Home(s3_store(minio, bucket), S3Store(minio.target(bucket), max_workers=1))
        self.settings = self.home.settings | catalog.settings
        self.settings |= {
            "CATALOG_TYPE": "iceberg",
            "CATALOG_NAMESPACE": self.namespace,
            "HIVE_COLUMNS": "location,year,month,day",
            "METADATA_COLUMNS": "__partition,__offset",
            "BATCH_SIZE": "500",
        }

    def table(self, scenario: Scenario) -> Table:
        found: Table = pyiceberg_catalog(self.catalog).load_table((self.namespace, scenario.topic))
        return found

    def root(self, scenario: Scenario) -> str:
        """The key of the table's folder, which a catalog may have chosen."""
        return self.table(scenario).location().removeprefix(f"{self.home.store.uri}/")

    def numbers(self, scenario: Scenario) -> list[int]:
        numbers: list[int] = self.table(scenario).scan(selected_fields=("n",)).to_arrow()["n"].to_pylist()
        return sorted(numbers)

    def compact(self, scenario: Scenario) -> subprocess.Popen[str]:
        return self.command(scenario, "compact", "--when-cold", "0h")

    def command(self, scenario: Scenario, *arguments: str) -> subprocess.Popen[str]:
        """A run of the command that has just begun."""
        return subprocess.Popen(
            [sys.executable, str(REPO / "main.py"), *arguments],
            env=environment({**self.settings, "input": scenario.topic}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def merged(self, scenario: Scenario) -> list[str]:
        """The files in the store that ``compact`` has made."""
        listed = self.home.store.list(f"{self.root(scenario)}/")
        return [found.key for found in listed if "data_merged_" in found.key]

    def assert_whole(self, scenario: Scenario, count: int) -> None:
        """Each record is a row, once; and the table and the store have the same files."""
        assert self.numbers(scenario) == list(range(count))
        folder = scenario.folder / "mirror"
        lake = self.home.mirror(self.root(scenario), folder)
        paths = self.table(scenario).inspect.files()["file_path"].to_pylist()
        listed = {path.partition(f"/{self.root(scenario)}/")[2] for path in paths}
        stored = {str(path.relative_to(folder)) for path in lake.files()}
        assert listed == stored


@pytest.fixture
def site(iceberg_catalog: LocalIcebergCatalog, s3_server: LocalMinio, bucket: str) -> Site:
    return Site(iceberg_catalog, s3_server, bucket)


def test_each_row_is_there_once_though_a_member_dies_at_work(new_scenario: NewScenario, site: Site) -> None:
    scenario = new_scenario(partitions=2)
    with scenario.load(A_SECOND) as produced:
        killed, *members = scenario.kill_at_work(site.settings, lambda: site.home.is_at_work(site.root(scenario)))
    scenario.wait_until_committed(produced[0], by=members[0])
    assert [member.stop() for member in members] == [0, 0]
    site.assert_whole(scenario, produced[0])
    for member in (killed, *members):
        assert "Traceback" not in member.log


def test_a_catalog_that_is_away_is_waited_for(new_scenario: NewScenario, site: Site) -> None:
    wait_for_catalog(new_scenario(), site, "committing files to")


def wait_for_catalog(scenario: Scenario, site: Site, doing: str) -> None:
    """Take the catalog away at work, and bring it back once the log says that it is waited for."""
    with TcpDetour() as detour:
        address = urlsplit(site.catalog.url).netloc
        detour.target = int(address.rpartition(":")[2])
        settings = {name: text.replace(address, f"127.0.0.1:{detour.port}") for name, text in site.settings.items()}
        connector = scenario.connector(settings)
        scenario.produce(records(100, first=0))
        scenario.wait_until_committed(100, by=connector)
        detour.cut()
        scenario.produce(records(100, first=100))
        connector.wait_for_log(f"{doing} the Iceberg table .* Retrying until it works")
        detour.mend()
        scenario.finish(connector, 200)
    site.assert_whole(scenario, 200)


@pytest.mark.parametrize(
    ("writer", "partitions"),
    [
        ("pyarrow", TRANSFORMED),
        pytest.param("Spark", TRANSFORMED, marks=[pytest.mark.java, pytest.mark.night]),
        pytest.param("Spark", "__partition,year,month", marks=pytest.mark.java),
    ],
)
def test_engines_read_every_value_and_partition(
    new_scenario: NewScenario, site: Site, writer: str, partitions: str
) -> None:
    scenario = new_scenario()
    scenario.produce(records(1_000, first=0))
    columns = {"HIVE_COLUMNS": partitions, "TIMESTAMP_AS": "at", "COLUMN_TYPES": "n:bigint", "TIME_ZONE": "Etc/GMT+12"}
    connector = scenario.connector(site.settings | columns)
    scenario.finish(connector, 1_000)
    rows = read_with_pyiceberg(site.catalog, site.namespace, scenario.topic)
    assert rows == read_with_duckdb(site.catalog, site.namespace, scenario.topic)
    by_number = {row["n"]: row for row in rows}
    for n in range(1_000):
        wanted = value(n)
        assert {name: by_number[n][name] for name in wanted} == wanted
        assert [by_number[n][name] for name in ("__partition", "year", "month")] == ["0", "2023", "12"]
    partitions_of_table = [str(each.transform) for each in site.table(scenario).spec().fields]
    assert partitions_of_table == (
        ["identity"] * 4 + ["day", "bucket[4]"] if partitions == TRANSFORMED else ["identity"] * 3
    )
    site.assert_whole(scenario, 1_000)


@pytest.mark.parametrize("kind", ["gcs", "azure", "local"])
def test_a_catalog_of_another_kind_has_tables_in_every_store(
    new_scenario: NewScenario, request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    """pyiceberg's own variables name the catalog: a database in a file, for which pyiceberg writes all metadata.

    Each of two topics has its table and its columns.
    """
    home: Home = request.getfixturevalue(f"{kind}_home")
    scenario = new_scenario()
    other = f"{scenario.topic}.more"
    scenario.topics[other] = 1
    scenario.kafka.create_topic(other, 1)
    scenario.produce(records(500))
    scenario.kafka.produce(other, ((None, json.dumps(value(n) | {"more": n}), None, 0) for n in range(500)))
    address = f"sqlite:///{tmp_path}/catalog.db"
    variables = {
        "CATALOG_TYPE": "iceberg",
        "PYICEBERG_CATALOG__DEFAULT__TYPE": "sql",
        "PYICEBERG_CATALOG__DEFAULT__URI": address,
        "HIVE_COLUMNS": "location,day",
        "TABLE_NAME": "raw_{topic}",
        "input": f"{scenario.topic},{other}",
    }
    connector = scenario.connector(home.settings | variables)
    scenario.finish(connector, 1_000)
    uri = home.settings["STORAGE_URL"]
    if kind == "azure":
        uri = f"abfss://{uri.removeprefix('az://')}@{home.settings['AZURE_STORAGE_ACCOUNT']}.dfs.core.windows.net"
    io: dict[str, Any] = {
        "py-io-impl": f"{StoreIO.__module__}.StoreIO",
        STORE: home.store,
        ADDRESS: uri,
        OWNS: lambda _: True,
    }
    for topic in scenario.topics:
        table = SqlCatalog("default", uri=address, **io).load_table(("default", f"raw_{topic}"))
        assert table.location() == f"{uri}/data/raw_{topic}"
        assert sorted(table.scan().to_arrow()["n"].to_pylist()) == list(range(500))
        assert ("more" in table.schema().column_names) == (topic == other)


def test_engines_maintain_the_table_while_it_is_written(new_scenario: NewScenario, site: Site) -> None:
    scenario = new_scenario(partitions=2)
    name, tomorrow = f"'{site.namespace}.`{scenario.topic}`'", date.today() + timedelta(days=1)
    with scenario.load(A_SECOND // 4) as produced:
        connector = scenario.connector(site.settings, TARGET_FILE_MB="0")
        connector.wait_for_log("batch 5 ")
        for procedure in (
            f"rewrite_data_files(table => {name}, options => map('rewrite-all', 'true'))",
            f"expire_snapshots(table => {name}, older_than => TIMESTAMP '{tomorrow}', retain_last => 1)",
        ):
            iceberg_spark.query(site.catalog, f"CALL lake.system.{procedure}")
        change = f"ALTER TABLE lake.`{site.namespace}`.`{scenario.topic}` REPLACE PARTITION FIELD day WITH bucket(2, n)"
        iceberg_spark.query(site.catalog, change)
        former = len(site.table(scenario).snapshots())
        wait_until(lambda: len(site.table(scenario).snapshots()) > former + 5, "commits with the new partitions")
    scenario.finish(connector, produced[0])
    assert site.numbers(scenario) == list(range(produced[0]))
    assert {1} < set(site.table(scenario).inspect.files()["spec_id"].to_pylist())


def test_compact_merges_while_members_write_and_others_compact(new_scenario: NewScenario, site: Site) -> None:
    scenario = new_scenario(partitions=2)
    with scenario.load(A_SECOND // 4) as produced:
        # With a commit each second, hardly a try of compact would come through on a busy machine.
        connector = scenario.connector(site.settings, TARGET_FILE_MB="0", BATCH_SIZE="1000000", COMMIT_INTERVAL="3")
        connector.wait_for_log("batch 5 ")
        audited = site.command(scenario, "audit").communicate(timeout=PATIENCE)[0]
        assert re.search(rf"{scenario.topic}\[\d\] .* 0 +0$", audited, re.MULTILINE), audited
        killed = site.compact(scenario)
        wait_until(lambda: any(site.merged(scenario)), "the first merged file")
        killed.kill()
        runs = [site.compact(scenario) for _ in range(2)]
        said = [run.communicate(timeout=PATIENCE)[0] for run in runs]
        assert [run.returncode for run in runs] == [0, 0], said
    scenario.finish(connector, produced[0])
    before = len(site.table(scenario).inspect.files())
    last = site.compact(scenario)
    assert "files became" in last.communicate(timeout=PATIENCE)[0]
    assert len(site.table(scenario).inspect.files()) < before
    audited = site.command(scenario, "audit").communicate(timeout=PATIENCE)[0]
    assert len(re.findall(rf"{scenario.topic}\[\d\] .* 0 +0$", audited, re.MULTILINE)) == 2, audited
    assert "other Parquet file" not in audited
    assert site.numbers(scenario) == list(range(produced[0]))
    assert "replace" in {each.summary.operation.value for each in site.table(scenario).snapshots() if each.summary}
    of_duckdb = read_with_duckdb(site.catalog, site.namespace, scenario.topic)
    assert of_duckdb == read_with_pyiceberg(site.catalog, site.namespace, scenario.topic)


def test_removing_orphans_keeps_the_journal(new_scenario: NewScenario, site: Site) -> None:
    scenario = new_scenario()
    scenario.produce(records(500))
    connector = scenario.connector(site.settings | scenario.local_store | {"S3_BUCKET": ""})
    scenario.finish(connector, 500)
    files = {path for path in scenario.lake.folder.rglob("*") if path.is_file()}
    orphan = scenario.lake.folder / "location=Oslo" / "left-over.parquet"
    orphan.parent.mkdir()
    orphan.write_bytes(b"PAR1")
    for path in (*files, orphan):
        os.utime(path, (0, 0))  # Spark leaves files of the last three days
    name = f"'{site.namespace}.`{scenario.topic}`'"
    iceberg_spark.query(site.catalog, f"CALL lake.system.remove_orphan_files(table => {name})")
    assert not orphan.exists()
    assert {path for path in files if not path.exists()} == set()
