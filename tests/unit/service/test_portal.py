"""What the connector says of a Quix platform that does not answer as quixstreams expects."""

import json
from pathlib import Path

import pytest
from quixstreams import Application

from app.config.settings import Settings
from app.errors import ConfigError
from app.service.kafka_client import new_application, open_topic
from app.service.lake import new_location, new_store
from tests.fakes.canned_server import Answer, CannedServer
from tests.support.environment import load

BROKER = Answer(body=json.dumps({"bootstrap.servers": "localhost:9092", "sasl.password": "hush"}).encode())
ODD = {
    "a login page": Answer(body=b"<html>Sign in</html>"),
    "nothing": Answer(),
    "JSON that is cut": Answer(body=b'{"id": "acme-'),
    "another document": Answer(body=b'{"sasl.password": "hush", "error": 1}'),
    "a list": Answer(body=b"[]"),
    "a text": Answer(body=b'"hush"'),
    "a refusal": Answer(401, b"<html>Sign in</html>"),
}


@pytest.fixture(autouse=True)
def _workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("Quix__Workspace__Id", "acme-prod")


def settings_of(server: CannedServer, folder: Path) -> Settings:
    platform = {"Quix__Sdk__Token": "t", "Quix__Portal__Api": server.url, "Quix__Workspace__Id": "acme-prod"}
    return load(platform, input="sensors", STORAGE_URL=folder.as_uri())


def ask(settings: Settings, folder: Path) -> None:
    location = new_location(settings, new_store(settings), None)
    application = new_application(Application, settings, location, folder)
    open_topic(settings, application, ["acme-prod-sensors"])


@pytest.mark.parametrize("first", [[], [BROKER]], ids=["about the broker", "about a topic"])
@pytest.mark.parametrize("answer", ODD.values(), ids=ODD)
def test_an_odd_answer_names_what_to_check(first: list[Answer], answer: Answer, tmp_path: Path) -> None:
    with CannedServer(*first, answer) as server:
        with pytest.raises(ConfigError) as caught:
            ask(settings_of(server, tmp_path), tmp_path)
        assert f"the Quix API at {server.url}" in str(caught.value)
        assert "Check Quix__Portal__Api" in str(caught.value)
        assert "hush" not in str(caught.value)
        assert len(server.requests) > len(first)
