"""A batch of many files on its way to the catalog: each of its requests meets each fault, and is then repeated."""

from itertools import count

import pytest

from app.catalog.base import TooLargeError
from app.catalog.quix import MOST_FILES, QuixCatalog
from app.catalog.registrar import Registrar
from app.catalog.rest_client import Patience
from app.errors import ConnectorError, FatalError, RetryableError
from app.model import StoredFile
from app.table.location import TableLocation
from tests.fakes.catalog_server import CatalogServer, Trouble
from tests.unit.catalog.catalog_bench import WANTED, stored

TOPIC = "laps"
ROWS = 10  # of each file
FILES = 2 * MOST_FILES + 10
REQUESTS = 3
SOON = Patience(connect=10.0, read=3.0, whole=6.0)

PASSING = {
    "429": Trouble(status=429, headers={"Retry-After": "1"}, only="add-files"),
    "425": Trouble(status=425, only="add-files"),
    "500": Trouble(status=500, only="add-files"),
    "503": Trouble(status=503, body=b"<html>busy</html>", only="add-files"),
    "408": Trouble(status=408, only="add-files"),
    "slow": Trouble(delay=600, only="add-files"),
    "lost": Trouble(lost=True, only="add-files"),
}
CERTAIN = ("429", "425")  # nothing was done: the next try counts the rows
LASTING = {
    "400": (Trouble(status=400, body=b'{"error": "no"}', only="add-files"), "400"),
    "401": (Trouble(status=401, only="add-files"), "Check CATALOG_AUTH_TOKEN"),
    "404": (Trouble(status=404, only="add-files"), "gone from the catalog; restart to create it again"),
    "409": (Trouble(status=409, body=b"conflict", only="add-files"), "409 Conflict: conflict"),
    "501": (Trouble(status=501, only="add-files"), "501"),
    "garbage": (Trouble(status=200, body=b"<html>log in</html>", only="add-files"), "not a JSON object: <html>log in"),
    "huge": (Trouble(status=200, body=b" " * 17_000_000, only="add-files"), "larger than 16 MiB"),
    "deep": (Trouble(status=200, body=b"[" * 1_000_000, only="add-files"), "not a JSON object"),
}


@pytest.fixture
def registrar(server: CatalogServer) -> Registrar:
    catalog = QuixCatalog(server.url, server.token, "default", "sensors", patience=SOON)
    return Registrar(catalog, TableLocation("s3://lake", "data/sensors"), WANTED, TOPIC, None)


def files(many: int = FILES) -> list[StoredFile]:
    return [stored(f"{number}.parquet", place="a", day="1") for number in range(many)]


def spoil(server: CatalogServer, number: int, trouble: Trouble) -> None:
    """Let this one of the requests that register files meet trouble."""
    server.trouble(Trouble(only="add-files"), times=number)
    server.trouble(trouble)


def tries(registrar: Registrar, batch: list[StoredFile]) -> int:
    """Register, again and again, until it works."""
    registration = registrar.new_registration()
    for tried in count(1):
        try:
            registration.run(batch)
        except RetryableError:
            continue
        return tried
    raise AssertionError


def counted(server: CatalogServer) -> int:
    return server.tables["default.sensors"].rows_by_topic[TOPIC]


def test_many_files_take_few_requests(server: CatalogServer, registrar: Registrar) -> None:
    assert tries(registrar, files()) == 1

    assert len([request for request in server.requests if request.path.endswith("add-files")]) == REQUESTS
    assert len(server.files("sensors")) == FILES
    assert counted(server) == FILES * ROWS


@pytest.mark.parametrize("number", range(REQUESTS))
@pytest.mark.parametrize("fault", PASSING)
def test_what_passes_is_tried_again_and_counts_no_row_twice(
    server: CatalogServer, registrar: Registrar, fault: str, number: int
) -> None:
    spoil(server, number, PASSING[fault])

    assert tries(registrar, files()) == 2

    assert len(server.files("sensors")) == FILES
    in_doubt = min(MOST_FILES, FILES - number * MOST_FILES) * ROWS
    if fault in CERTAIN or fault == "lost":
        assert counted(server) == FILES * ROWS
    else:
        assert counted(server) == FILES * ROWS - in_doubt, "rather too few than twice"
    sent = [request.body["files"] for request in server.requests if request.path.endswith("add-files")]
    assert len(sent) == REQUESTS + 1, "what is registered is not sent again"


@pytest.mark.parametrize("number", range(REQUESTS))
@pytest.mark.parametrize("fault", LASTING)
def test_what_lasts_ends_it_and_the_next_owner_registers_all(
    server: CatalogServer, registrar: Registrar, fault: str, number: int
) -> None:
    trouble, message = LASTING[fault]
    spoil(server, number, trouble)
    with pytest.raises(FatalError) as caught:
        registrar.new_registration().run(files())
    assert message in str(caught.value)
    assert len(server.files("sensors")) == number * MOST_FILES

    registrar.register_again(files())
    assert len(server.files("sensors")) == FILES
    assert counted(server) == len(files()[: number * MOST_FILES]) * ROWS, "rather too few than twice"


@pytest.mark.parametrize("number", range(REQUESTS))
def test_what_is_too_large_is_sent_in_halves(server: CatalogServer, registrar: Registrar, number: int) -> None:
    spoil(server, number, Trouble(status=413, body=b"<html>too large</html>", only="add-files"))

    assert tries(registrar, files()) == 1

    assert len(server.files("sensors")) == FILES
    assert counted(server) == FILES * ROWS


def test_a_proxy_that_takes_nothing_is_named(server: CatalogServer, registrar: Registrar) -> None:
    server.trouble(Trouble(status=413, only="add-files"), times=20)

    with pytest.raises(TooLargeError, match=r"registering 1 file of .*413.*Raise what it takes"):
        registrar.new_registration().run(files(8))


def test_a_catalog_that_goes_away_between_two_requests(server: CatalogServer, registrar: Registrar) -> None:
    batch = files()
    registration = registrar.new_registration()
    spoil(server, 1, Trouble(lost=True, only="add-files"))
    with pytest.raises(RetryableError):
        registration.run(batch)
    server.trouble(Trouble(status=503), times=3)
    for _ in range(3):
        with pytest.raises(ConnectorError):
            registration.run(batch)
    registration.run(batch)

    assert (len(server.files("sensors")), counted(server)) == (FILES, FILES * ROWS)
