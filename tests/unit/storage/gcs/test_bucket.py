"""Where a missing bucket of Google Cloud Storage is created, and who may have been quicker."""

import json

import pytest

from app.errors import ConfigError
from tests.unit.storage.gcs.google_answers import BUCKET_GONE, bucket_at, listing, methods, refusal, said

MISSING = refusal(404, "notFound", BUCKET_GONE)
CREATED = said({"kind": "storage#bucket", "name": "lake", "location": "US"})


@pytest.fixture(autouse=True)
def _project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "sinks")


def test_it_is_created_in_the_project_of_the_credentials_and_its_place_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with bucket_at(MISSING, CREATED, listing(), create=True) as (store, server), caplog.at_level("INFO", "app"):
        store.connect("")

    assert methods(server) == ["GET", "POST", "GET"]
    assert "project=sinks" in server.requests[1].path
    assert json.loads(server.requests[1].body)["name"] == "lake"
    assert "Created the bucket gs://lake in US" in caplog.text


def test_another_replica_that_creates_it_first_does_no_harm() -> None:
    ours = refusal(
        409, "conflict", "Your previous request to create the named bucket succeeded and you already own it."
    )
    with bucket_at(MISSING, ours, listing(), create=True) as (store, server):
        store.connect("")
    assert methods(server) == ["GET", "POST", "GET"]


def test_a_name_taken_by_somebody_else_asks_for_another() -> None:
    taken = refusal(409, "conflict", "The requested bucket name is not available.")
    with (
        bucket_at(MISSING, taken, create=True) as (store, _),
        pytest.raises(ConfigError, match=r"creating the bucket gs://lake.*another one in STORAGE_URL"),
    ):
        store.connect("")


def test_without_a_project_the_user_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT")
    with (
        bucket_at(MISSING, create=True) as (store, server),
        pytest.raises(ConfigError, match=r"creating the bucket gs://lake.*no project.*GOOGLE_CLOUD_PROJECT"),
    ):
        store.connect("")
    assert methods(server) == ["GET"]
