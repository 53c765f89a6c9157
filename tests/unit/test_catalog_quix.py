"""The connector's side of the Quix catalog's contract, over real HTTP."""

import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.catalog.base import CatalogTable, TableProperties
from app.catalog.quix import QuixCatalog
from app.errors import ConfigError, ConnectorError, FatalError, RetryableError
from app.model import StoredFile
from tests.fakes.catalog_server import CatalogServer, Trouble

LOCATION = "s3://lake/data/sensors"
WANTED = TableProperties(("place", "day"), "ts_ms")
WHEN = datetime(2024, 1, 15, 12, 30, tzinfo=UTC)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CatalogServer]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    with CatalogServer() as running:
        yield running


@pytest.fixture
def catalog(server: CatalogServer) -> QuixCatalog:
    return QuixCatalog(server.url, server.token, "default", "sensors")


def stored(name: str = "f.parquet", **values: str) -> StoredFile:
    folders = "".join(f"{column}={value}/" for column, value in values.items())
    key = f"data/sensors/{folders}{name}"
    return StoredFile(key, f"s3://lake/{key}", 1234, 10, values, WHEN)


def created(catalog: QuixCatalog) -> CatalogTable:
    return catalog.create_table(LOCATION, WANTED)


def error_of_registering(catalog: QuixCatalog) -> ConnectorError:
    with pytest.raises(ConnectorError, match=r"registering 1 file of table default\.sensors") as caught:
        catalog.add_files([stored(place="a", day="15")], "sensors")
    return caught.value


def test_a_healthy_catalog_that_lets_us_in_passes(catalog: QuixCatalog, server: CatalogServer) -> None:
    catalog.check()

    assert {request.headers["authorization"] for request in server.requests} == {"Bearer catalog-token"}


def test_a_wrong_token_is_found_at_the_check_though_the_health_page_is_open_to_all(server: CatalogServer) -> None:
    with pytest.raises(FatalError, match=r"401.*Check CATALOG_AUTH_TOKEN") as caught:
        QuixCatalog(server.url, "wr0ng", "default", "sensors").check()

    assert "wr0ng" not in str(caught.value)


def test_a_missing_token_is_asked_for(server: CatalogServer) -> None:
    with pytest.raises(FatalError, match=r"401.*Set CATALOG_AUTH_TOKEN"):
        QuixCatalog(server.url, None, "default", "sensors").check()

    assert "authorization" not in server.requests[0].headers


def test_an_address_without_a_catalog_below_it_names_its_variable(server: CatalogServer) -> None:
    with pytest.raises(FatalError, match=r"connecting to the catalog at http.*404.*CATALOG_URL, its path included"):
        QuixCatalog(f"{server.url}/v9", server.token, "default", "sensors").check()


def test_the_check_hands_over_the_table_that_it_read(catalog: QuixCatalog, server: CatalogServer) -> None:
    assert catalog.check() is None
    table = created(catalog)
    server.requests.clear()
    assert catalog.check() == table
    assert [request.method for request in server.requests] == ["GET", "GET"], "the health page and the table"


def test_an_unknown_table_is_none(catalog: QuixCatalog) -> None:
    assert catalog.table() is None


def test_a_table_is_created_with_an_empty_spec_and_what_is_expected(
    catalog: QuixCatalog, server: CatalogServer
) -> None:
    properties = {
        "created_by": "quix-ts-datalake-sink",
        "auto_discovered": "false",
        "expected_partitions": ["place", "day"],
        "timestamp_column": "ts_ms",
    }
    assert created(catalog) == catalog.table() == CatalogTable(LOCATION, (), properties)

    table = server.tables["default.sensors"]
    assert table.partition_spec == []
    assert table.properties == properties


def test_files_are_registered_in_one_request_and_fill_the_spec(catalog: QuixCatalog, server: CatalogServer) -> None:
    created(catalog)
    catalog.add_files(
        [stored("f.parquet", place="São Paulo/1 😀", day="15"), stored("g.parquet", place="b", day="16")], "t"
    )

    assert [request.path for request in server.requests if request.method == "POST"] == [
        "/api/v1/namespaces/default/tables/sensors/manifest/add-files"
    ]
    first, second = server.files("sensors")
    assert first == {
        "file_path": "s3://lake/data/sensors/place=São Paulo/1 😀/day=15/f.parquet",
        "file_size": 1234,
        "last_modified": "2024-01-15T12:30:00+00:00",
        "partition_values": {"place": "São Paulo/1 😀", "day": "15"},
        "row_count": 10,
    }
    assert second["partition_values"] == {"place": "b", "day": "16"}
    table = catalog.table()
    assert table is not None
    assert (table.location, table.partition_spec) == (LOCATION, ("place", "day"))


def test_registering_again_after_a_lost_answer_leaves_each_file_once(
    catalog: QuixCatalog, server: CatalogServer
) -> None:
    created(catalog)
    server.trouble(Trouble(lost=True, only="add-files"))

    assert isinstance(error_of_registering(catalog), RetryableError)
    catalog.add_files([stored(place="a", day="15")], "sensors")

    assert len(server.files("sensors")) == 1


def test_the_table_of_a_quicker_creator_is_the_one_that_counts(server: CatalogServer, catalog: QuixCatalog) -> None:
    other = QuixCatalog(server.url, server.token, "default", "sensors")
    other.create_table("s3://lake/elsewhere", TableProperties(("day",), "ts_ms"))

    table = created(catalog)

    assert (table.location, table.properties["expected_partitions"]) == ("s3://lake/elsewhere", ["day"])


def test_a_conflict_is_settled_by_reading(server: CatalogServer, catalog: QuixCatalog) -> None:
    created(catalog)
    server.trouble(Trouble(status=409, body=b'{"error": "exists"}'))

    assert created(catalog).location == LOCATION


def test_a_table_that_is_not_there_after_creating_it_is_tried_again(
    server: CatalogServer, catalog: QuixCatalog
) -> None:
    server.trouble(Trouble(status=409))

    with pytest.raises(RetryableError, match=r"creating table default\.sensors in the catalog.*409.*does not know"):
        created(catalog)


def test_names_are_encoded_in_paths(server: CatalogServer) -> None:
    catalog = QuixCatalog(server.url, server.token, "my space/ü", "a?b#c%2F")
    created(catalog)

    assert server.requests[0].path == "/api/v1/namespaces/my%20space%2F%C3%BC/tables/a%3Fb%23c%252F"
    assert list(server.tables) == ["my space/ü.a?b#c%2F"]


def test_one_connection_serves_many_requests(server: CatalogServer, catalog: QuixCatalog) -> None:
    catalog.check()
    created(catalog)
    error = QuixCatalog(server.url, server.token, "default", "unknown")
    for _ in range(3):
        catalog.add_files([stored(place="a", day="15")], "sensors")

    assert error.table() is None
    assert len({request.client for request in server.requests}) == 2  # one for each of the two catalogs


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_what_passes_is_retryable_and_quotes_the_catalog(
    server: CatalogServer, catalog: QuixCatalog, status: int
) -> None:
    server.trouble(Trouble(status=status, body=b'{"error": "database\\n  is away"}'))

    error = error_of_registering(catalog)

    assert isinstance(error, RetryableError)
    assert f"the catalog answered {status}" in error.cause
    assert "database" in error.cause
    assert error.retry_after is None


@pytest.mark.parametrize(
    ("headers", "seconds"), [({"Retry-After": "17"}, 17.0), ({"Retry-After": "never"}, None), ({}, None)]
)
def test_the_wait_that_the_catalog_asks_for_is_handed_on(
    server: CatalogServer, catalog: QuixCatalog, headers: dict[str, str], seconds: float | None
) -> None:
    server.trouble(Trouble(status=429, headers=headers))

    error = error_of_registering(catalog)

    assert isinstance(error, RetryableError)
    assert error.retry_after == seconds


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (400, "check the settings"),
        (401, "CATALOG_AUTH_TOKEN"),
        (403, "CATALOG_AUTH_TOKEN"),
        (404, "gone from the catalog"),
        (409, "check the settings"),
        (413, "check the settings"),
        (422, "check the settings"),
        (204, "check the settings"),
    ],
)
def test_what_does_not_pass_is_fatal(server: CatalogServer, catalog: QuixCatalog, status: int, hint: str) -> None:
    server.trouble(Trouble(status=status))

    error = error_of_registering(catalog)

    assert isinstance(error, FatalError)
    assert str(status) in error.cause
    assert hint in error.hint


def test_a_refusal_by_the_contract_quotes_the_reason(server: CatalogServer, catalog: QuixCatalog) -> None:
    created(catalog)
    catalog.add_files([stored(place="a", day="15")], "sensors")

    with pytest.raises(FatalError, match=r"400 Bad Request.*partition_values has \['hour'\]"):
        catalog.add_files([stored(hour="00")], "sensors")


def test_a_redirect_is_not_followed_and_is_named(server: CatalogServer, catalog: QuixCatalog) -> None:
    server.trouble(Trouble(status=302, headers={"Location": "https://login.example.com/"}))

    error = error_of_registering(catalog)

    assert isinstance(error, FatalError)
    assert "https://login.example.com/" in error.hint
    assert len(server.requests) == 1


@pytest.mark.parametrize("body", [b"<html>Please log in</html>", b"[]", b'"ok"', b"{", b"\xff"])
def test_an_answer_that_is_no_json_object_has_registered_nothing(
    server: CatalogServer, catalog: QuixCatalog, body: bytes
) -> None:
    server.trouble(Trouble(status=200, body=body))

    error = error_of_registering(catalog)

    assert isinstance(error, FatalError)
    assert "not a JSON object" in error.cause


def test_an_empty_answer_to_registering_is_fine_and_to_reading_is_not(
    server: CatalogServer, catalog: QuixCatalog
) -> None:
    server.trouble(Trouble(status=200), times=2)

    catalog.add_files([stored(place="a", day="15")], "sensors")

    with pytest.raises(FatalError, match=r"reading table default\.sensors.*it is empty.*CATALOG_URL"):
        catalog.table()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{}", CatalogTable("", ())),
        (b'{"location": null, "partition_spec": null}', CatalogTable("", ())),
        (b'{"location": "s3://lake/t/", "partition_spec": ["day"], "more": 1}', CatalogTable("s3://lake/t", ("day",))),
    ],
)
def test_what_a_description_leaves_out_is_empty(
    server: CatalogServer, catalog: QuixCatalog, body: bytes, expected: CatalogTable
) -> None:
    server.trouble(Trouble(status=200, body=body))

    assert catalog.table() == expected


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (b'{"location": 7}', "its location should be text, and is 7"),
        (b'{"partition_spec": "day"}', "its partition_spec should be a list of names, and is 'day'"),
        (b'{"partition_spec": [{"name": "day"}]}', r"and is \[{'name': 'day'}\]"),
    ],
)
def test_a_description_of_another_kind_shows_what_came(
    server: CatalogServer, catalog: QuixCatalog, body: bytes, cause: str
) -> None:
    server.trouble(Trouble(status=200, body=body))

    with pytest.raises(FatalError, match=cause):
        catalog.table()


def test_a_catalog_that_does_not_answer_in_time_is_retryable(server: CatalogServer) -> None:
    server.trouble(Trouble(delay=600))
    catalog = QuixCatalog(server.url, server.token, "default", "sensors", read_timeout=0.1)

    error = error_of_registering(catalog)

    assert isinstance(error, RetryableError)
    assert error.cause == "no answer within 0.1 s"


def test_a_catalog_that_is_not_there_is_retryable_and_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    with pytest.raises(RetryableError, match=f"catalog at http://127.0.0.1:{port}/api.*refused.*CATALOG_URL"):
        QuixCatalog(f"http://127.0.0.1:{port}/api", "token", "default", "sensors").check()


def test_a_host_that_nobody_knows_is_retryable_and_named() -> None:
    with pytest.raises(RetryableError, match=r"no-such-host\.invalid"):
        QuixCatalog("http://no-such-host.invalid", "token", "default", "sensors").check()


def test_https_to_a_server_that_speaks_http_names_the_setting(server: CatalogServer) -> None:
    url = server.url.replace("http:", "https:")

    with pytest.raises(FatalError, match="https:// in CATALOG_URL"):
        QuixCatalog(url, server.token, "default", "sensors").check()


def test_an_endless_refusal_is_not_read_to_its_end(server: CatalogServer, catalog: QuixCatalog) -> None:
    server.trouble(Trouble(status=400, body=b"no " * 10_000_000))

    error = error_of_registering(catalog)

    assert len(str(error)) < 1_000
    assert "no no no" in error.cause
    assert catalog.table() is None  # on a new connection


def test_an_endless_description_is_refused(server: CatalogServer, catalog: QuixCatalog) -> None:
    server.trouble(Trouble(status=200, body=b" " * 17_000_000))

    with pytest.raises(FatalError, match="larger than 16 MiB"):
        catalog.table()


def test_a_token_that_the_catalog_repeats_is_not_shown(server: CatalogServer, catalog: QuixCatalog) -> None:
    server.trouble(Trouble(status=401, body=b'{"error": "bad token catalog-token"}'))

    assert "bad token ***" in error_of_registering(catalog).cause


@pytest.mark.parametrize("token", ["t0ken\n", "t0k en", "t0kén"])
def test_a_token_that_cannot_be_sent_is_named_and_not_shown(token: str) -> None:
    with pytest.raises(ConfigError, match="CATALOG_AUTH_TOKEN holds a blank") as caught:
        QuixCatalog("http://127.0.0.1", token, "default", "sensors")

    assert token.strip() not in str(caught.value)


def test_our_token_is_sent_though_a_netrc_file_knows_another(
    server: CatalogServer, catalog: QuixCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(netrc))

    catalog.check()


def test_a_proxy_of_the_environment_is_used(server: CatalogServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    server.trouble(Trouble(status=418))

    with pytest.raises(FatalError, match="418"):
        QuixCatalog("http://catalog.invalid/api", "token", "default", "sensors").check()

    assert server.requests[0].path == "http://catalog.invalid/api/health"


def test_a_proxy_is_not_used_for_hosts_that_are_excepted(
    server: CatalogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://no-such-proxy.invalid")
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    QuixCatalog(server.url, server.token, "default", "sensors").check()


def test_a_bundle_of_authorities_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "missing.pem"))
    monkeypatch.setenv("no_proxy", "*")

    with pytest.raises(FatalError, match=f"{os.sep}missing.pem.*REQUESTS_CA_BUNDLE"):
        QuixCatalog("https://127.0.0.1:9", "token", "default", "sensors").check()
