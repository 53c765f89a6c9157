"""Answers of the catalog that are no success: which pass, which do not, and what is told of them."""

import pytest

from app.catalog.base import NotTakenError
from app.errors import FatalError, RetryableError
from app.parts.quix.catalog import QuixCatalog
from app.table.existing_table import CatalogTable
from tests.fakes.catalog_server import CatalogServer, Trouble
from tests.unit.parts.quix.catalog_bench import created, error_of_registering, stored


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_what_passes_is_retryable_and_quotes_the_catalog(
    server: CatalogServer, catalog: QuixCatalog, status: int
) -> None:
    server.trouble(Trouble(status=status, body=b'{"error": "database\\n  is away"}'))

    error = error_of_registering(catalog, RetryableError)

    assert isinstance(error, NotTakenError) == (status in (425, 429)), "then surely nothing was registered"
    assert f"the catalog answered {status}" in error.cause
    assert "database" in error.cause
    assert error.retry_after is None


def test_after_a_lost_answer_nobody_knows_what_was_registered(server: CatalogServer, catalog: QuixCatalog) -> None:
    created(catalog)
    server.trouble(Trouble(lost=True))

    error = error_of_registering(catalog, RetryableError)

    assert not isinstance(error, NotTakenError)
    assert len(server.files("sensors")) == 1


@pytest.mark.parametrize(
    ("headers", "seconds"), [({"Retry-After": "17"}, 17.0), ({"Retry-After": "never"}, None), ({}, None)]
)
def test_the_wait_that_the_catalog_asks_for_is_handed_on(
    server: CatalogServer, catalog: QuixCatalog, headers: dict[str, str], seconds: float | None
) -> None:
    server.trouble(Trouble(status=429, headers=headers))

    error = error_of_registering(catalog, RetryableError)

    assert error.retry_after == seconds


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (400, "check the settings"),
        (401, "CATALOG_AUTH_TOKEN"),
        (404, "no longer in the catalog"),
        (413, "STATS_COLUMNS"),
        (501, "check the settings"),
        (204, "check the settings"),
    ],
)
def test_what_does_not_pass_is_fatal(server: CatalogServer, catalog: QuixCatalog, status: int, hint: str) -> None:
    server.trouble(Trouble(status=status))

    error = error_of_registering(catalog, FatalError)

    assert str(status) in error.cause
    assert hint in error.hint


def test_a_redirect_is_not_followed_and_is_named(server: CatalogServer, catalog: QuixCatalog) -> None:
    server.trouble(Trouble(status=302, headers={"Location": "https://login.example.com/"}))

    error = error_of_registering(catalog, FatalError)

    assert "https://login.example.com/" in error.hint
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "body", [b"<html>Please log in</html>", b"[]", b'"ok"', b"{", b"\xff", b"[" * 10**6], ids=range(6)
)
def test_an_answer_that_is_no_json_object_has_registered_nothing(
    server: CatalogServer, catalog: QuixCatalog, body: bytes
) -> None:
    server.trouble(Trouble(status=200, body=body))

    error = error_of_registering(catalog, FatalError)

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
        (b'{"location": 7}', "its location should be text, but is 7"),
        (b'{"partition_spec": "day"}', "its partition_spec should be a list of names, but is 'day'"),
        (b'{"partition_spec": [{"name": "day"}]}', r"but is \[{'name': 'day'}\]"),
        (b" " * 17_000_000, "more than 16 MiB"),
        (b'{"properties": [' + b'{"":0},' * 1_000_000 + b"0]}", r"more than 1,000,000 values.* CATALOG_URL"),
    ],
    ids=range(5),
)
def test_a_description_of_another_kind_or_size_shows_what_came(
    server: CatalogServer, catalog: QuixCatalog, body: bytes, cause: str
) -> None:
    server.trouble(Trouble(status=200, body=body))

    with pytest.raises(FatalError, match=cause):
        catalog.table()


def test_an_endless_refusal_is_not_read_to_its_end(server: CatalogServer, catalog: QuixCatalog) -> None:
    server.trouble(Trouble(status=400, body=b"no " * 10_000_000))

    error = error_of_registering(catalog, FatalError)

    assert len(str(error)) < 1_000
    assert "no no no" in error.cause
    assert catalog.table() is None  # on a new connection
