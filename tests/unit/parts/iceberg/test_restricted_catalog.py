"""What an Iceberg catalog, and whoever may alter a table, cannot decide: code, hosts, and who sees the login."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyiceberg.catalog
import pyiceberg.io
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import locations
from pyiceberg.table.locations import SimpleLocationProvider
from pyiceberg.utils.config import Config

from app.errors import ConfigError, ConnectorError, FatalError
from app.redaction import redact
from tests.fakes.canned_server import Answer, CannedServer
from tests.unit.parts.iceberg.iceberg_bench import ROOT, IcebergBench, marks

RAN: list[object] = []
PROVIDER, CODE = "write.py-location-provider.impl", f"{__name__}.spy"
UNKNOWN = Answer(404, b'{"error": {"message": "no table", "type": "NoSuchTableException", "code": 404}}')
ISSUED = Answer(body=b'{"access_token": "issued-for-an-hour", "token_type": "bearer"}')

PROGRAM = """\
catalog:
  default:
    auth:
      type: custom
      impl: subprocess.run
      custom:
        args:
        - touch
        - {}
"""


def spy(*given: object, **named: object) -> None:
    """Stands for code of this machine that a catalog names."""
    RAN.append((given, named))
    raise AssertionError("code was run that a catalog names")


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


def config(**overrides: Any) -> Answer:
    return Answer(body=json.dumps({"defaults": overrides.pop("defaults", {}), "overrides": overrides}).encode())


def alter(bench: IcebergBench, **properties: str) -> None:
    """Sets properties as another program may, in which the library is as it comes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locations, "_import_location_provider", lambda _, *given: SimpleLocationProvider(*given))
        patch.setattr(pyiceberg.io, "_import_file_io", lambda _, given: PyArrowFileIO(given))
        with bench.table.transaction() as transaction:
            transaction.set_properties(properties)


def check(folder: Path, server: CannedServer, **properties: str) -> None:
    IcebergBench(folder, {"type": "rest", "uri": server.url, **properties}).new_member().check()


@pytest.mark.parametrize("name", [CODE, "builtins.exec", "pyiceberg.table.locations.SimpleLocationProvider"])
def test_a_table_that_names_code_is_refused_by_that_name(tmp_path: Path, name: str) -> None:
    bench = IcebergBench(tmp_path)
    bench.member()
    alter(bench, **{PROVIDER: name})
    with pytest.raises(ConfigError, match=name):
        bench.new_member().check()
    assert not RAN


def test_a_table_that_gets_code_while_it_is_written_does_not_run_it(tmp_path: Path) -> None:
    bench = IcebergBench(tmp_path)
    member = bench.member()
    member.add_files([bench.file("one", {"n": [1]})], "readings", marks(9))
    alter(bench, **{PROVIDER: CODE})
    with pytest.raises(ConfigError, match="spy"):
        member.add_files([bench.file("two", {"n": [2]})], "readings", marks(19))
    assert not RAN


def test_a_table_chooses_neither_how_nor_where_its_metadata_is_written(tmp_path: Path) -> None:
    bench = IcebergBench(tmp_path)
    member = bench.member()
    alter(bench, **{"py-io-impl": CODE, "quix.store": "elsewhere", "quix.address": "s3://elsewhere"})
    member.add_files([bench.file("one", {"n": [1]})], "readings", marks(9))
    assert not RAN
    alter(bench, **{"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"})
    assert [row["n"] for row in bench.rows("n")] == [1]


@pytest.mark.parametrize(
    "overrides",
    [
        {"auth": {"type": "custom", "impl": CODE, "custom": {}}},
        {"py-io-impl": CODE},
        {"defaults": {"auth": {"type": "custom", "impl": CODE, "custom": {}}}},
        {"token": "another", "header.x-ours": "theirs", "oauth2-server-uri": "http://127.0.0.1:9/steal"},
    ],
)
def test_of_a_catalogs_configuration_only_paths_count(tmp_path: Path, overrides: Mapping[str, Any]) -> None:
    with CannedServer(ISSUED, config(prefix="ours", **overrides), ISSUED, UNKNOWN) as server:
        check(tmp_path, server, credential="me:secret-of-mine")
    _, _, _, asked = server.requests
    assert asked.path == "/v1/ours/namespaces/lake/tables/readings"
    assert asked.headers["authorization"] == "Bearer issued-for-an-hour"
    assert "x-ours" not in asked.headers
    assert not RAN


def test_another_host_that_a_catalog_names_as_itself_gets_no_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with CannedServer(UNKNOWN) as other, CannedServer(config(uri=other.url), UNKNOWN) as server:
        check(tmp_path, server)
    assert len(server.requests) == 2
    assert not other.requests
    assert other.url in caplog.text


def test_a_path_below_its_own_host_is_followed(tmp_path: Path) -> None:
    with CannedServer(UNKNOWN) as server:
        server.answer_first(config(uri=f"{server.url}/iceberg"))
        check(tmp_path, server)
    assert server.requests[-1].path == "/iceberg/v1/namespaces/lake/tables/readings"


@pytest.mark.parametrize("variable", [None, "HOME", "PYICEBERG_HOME"])
def test_a_file_names_code_only_in_the_folder_that_the_operator_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None
) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(PROGRAM.format(tmp_path / "ran"))
    monkeypatch.delenv("PYICEBERG_HOME", raising=False)
    monkeypatch.setenv(variable, str(tmp_path)) if variable else monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # as at the start
    with CannedServer(config(), UNKNOWN) as server, suppress(ConnectorError):
        check(tmp_path, server)
    assert (tmp_path / "ran").exists() == (variable == "PYICEBERG_HOME")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_takes_no_secret_to_another_host(tmp_path: Path, status: int) -> None:
    with CannedServer(ISSUED) as other, CannedServer() as server:
        server.answer_first(Answer(status, headers={"Location": f"{other.url}/oauth?code=abc"}))
        with pytest.raises(FatalError, match=rf"Set CATALOG_URL .*{other.url}/oauth$"):
            check(tmp_path, server, credential="me:secret-of-mine")
    assert not other.requests


@pytest.mark.parametrize(
    "answers",
    [
        [Answer(body=b'{"access_token": "issued-in-vain"}')],
        [ISSUED, Answer(500, b"<pre>Authorization: Bearer issued-for-an-hour, client secret-of-mine</pre>")],
        [ISSUED, Answer(403, b'{"error": {"message": "Bearer issued-for-an-hour", "type": "X", "code": 403}}')],
    ],
    ids=["an answer that lacks a field", "a page", "a refusal"],
)
def test_no_login_that_a_catalog_repeats_is_told(tmp_path: Path, answers: list[Answer]) -> None:
    with CannedServer(*answers) as server, pytest.raises(ConnectorError) as caught:
        check(tmp_path, server, credential="me:secret-of-mine")
    for secret in ("issued-in-vain", "issued-for-an-hour", "secret-of-mine"):
        assert secret not in str(caught.value)
        assert secret == "issued-in-vain" or secret not in redact(f"said {secret}.")


@pytest.mark.parametrize("folder", ["data/other/metadata", f"{ROOT}/other/metadata", f"{ROOT}/metadata/other"])
def test_metadata_of_another_table_stays_though_a_table_calls_it_its_own(tmp_path: Path, folder: str) -> None:
    bench = IcebergBench(tmp_path)
    member = bench.member()
    alter(bench, **{"write.metadata.previous-versions-max": "1"})
    other = f"{folder}/v1.metadata.json"
    bench.store.overwrite(other, b"{}")
    metadata = Path(bench.table.metadata_location.removeprefix("file://"))
    document = json.loads(metadata.read_text())
    first = document["metadata-log"][0]["metadata-file"]
    document["metadata-log"].insert(0, {"metadata-file": f"{bench.store.uri}/{other}", "timestamp-ms": 0})
    metadata.write_text(json.dumps(document))
    member.add_files([bench.file("one", {"n": [1]})], "readings", marks(9))
    assert bench.store.find(other)
    assert not Path(first.removeprefix("file://")).exists(), "former versions of the table go"
