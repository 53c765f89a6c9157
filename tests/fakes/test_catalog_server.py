"""The catalog to test against holds everybody to the contract, or tests against it would prove nothing."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from tests.fakes.catalog_server import CatalogServer

LOCATION = "s3://lake/data/sensors"
TABLE = {
    "location": LOCATION,
    "partition_spec": [],
    "properties": {
        "created_by": "a test",
        "auto_discovered": "false",
        "expected_partitions": ["day"],
        "timestamp_column": "ts_ms",
    },
}
FILE = {
    "file_path": f"{LOCATION}/place=a/day=1/f.parquet",
    "file_size": 1,
    "last_modified": "2024-01-15T00:00:00+00:00",
    "partition_values": {"place": "a", "day": "1"},
    "row_count": 1,
}

Send = Callable[..., requests.Response]


@pytest.fixture
def server() -> Iterator[CatalogServer]:
    with CatalogServer() as running:
        yield running


@pytest.fixture
def send(server: CatalogServer) -> Send:
    def request(method: str, path: str, body: Any = None, **changed: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {server.token}"}
        arguments = {"json": body, "headers": headers} | changed
        return requests.request(method, f"{server.url}{path}", timeout=30, **arguments)

    return request


@pytest.fixture
def table(send: Send) -> str:
    path = "/namespaces/default/tables/sensors"
    assert send("PUT", path, TABLE).status_code == 200
    return path


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with another value at the dotted path; ``...`` takes the field away."""
    result = copy.deepcopy(document)
    *parents, last = path.split(".")
    target = result
    for parent in parents:
        target = target[parent]
    if value is ...:
        del target[last]
    else:
        target[last] = value
    return result


def test_a_table_stays_where_its_first_creator_put_it(send: Send, table: str) -> None:
    again = send("PUT", table, TABLE | {"location": "s3://lake/elsewhere"})

    assert again.json()["location_conflict"] is True
    assert send("GET", table).json() == TABLE


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("location", ...),
        ("location", "no-uri"),
        ("location", f"{LOCATION}/"),
        ("partition_spec", "day"),
        ("properties.created_by", ...),
        ("properties.auto_discovered", False),
        ("properties.expected_partitions", "day"),
        ("properties.more", "x"),
        ("more", "x"),
    ],
)
def test_a_table_against_the_contract_is_refused(server: CatalogServer, send: Send, path: str, value: Any) -> None:
    answer = send("PUT", "/namespaces/default/tables/sensors", changed(TABLE, path, value))

    assert answer.status_code == 400
    assert answer.json()["error"]
    assert not server.tables


def test_the_first_files_fill_the_spec_in_their_order(server: CatalogServer, send: Send, table: str) -> None:
    assert send("POST", f"{table}/manifest/add-files", {"files": [FILE]}).status_code == 200

    assert send("GET", table).json()["partition_spec"] == ["place", "day"]
    assert server.files("sensors") == [FILE]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *[(field, ...) for field in FILE],
        ("more", 1),
        ("file_path", "s3://lake/data/sensors2/f.parquet"),
        ("file_size", -1),
        ("file_size", "1"),
        ("row_count", -1),
        ("row_count", True),
        ("last_modified", "2024-01-15T00:00:00"),
        ("partition_values.day", 1),
        ("partition_values.hour", "00"),
    ],
)
def test_a_file_against_the_contract_is_refused_with_all_that_come_with_it(
    server: CatalogServer, send: Send, table: str, path: str, value: Any
) -> None:
    good = FILE | {"file_path": f"{LOCATION}/place=a/day=1/good.parquet"}

    answer = send("POST", f"{table}/manifest/add-files", {"files": [good, changed(FILE, path, value)]})

    assert answer.status_code == 400
    assert answer.json()["error"]
    assert server.files("sensors") == []
    assert send("GET", table).json()["partition_spec"] == []


@pytest.mark.parametrize(
    "body", [{}, {"files": []}, {"files": {}}, {"files": [FILE], "more": 1}, [], {"files": [FILE, FILE]}]
)
def test_a_request_of_another_form_is_refused(server: CatalogServer, send: Send, table: str, body: Any) -> None:
    assert send("POST", f"{table}/manifest/add-files", body).status_code == 400
    assert server.files("sensors") == []


def test_later_files_must_fit_the_spec(server: CatalogServer, send: Send, table: str) -> None:
    send("POST", f"{table}/manifest/add-files", {"files": [FILE]})
    other = FILE | {"file_path": f"{LOCATION}/g.parquet", "partition_values": {}}

    assert send("POST", f"{table}/manifest/add-files", {"files": [other]}).status_code == 400
    assert len(server.files("sensors")) == 1
