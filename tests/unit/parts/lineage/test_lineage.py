"""What an OpenLineage collector is told of a run, and that the run neither waits for it nor fails by it."""

import gzip
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from app.config.settings import Settings
from app.errors import FatalError
from app.model import TopicPartition
from app.monitoring.metrics import DeliveredBatch, Metrics
from app.parts.lineage.lineage import Lineage
from app.redaction import add_secrets, redact
from app.service.process import StopRequested
from app.table.existing_table import TableLocation
from app.table.schema import TableSchema
from tests.fakes.canned_server import Answer, CannedServer
from tests.support.commands import run_command
from tests.support.environment import BROKER_ALONE, ENOUGH, load, local_settings
from tests.support.waiting import join, wait_until

OFTEN = 0.01
SYSTEMS = ("broker", "registry", "catalog", "store", "spark")
CREATED = Answer(201)
COLUMNS = {"n": pa.int64(), "at": pa.struct([("x", pa.float64())])}


class Run:
    """A run with this collector; its table has ``COLUMNS`` and folders of ``place``."""

    def __init__(self, server: CannedServer, *bases: dict[str, str], **variables: str) -> None:
        variables = {"input": "readings", "TABLE_NAME": "t", "OPENLINEAGE_URL": server.url, **variables}
        self.settings: Settings = load(*bases, **variables)
        self.server = server
        self.metrics = Metrics()
        self.lakes: dict[str, Any] = {}
        self.opens(self.settings.table.replace("{topic}", "readings"))
        runtime = SimpleNamespace(metrics=self.metrics)
        connector: Any = SimpleNamespace(settings=self.settings, runtime=runtime, lakes=self.lakes)
        address = SimpleNamespace(bootstrap_servers="one:9092,two:9092")
        application = SimpleNamespace(config=SimpleNamespace(broker_address=address))
        lane: Any = SimpleNamespace(application=application, topics=["readings"])
        self.lineage = Lineage(connector, lane)

    def opens(self, table: str) -> None:
        self.lakes[table] = SimpleNamespace(
            location=TableLocation(self.settings.storage.uri, f"{self.settings.root}/{table}"),
            spec=SimpleNamespace(columns=("place",)),
            schema=SimpleNamespace(current=TableSchema(COLUMNS)),
        )

    def delivers(self, rows: int, table: str = "") -> None:
        self.metrics.delivered(DeliveredBatch(1, "", rows, 2, 10 * rows, 0, 0, 0, {}, table=table))

    def goes_on(self, events: int) -> None:
        """Wait for so many requests more."""
        count = len(self.server.requests) + events
        wait_until(lambda: len(self.server.requests) >= count, "more events")

    def all(self, error: BaseException | None = None) -> list[Any]:
        """The events of this run, which ends with the error, or well."""
        with suppress(*[type(error)] if error else []), self.lineage:
            wait_until(lambda: self.server.requests, "its start")
            if error:
                raise error
        return [request.json() for request in self.server.requests]


@pytest.fixture
def server() -> Iterator[CannedServer]:
    with CannedServer(CREATED) as running:
        yield running


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.parts.lineage.lineage._EVERY_SECONDS", OFTEN)
    monkeypatch.setattr("app.parts.lineage.lineage._AGAIN_SECONDS", OFTEN)
    monkeypatch.setattr("app.parts.lineage.lineage._STOP_SECONDS", 60.0)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def written(event: Any, output: int = 0) -> tuple[int, int, int]:
    facet = event["outputs"][output]["outputFacets"]["outputStatistics"]
    return facet["rowCount"], facet["fileCount"], facet["size"]


def test_a_run_is_told_from_its_start_to_its_end(server: CannedServer) -> None:
    run = Run(server, CONSUMER_GROUP="g", OPENLINEAGE_API_KEY="k3y-of-ours", OPENLINEAGE_NAMESPACE="plant")
    with run.lineage:
        run.goes_on(2)
        run.delivers(5)
        run.goes_on(2)
        run.delivers(7)
    events = [request.json() for request in server.requests]

    states = [event["eventType"] for event in events]
    assert (states[0], states[-1], {*states[1:-1]}) == ("START", "COMPLETE", {"RUNNING"})
    assert [sum(each) for each in zip(*map(written, events), strict=True)] == [12, 4, 120]
    assert {(event["job"]["namespace"], event["job"]["name"]) for event in events} == {("plant", "g.t")}
    [run_id] = {event["run"]["runId"] for event in events}
    assert UUID(run_id).version == 7
    last = events[-1]
    assert last["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    [topic], [table] = last["inputs"], last["outputs"]
    assert (topic["namespace"], topic["name"]) == ("kafka://one:9092", "readings")
    assert (table["namespace"], table["name"]) == ("s3://lake", "data/t")
    fields = [(field["name"], field["type"]) for field in table["facets"]["schema"]["fields"]]
    assert fields == [("n", "bigint"), ("at", "struct<x:double>"), ("place", "string")]
    assert table["facets"]["schema"]["fields"][1]["fields"][0]["type"] == "double"
    assert {request.path for request in server.requests} == {"/api/v1/lineage"}
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer k3y-of-ours"}


def test_several_topics_have_a_table_each_also_one_that_comes_later(server: CannedServer) -> None:
    run = Run(server, input="^r.*", TABLE_NAME="raw_{topic}", CONSUMER_GROUP="g")
    with run.lineage:
        run.goes_on(2)
        run.delivers(5, "raw_readings")
        run.opens("raw_rates")
        run.metrics.begins(TopicPartition("rates", 0), 0)
        run.delivers(7, "raw_rates")
    events = [request.json() for request in server.requests]
    assert [[each["name"] for each in event["inputs"]] for event in (events[0], events[-1])] == [
        ["readings"],
        ["readings", "rates"],
    ]
    assert [each["name"] for each in events[-1]["outputs"]] == ["data/raw_readings", "data/raw_rates"]
    assert sum(written(event)[0] for event in events) == 5
    assert sum(written(event, 1)[0] for event in events if len(event["outputs"]) > 1) == 7
    assert {event["job"]["name"] for event in events} == {"g.raw_{topic}"}


@pytest.mark.parametrize(
    ("error", "state", "message"),
    [
        (None, "COMPLETE", None),
        (FatalError("writing", "no right with pa55-word-of-ours"), "FAIL", "writing: no right with ***"),
        (ValueError("a value of a record"), "FAIL", "ValueError"),
        (StopRequested(), "ABORT", "StopRequested"),
    ],
)
def test_the_last_event_says_how_the_run_ended(
    server: CannedServer, error: BaseException | None, state: str, message: str | None
) -> None:
    add_secrets("pa55-word-of-ours")
    last = Run(server, UNTIL="now").all(error)[-1]
    assert last["eventType"] == state
    assert last["run"]["facets"].get("errorMessage", {}).get("message") == message
    assert last["job"]["facets"]["jobType"]["processingType"] == "BATCH"


AZURE = {**BROKER_ALONE, "STORAGE_URL": "az://box", "AZURE_STORAGE_ACCOUNT": "acc"}
ICEBERG = {**ENOUGH, "CATALOG_TYPE": "iceberg", "CATALOG_URL": "https://catalog.example.com/ice"}


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (AZURE, ("abfss://box@acc.dfs.core.windows.net", "data/t")),
        ({**BROKER_ALONE, "STORAGE_URL": "file:///disk"}, ("file", "/disk/data/t")),
    ],
)
def test_the_table_has_the_name_that_others_give_it(
    server: CannedServer, settings: dict[str, str], name: tuple[str, str]
) -> None:
    [table] = Run(server, settings).all()[-1]["outputs"]
    assert (table["namespace"], table["name"]) == name
    assert "symlinks" not in table["facets"]


def test_a_table_of_a_catalog_has_its_name_there_too(server: CannedServer) -> None:
    [table] = Run(server, ICEBERG, CATALOG_NAMESPACE="plant").all()[-1]["outputs"]
    assert (table["namespace"], table["name"]) == ("s3://lake", "data/t")
    [link] = table["facets"]["symlinks"]["identifiers"]
    assert link == {"namespace": "https://catalog.example.com/ice", "name": "plant.t", "type": "TABLE"}


@pytest.mark.parametrize("status", [302, 400, 401, 503])
def test_a_refusal_is_one_warning_until_it_works_again(status: int, caplog: pytest.LogCaptureFixture) -> None:
    with CannedServer(CREATED) as elsewhere:
        refusal = Answer(status, b"no, k3y-of-ours", {"Location": elsewhere.url})
        with CannedServer(refusal) as server:
            run = Run(server, OPENLINEAGE_API_KEY="k3y-of-ours")
            run.delivers(5)
            with run.lineage:
                run.goes_on(3)
                server.answers(CREATED)
                run.goes_on(3)
                assert len(warnings(caplog)) == 1
                server.answers(refusal)
                run.goes_on(3)
                server.answers(CREATED)
                run.goes_on(2)
        assert elsewhere.requests == []

    assert len(warnings(caplog)) == 2
    assert all(f"reporting this run to {server.url}: " in text and str(status) in text for text in warnings(caplog))
    assert "k3y-of-ours" not in caplog.text
    states = [request.json()["eventType"] for request in server.requests]
    assert states[:3] == ["START"] * 3, "a collector needs it"
    assert states[-1] == "COMPLETE"


def test_what_was_not_told_is_told_with_the_next_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.parts.lineage.lineage._EVERY_SECONDS", 60.0)
    with CannedServer(Answer(503), CREATED) as server:
        run = Run(server)
        run.delivers(0)
        with run.lineage:
            wait_until(lambda: len(server.requests) == 2, "its start again")
            run.delivers(5)
    assert [request.json()["eventType"] for request in server.requests] == ["START", "START", "COMPLETE"]
    assert written(server.requests[-1].json()) == (5, 2, 50)


def test_the_end_does_not_wait_for_one_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.parts.lineage.lineage._STOP_SECONDS", 0.0)
    go_on = Event()
    with CannedServer(CREATED, before=go_on.wait) as server:
        lineage = Run(server).lineage
        with lineage:
            pass
        assert lineage.is_alive()
        go_on.set()
        join(lineage)


def test_the_body_of_an_answer_is_not_read(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.parts.lineage.lineage._EVERY_SECONDS", 60.0)
    endless = Answer(200, b"<html>", {"Content-Length": str(1 << 40)})
    with CannedServer(endless) as server:
        states = [event["eventType"] for event in Run(server).all()]
    assert states == ["START", "COMPLETE"]
    assert warnings(caplog) == []


def test_no_part_of_a_login_is_logged_where_a_long_reason_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    add_secrets("k3y-of-ours")
    elsewhere = f"https://elsewhere/{'a' * 235}/k3y-of-ours"
    with CannedServer(Answer(302, headers={"Location": elsewhere})) as server:
        Run(server).all()
    assert "aaa/" in warnings(caplog)[0]
    assert "k3y" not in warnings(caplog)[0]


def test_a_file_in_the_working_folder_names_no_code(
    server: CannedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "openlineage.yml").write_text("transport: {auth: {type: bad_code.Provider}}")
    (tmp_path / "bad_code.py").write_text("from openlineage.client.transport.http import TokenProvider as Provider")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert Run(server).all()[-1]["eventType"] == "COMPLETE"
    assert "bad_code" not in sys.modules


def test_the_variables_of_the_client_count(
    server: CannedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__COMPRESSION", "gzip")
    with Run(server, OPENLINEAGE_URL=f"{server.url}/below/", OPENLINEAGE_ENDPOINT="events").lineage:
        pass
    assert json.loads(gzip.decompress(server.requests[-1].body))["eventType"] == "COMPLETE"
    assert server.requests[-1].path == "/below/events"

    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(tmp_path / "events"))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    with Run(server).lineage:
        pass
    lines = (tmp_path / "events").read_text().splitlines()
    assert [json.loads(line)["eventType"] for line in (lines[0], lines[-1])] == ["START", "COMPLETE"]


def test_a_variable_of_the_client_that_is_wrong_is_a_warning_that_tells_no_login(
    server: CannedServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__AUTH", '{"type": "api_key", "apiKey": "k3y-of-hers"')
    with Run(server).lineage:
        wait_until(lambda: warnings(caplog), "a warning")
    assert server.requests == []
    assert "k3y-of-hers" not in redact(caplog.text)


@pytest.mark.parametrize(("status", "found"), [(405, "answers"), (401, "Check OPENLINEAGE_API_KEY"), (503, "503")])
def test_a_collector_of_lineage_is_asked_and_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], status: int, found: str
) -> None:
    with CannedServer(Answer(status)) as collector:
        variables = {"OPENLINEAGE_URL": collector.url, "OPENLINEAGE_API_KEY": "k3y-of-ours", "HTTP_PORT": "0"}
        assert run_command(local_settings(tmp_path, **variables), "check", "--without", *SYSTEMS, "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [told] = [line for line in lines if line["check"] == "lineage"]
    assert (told["state"], told["subject"]) == ("ok", collector.url)
    # Another check may come to its end between this one's warning and its line.
    warnings = [warning for line in lines for warning in line["warnings"] if collector.url in warning]
    assert found in " ".join([told["detail"], *warnings])
    assert len(warnings) == (status != 405)
    assert [(request.method, request.path) for request in collector.requests] == [("GET", "/api/v1/lineage")]
