"""How many files one request brings."""

import json
from dataclasses import replace

import pytest

from app.catalog.base import TooLargeError
from app.model import DataFile
from app.parts.quix.catalog import QuixCatalog
from app.parts.quix.file_entries import MOST_BYTES, MOST_FILES, column_stats
from tests.fakes.catalog_server import CatalogServer, Trouble
from tests.unit.parts.quix.catalog_bench import created, footer_of, stored

ONE_MEBIBYTE = 2**20


def wide(number: int, columns: int) -> DataFile:
    """A file with bounds of so many columns, whose names are long and not ASCII."""
    footer = footer_of({f"Größe der Spalte {column}": [-1.5, 1.5] for column in range(columns)})
    return replace(stored(place=f"ü{number}", day="1"), footer=footer)


def test_many_files_are_divided_in_their_order(catalog: QuixCatalog) -> None:
    files = [stored(f"{number}.parquet", place="a", day="1") for number in range(2 * MOST_FILES + 1)]
    portions = list(catalog.portions(files))

    assert [len(portion) for portion in portions] == [MOST_FILES, MOST_FILES, 1]
    assert [file for portion in portions for file in portion] == files
    assert list(catalog.portions([])) == []


def test_wide_files_make_no_request_beyond_what_servers_take(catalog: QuixCatalog, server: CatalogServer) -> None:
    created(catalog)
    files = [wide(number, 300) for number in range(40)]
    for portion in catalog.portions(files):
        catalog.add_files(portion, "a topic")

    sizes = [int(request.headers["content-length"]) for request in server.requests if request.path.endswith("files")]
    assert len(sizes) > 1
    assert max(sizes) <= ONE_MEBIBYTE
    assert min(sizes[:-1]) > MOST_BYTES // 2, "they are not smaller than they need be"
    assert len(server.files("sensors")) == len(files)


def test_a_file_that_is_too_large_by_itself_goes_alone(catalog: QuixCatalog) -> None:
    huge = wide(1, 10_000)
    assert len(json.dumps(dict(column_stats(huge.footer, None)))) > MOST_BYTES

    assert [len(portion) for portion in catalog.portions([wide(0, 1), huge, wide(2, 1)])] == [1, 1, 1]


def test_a_catalog_that_takes_less_is_asked_for_less_from_then_on(catalog: QuixCatalog, server: CatalogServer) -> None:
    files = [wide(number, 300) for number in range(40)]
    before = [len(portion) for portion in catalog.portions(files)]
    server.trouble(Trouble(status=413, body=b"<html>Request Entity Too Large</html>", only="add-files"))
    with pytest.raises(TooLargeError, match=r"413.*fewer columns in STATS_COLUMNS"):
        catalog.add_files(files, None)

    assert len(list(catalog.portions(files))) >= 2 * len(before) - 1
