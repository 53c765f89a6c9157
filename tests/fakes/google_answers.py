"""What Google Cloud Storage says, put in the mouth of a real HTTP server."""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import google_crc32c
import pytest
from google.api_core.retry import Retry

from app.parts.gcs.store import RETRY, GcsStore
from app.storage.targets import GcsTarget
from tests.fakes.canned_server import Answer, CannedServer

NO_RETRY = RETRY.with_timeout(0)  # nothing is tried again by Google's library
BUCKET_GONE = "The specified bucket does not exist."


def said(document: Mapping[str, object]) -> Answer:
    return Answer(200, json.dumps(document).encode(), {"Content-Type": "application/json"})


def written(generation: int, body: bytes = b"") -> Answer:
    told = {"kind": "storage#object", "name": "t/f.parquet", "size": "4", "timeCreated": "2026-01-02T03:04:05.678Z"}
    checksum: bytes = google_crc32c.Checksum(body).digest()  # type: ignore[no-untyped-call]
    return said({**told, "generation": str(generation), "crc32c": base64.b64encode(checksum).decode()})


def content(body: bytes, generation: int) -> Answer:
    return Answer(200, body, {"X-Goog-Generation": str(generation), "Content-Type": "application/json"})


def listing(*names: str, after: str = "") -> Answer:
    """A page of a listing; ``after`` leads to the next one."""
    items = [{"name": name, "size": "4", "timeCreated": "2026-01-02T03:04:05.678Z"} for name in names]
    return said({"kind": "storage#objects", "items": items, **({"nextPageToken": after} if after else {})})


def refusal(status: int, reason: str, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    error = {"code": status, "message": message, "errors": [{"message": message, "reason": reason}]}
    kind = {"Content-Type": "application/json; charset=UTF-8"}
    return Answer(status, json.dumps({"error": error}).encode(), kind | dict(headers or {}))


def text(status: int, message: str) -> Answer:
    """How a request for an object's bytes is refused."""
    return Answer(status, message.encode(), {"Content-Type": "text/html; charset=UTF-8"})


def google_store(url: str, *, retry: Retry = NO_RETRY) -> GcsStore:
    """A store for the bucket ``lake`` at a canned server, which it finds at once and without credentials."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("STORAGE_EMULATOR_HOST", url)
        store = GcsStore(GcsTarget("lake"), max_workers=2, retry=retry)
        _ = store._bucket
    return store


@contextmanager
def bucket_at(*answers: Answer, retry: Retry = NO_RETRY) -> Iterator[tuple[GcsStore, CannedServer]]:
    """A bucket on a server that gives these answers."""
    with CannedServer(*answers) as server:
        yield google_store(server.url, retry=retry), server
