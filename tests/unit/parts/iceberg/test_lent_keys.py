"""Keys for S3 that an Iceberg catalog lends: which it accepts, until when, and what is said if there are none."""

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.catalog.base import RestartError
from app.errors import ConfigError, ConnectorError, FatalError, RetryableError
from app.parts.iceberg.catalog_address import IcebergTarget
from app.parts.iceberg.lent_keys import Lender
from app.redaction import redact
from app.storage.s3.store import S3Store
from app.storage.targets import S3Target
from tests.fakes.canned_server import Answer, CannedServer, Request
from tests.fakes.iceberg_rest import IcebergRest, refusal
from tests.fakes.s3_answers import refusal as s3_refusal
from tests.unit.parts.iceberg.iceberg_bench import IcebergBench

SECRET = "lent-secret-of-the-catalog"
KEYS = {"s3.access-key-id": "LENT", "s3.secret-access-key": SECRET, "s3.session-token": "lent-token-of-the-catalog"}
FIVE_MINUTES, TWELVE_HOURS = timedelta(minutes=5), timedelta(hours=12)


def ends_in(**time_left: float) -> dict[str, timedelta]:
    return {"s3.session-token-expires-at-ms": timedelta(**time_left)}


def as_text(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration as a catalog sends it now."""
    now = datetime.now(UTC)
    ends = {name: (now + left).timestamp() for name, left in config.items() if isinstance(left, timedelta)}
    return {**config, **{name: str(int(end * 1_000)) for name, end in ends.items()}}


@pytest.fixture
def bench(tmp_path: Path) -> IcebergBench:
    made = IcebergBench(tmp_path)
    made.member()
    with made.table.transaction() as transaction:
        transaction.set_properties({f"{name}": "of the table" for name in KEYS})
    return made


def answering(
    bench: IcebergBench, config: Mapping[str, Any], credentials: Mapping[str, Mapping[str, Any]]
) -> Callable[[Request, Callable[[], Answer]], Answer]:
    """Add to the answer with the table, as a catalog does. ``credentials`` are by what follows the store's address."""

    def add(request: Request, good: Callable[[], Answer]) -> Answer:
        answer = good()
        if not request.path.endswith("readings"):
            return answer
        assert request.headers["x-iceberg-access-delegation"] == "vended-credentials"
        lent = [
            {"prefix": f"{bench.store.uri}{prefix}", "config": as_text(keys)} for prefix, keys in credentials.items()
        ]
        more = {"config": as_text(config), "storage-credentials": lent}
        return replace(answer, body=json.dumps(json.loads(answer.body) | more).encode())

    return add


def lend(url: str) -> Mapping[str, str]:
    return Lender(IcebergTarget(url, {"uri": url}, "s3://lake", "lake", "readings", "group", 1.0))()


@pytest.mark.parametrize(
    ("config", "credentials", "left"),
    [
        (KEYS, {}, FIVE_MINUTES),
        (KEYS | ends_in(hours=1), {}, timedelta(hours=1)),
        (KEYS | ends_in(days=999), {}, TWELVE_HOURS),
        (KEYS | {"s3.session-token-expires-at-ms": 9**999}, {}, TWELVE_HOURS),
        (KEYS | {"s3.session-token-expires-at-ms": "tomorrow"}, {}, FIVE_MINUTES),
        (
            KEYS | {"s3.access-key-id": "WIDER"},
            {"/data/readings": KEYS, "/other": dict.fromkeys(KEYS, "x")},
            FIVE_MINUTES,
        ),
        ({}, {"": dict.fromkeys(KEYS, "x"), "/data/readings/": KEYS | ends_in(minutes=20)}, timedelta(minutes=20)),
    ],
)
def test_keys_for_the_folder_of_the_table_are_used_until_they_end(
    bench: IcebergBench, config: Mapping[str, Any], credentials: Mapping[str, Mapping[str, Any]], left: timedelta
) -> None:
    with IcebergRest(bench, answering(bench, config, credentials)) as server:
        keys = lend(server.url)
    assert (keys["access_key"], keys["secret_key"], keys["token"]) == tuple(KEYS.values())
    end = datetime.now(UTC) + left
    assert end - timedelta(minutes=1) < datetime.fromisoformat(keys["expiry_time"]) < end + timedelta(minutes=1)
    assert SECRET not in redact(f"a store repeats {SECRET}")


@pytest.mark.parametrize(
    ("config", "error", "told"),
    [
        ({}, FatalError, "contains no temporary keys for S3. In the catalog, allow this login to write the table"),
        (KEYS | {"s3.session-token": ""}, FatalError, "no temporary keys"),
        (KEYS | {"s3.access-key-id": "two words"}, FatalError, "no temporary keys"),
        (KEYS | {"s3.session-token": "/" * 2**20}, FatalError, "no temporary keys"),
        (KEYS | ends_in(hours=-1), RetryableError, "keys that have expired"),
    ],
)
def test_an_answer_without_usable_keys_is_an_error_that_names_the_catalog(
    bench: IcebergBench, config: Mapping[str, Any], error: type[ConnectorError], told: str
) -> None:
    with IcebergRest(bench, answering(bench, config, {})) as server, pytest.raises(error, match=told) as caught:
        lend(server.url)
    assert f"requesting keys for the Iceberg table lake.readings from the catalog {server.url}" in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "error", "told"),
    [
        (refusal(403, "ForbiddenException", "not delegated"), FatalError, "not delegated.*rights on the table"),
        (refusal(404, "NoSuchTableException", "gone"), RestartError, "the table is missing. A start of the connector"),
        (refusal(503, "ServiceUnavailableException", "later"), RetryableError, "later"),
    ],
)
def test_a_refusal_is_told_as_it_is(
    bench: IcebergBench, answer: Answer, error: type[ConnectorError], told: str
) -> None:
    def refuse(request: Request, good: Callable[[], Answer]) -> Answer:
        return answer if request.path.endswith("readings") else good()

    with IcebergRest(bench, refuse) as server, pytest.raises(error, match=told):
        lend(server.url)


def test_only_a_rest_catalog_lends_keys(bench: IcebergBench) -> None:
    with pytest.raises(ConfigError, match="only REST catalogs issue keys"):
        Lender(IcebergTarget("", bench.properties, "s3://lake", "lake", "readings", "group", 1.0))()


@pytest.mark.parametrize(
    ("code", "error", "told", "tokens"),
    [
        ("AccessDenied", FatalError, "Let the Iceberg catalog issue keys with s3:ListBucket", ["t1", "t1"]),
        ("InvalidAccessKeyId", RetryableError, "The Iceberg catalog has issued these keys", ["t1", "t2"]),
        ("ExpiredToken", RetryableError, "The Iceberg catalog has issued these keys", ["t1", "t2"]),
    ],
)
def test_a_store_that_refuses_lent_keys_leads_to_the_catalog(
    code: str, error: type[ConnectorError], told: str, tokens: list[str]
) -> None:
    count = itertools.count(1)

    def lend_next() -> Mapping[str, str]:
        end = "2999-01-01T00:00:00+00:00"
        return {"access_key": "LENT", "secret_key": SECRET, "token": f"t{next(count)}", "expiry_time": end}

    with CannedServer(s3_refusal(403, code, "No.")) as server:
        store = S3Store(S3Target("lake", "eu-west-1", server.url, lend=lend_next), max_workers=1)
        for _ in tokens:
            with pytest.raises(error, match=told):
                store.find("data/readings/x")
    assert [request.headers["x-amz-security-token"] for request in server.requests] == tokens


def test_keys_about_to_end_are_asked_for_again_and_used_while_the_catalog_is_away() -> None:
    asked: list[int] = []

    def lend_once() -> Mapping[str, str]:
        asked.append(1)
        if len(asked) > 1:
            raise RetryableError("requesting keys", "no answer")
        end = datetime.now(UTC) + timedelta(seconds=60)
        return {"access_key": "LENT", "secret_key": SECRET, "token": "t", "expiry_time": end.isoformat()}

    empty = Answer(body=b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
    with CannedServer(empty) as server:
        store = S3Store(S3Target("lake", "eu-west-1", server.url, lend=lend_once), max_workers=1)
        for _ in range(2):
            assert store.find("data/readings/x") is None
    assert len(asked) > 1
