"""Whatever happens, and however much is logged, no secret comes out; with LOG_FORMAT=json each line is an object."""

import base64
import contextlib
import json
import re
import secrets
from collections.abc import Iterable, Iterator
from urllib.parse import quote

import pytest
import requests

from dev.minio import LocalMinio
from tests.e2e.connector import ConnectorProcess
from tests.e2e.records import records
from tests.e2e.scenario import WRITERS, Scenario, s3_store
from tests.fakes.catalog_server import CatalogServer


def planted(name: str) -> str:
    """A secret that nothing else looks like, with characters that are written otherwise in an address."""
    return f"{name}/{secrets.token_hex(12)}+secret=="


SECRETS = {
    "KAFKA_SASL_PASSWORD": planted("sasl"),
    "OPENLINEAGE_API_KEY": planted("lineage"),
    "Quix__Sdk__Token": planted("sdk"),
    "Quix__Lakehouse__Catalog__AuthToken": planted("lakehouse"),
    "Quix__Lakehouse__Query__AuthToken": planted("query"),
    "Quix__BlobStorage__Connection__Json": planted("platform"),
}
LINEAGE_TOKEN = planted("header")
LOUD = {"LOGLEVEL": "DEBUG", "LOG_FORMAT": "json"}  # text has the same messages and exceptions
PASSWORD = "hunter2-" + secrets.token_hex(8)


@pytest.fixture
def catalog() -> Iterator[CatalogServer]:
    with CatalogServer(planted("right")) as server:
        yield server


def forms(secret: str) -> set[bytes]:
    """The secret as it is and as it may be written; in Base64 whatever comes before it, but for its ends."""
    raw = secret.encode()
    shifted = (base64.b64encode(b"x" * shift + raw)[4 * bool(shift) : -4] for shift in range(3))
    plain = {raw, quote(secret, safe="").encode(), quote(secret).encode(), json.dumps(secret).encode().strip(b'"')}
    return plain | set(shifted) | {raw.hex().encode()}


def assert_not_told(secrets_in_use: Iterable[str], *told: str) -> None:
    for secret in secrets_in_use:
        for form in forms(secret):
            for text in told:
                at = text.encode().find(form)
                assert at < 0, f"a secret is told: …{text.encode()[max(0, at - 300) : at]!r}"


def assert_lines_are_objects(connector: ConnectorProcess) -> None:
    announced = re.compile(r"CONNECTED!|ERROR! .*|  - .*")  # these are the platform's
    parsed = [json.loads(line) for line in connector.log.splitlines() if not announced.fullmatch(line)]
    assert all({"time", "level", "logger", "message"} <= set(line) for line in parsed)


def pages(connector: ConnectorProcess) -> list[str]:
    told = []
    # It ends, or has ended, by itself: amid an answer, too.
    with contextlib.suppress(requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
        for path in ("/", "/metrics", "/health/live", "/health/ready", "/nowhere"):
            answer = requests.get(f"http://127.0.0.1:{connector.http_port}{path}", timeout=30)
            told.append(str(answer.headers) + answer.text)
    return told


@WRITERS
def test_at_work(scenario: Scenario, s3_server: LocalMinio, bucket: str, catalog: CatalogServer, writer: str) -> None:
    store = s3_store(s3_server, bucket)
    unused = {name: value for name, value in SECRETS.items() if name.startswith("Quix__")}
    connector = scenario.connector(
        store,
        unused,
        LOUD,
        CATALOG_URL=catalog.url,
        CATALOG_AUTH_TOKEN=catalog.token,
        Quix__Lakehouse__Query__Url=catalog.url,
        OPENLINEAGE_URL=catalog.url,
        OPENLINEAGE_API_KEY=SECRETS["OPENLINEAGE_API_KEY"],
        OPENLINEAGE__TRANSPORT__CUSTOM_HEADERS=json.dumps({"x-token": LINEAGE_TOKEN}),
        HIVE_COLUMNS="location",
    )
    scenario.produce(records(2_000))
    scenario.wait_until_committed(2_000, by=connector)
    connector.wait_for_log("rows in 4 files")
    told = pages(connector)
    assert len(told) == 5
    assert connector.stop() == 0

    in_use = [store["AWS_SECRET_ACCESS_KEY"], catalog.token, SECRETS["OPENLINEAGE_API_KEY"], LINEAGE_TOKEN]
    assert_not_told([*in_use, *unused.values()], connector.log, *told)
    assert_lines_are_objects(connector)
    batches = [line for line in connector.log.splitlines() if "rows in" in line and "INFO" in line]
    assert len(batches) == len(set(re.findall(r"batch (\d+) \(", connector.log))), "one line for each batch"
    batch = json.loads(batches[0])
    assert sum(json.loads(line)["rows"] for line in batches) == 2_000
    assert {"batch", "reason", "files", "bytes"} <= set(batch)
    assert list(batch["seconds"])[:6] == ["convert", "stage", "spark", "intend", "upload", "register"]


FAILURES: dict[str, dict[str, str]] = {
    "a login that Kafka refuses": {
        "STORAGE_URL": "file:///tmp/lake-of-nobody",
        "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "KAFKA_SASL_MECHANISM": "PLAIN",
        "KAFKA_SASL_USERNAME": "somebody",
        "KAFKA_SASL_PASSWORD": SECRETS["KAFKA_SASL_PASSWORD"],
    },
    "passwords in addresses": {
        "STORAGE_URL": f"https://somebody:{PASSWORD}@example.com/lake",
        "CATALOG_URL": f"https://somebody:{PASSWORD}@example.com",
        "KAFKA_BOOTSTRAP_SERVERS": f"somebody:{PASSWORD}@example.com:9092",
    },
    "a platform's connection that is none": {
        "Quix__BlobStorage__Connection__Json": SECRETS["Quix__BlobStorage__Connection__Json"],
        "Quix__Sdk__Token": SECRETS["Quix__Sdk__Token"],
    },
}


@pytest.mark.parametrize("failure", FAILURES)
def test_in_trouble(scenario: Scenario, failure: str) -> None:
    connector = scenario.connector(FAILURES[failure], LOUD)
    connector.wait_for_log(r"ERROR! |[Rr]etrying|FAIL \[|Disconnected")
    told = pages(connector)
    if connector.exit_code is None:
        connector.stop()
    assert_not_told([*SECRETS.values(), PASSWORD], connector.log, *told)
    assert_lines_are_objects(connector)
