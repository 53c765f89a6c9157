"""Exactly once on every store: a member is killed at work, others take over, and each row is in the lake once.

To add a store, name it in ``STORES`` and write a fixture ``<name>_home``.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.parts.azure.store import AzureStore
from app.parts.gcs.store import GcsStore
from app.storage.local.store import LocalStore
from app.storage.s3.store import S3Store
from app.storage.targets import AzureTarget, GcsTarget
from dev.azurite import LocalAzurite
from dev.connector import environment
from dev.gcs_server import LocalGcsServer
from dev.minio import LocalMinio
from tests.e2e.conftest import NewScenario
from tests.e2e.lake import FILE_NAME, Home, Tally
from tests.e2e.scenario import s3_store
from tests.services.main_process import run_main
from tests.services.no_conditions import ignoring_conditions, refusing_conditions

STORES = ("s3", "s3_refusing_conditions", "s3_ignoring_conditions", "gcs", "azure", "local")
EVERY_DAY = ("s3",)  # all other scenarios have the local store
A_SECOND = 4_000  # records


@pytest.fixture(params=[pytest.param(name, marks=() if name in EVERY_DAY else pytest.mark.night) for name in STORES])
def home(request: pytest.FixtureRequest) -> Home:
    found: Home = request.getfixturevalue(f"{request.param}_home")
    return found


@pytest.fixture
def s3_home(s3_server: LocalMinio, bucket: str) -> Home:
    store = S3Store(s3_server.target(bucket), max_workers=1)
    return Home(s3_store(s3_server, bucket), store)


@pytest.fixture
def s3_refusing_conditions_home(s3_home: Home, s3_server: LocalMinio) -> Iterator[Home]:
    with refusing_conditions(s3_server) as proxy:
        yield Home(s3_home.settings | {"AWS_ENDPOINT_URL": proxy.url}, s3_home.store)


@pytest.fixture
def s3_ignoring_conditions_home(s3_home: Home, s3_server: LocalMinio) -> Iterator[Home]:
    with ignoring_conditions(s3_server) as proxy:
        yield Home(s3_home.settings | {"AWS_ENDPOINT_URL": proxy.url}, s3_home.store)


@pytest.fixture
def gcs_home(gcs_server: LocalGcsServer, gcs_bucket: str, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gcs_server.endpoint_url)  # for the connectors, too
    return Home({"STORAGE_URL": f"gs://{gcs_bucket}"}, GcsStore(GcsTarget(gcs_bucket), max_workers=1))


@pytest.fixture
def azure_home(azurite: LocalAzurite, container: str) -> Home:
    settings = {
        "STORAGE_URL": f"az://{container}",
        "AZURE_STORAGE_ACCOUNT": azurite.account,
        "AZURE_STORAGE_KEY": azurite.key,
        "AZURE_ENDPOINT_URL": azurite.endpoint_url,
    }
    store = AzureStore(AzureTarget(container, connection_string=azurite.connection_string), max_workers=1)
    return Home(settings, store)


@pytest.fixture
def local_home(tmp_path: Path) -> Home:
    folder = tmp_path / "shelf"
    folder.mkdir()
    return Home({"STORAGE_URL": folder.as_uri()}, LocalStore(folder))


def test_each_row_is_there_once_though_a_member_dies_at_work(new_scenario: NewScenario, home: Home) -> None:
    scenario = new_scenario(partitions=2)
    table = f"data/{scenario.topic}"

    with scenario.load(A_SECOND) as produced:
        settings = home.settings | {"BATCH_SIZE": "500"}
        killed, *members = scenario.kill_at_work(settings, lambda: home.is_at_work(table))
    scenario.wait_until_committed(produced[0], by=members[0])
    assert [member.stop() for member in members] == [0, 0]

    assert home.mirror(table, scenario.folder / "mirror").tally_by_pyarrow() == Tally.of(range(produced[0]))
    assert {log["state"] for log in home.logs(table)} == {"done"}
    assert [found.key for found in home.objects("") if not belongs(found.key, table)] == []
    topic = {"input": scenario.topic, "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}  # an audit needs no broker
    audit = run_main("audit", "--json", environment=environment(home.settings | topic))
    assert (audit.returncode, audit.stderr) == (0, "")
    findings = json.loads(audit.stdout)["partitions"]
    assert [(each["doubled"], each["missing"]) for each in findings] == [([], []), ([], [])]
    for member in (killed, *members):
        assert not re.search("Traceback|ERROR", member.log)


def belongs(key: str, table: str) -> bool:
    """Whether a lake has such a file: data, or a journal, and nothing that was left over."""
    folder, _, name = key.rpartition("/")
    if folder == f"{table}/_journal" or folder.startswith(f"{table}/_journal/"):
        return name.endswith(".json") and not name.startswith("probe-")
    return folder.startswith(table) and FILE_NAME.fullmatch(name) is not None
