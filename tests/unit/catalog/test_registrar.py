"""What the catalog is told around the registration of files."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from app.catalog.base import NotTakenError, RestartError, TooLargeError
from app.catalog.registrar import Registrar
from app.errors import ConfigError, ConnectorError, FatalError, RetryableError
from app.model import DataFile
from app.table.existing_table import CatalogTable, TableLocation
from app.table.layout import PartitionSpec
from tests.fakes.memory_catalog import MemoryCatalog
from tests.support.batches import spec
from tests.unit.parts.quix.catalog_bench import footer_of

STORE = "s3://lake"
ROOT = "data/t"
LOCATION = f"{STORE}/{ROOT}"
MOVED = f"{STORE}/data/other"
WANTED = replace(spec("place"), order=("place", "driver"), sort_column="lap", stats_columns=("speed",))
KNOWN = CatalogTable(LOCATION, ("place", "driver"))
FOOTER = footer_of({"n": [1]})
LOST = RetryableError("registering", "no answer")
NOT_TAKEN = NotTakenError("registering", "429")


def file(name: str) -> DataFile:
    return DataFile(f"{ROOT}/place={name}/f.parquet", {"place": name}, rows=1, size=1, footer=FOOTER)


def registrar(catalog: MemoryCatalog | None, known: CatalogTable | None = None) -> Registrar:
    return Registrar(catalog, TableLocation(STORE, ROOT), WANTED, "laps", known)


def files_of(names: str) -> list[DataFile]:
    return [file(name) for name in names]


def register(registering: Registrar, names: str) -> None:
    registering.new_registration(files_of(names)).run()


def places(files: Sequence[DataFile]) -> list[str]:
    return [each.partition_values["place"] for each in files]


class Answers(MemoryCatalog):
    """Gives these errors to the next requests for registration, one after the other; ``None`` lets one pass."""

    def __init__(self, *errors: ConnectorError | None, most_files: int = 1_000) -> None:
        left = list(errors)
        super().__init__(KNOWN, lambda: left.pop(0) if left else None, most_files)

    @property
    def told(self) -> list[tuple[list[str], str | None]]:
        return [(places(files), topic) for files, topic in zip(self.requests, self.topics, strict=True)]


# --- the table ------------------------------------------------------------------------------------------------------


def test_without_a_catalog_nothing_is_registered() -> None:
    registering = registrar(None)
    registering.prepare()
    register(registering, "a")
    registering.register_again([file("a")])

    assert not registering.is_needed


def test_a_new_table_is_created_as_the_settings_say_and_its_source_named_once() -> None:
    catalog = MemoryCatalog()
    registering = registrar(catalog)
    registering.prepare()
    register(registering, "ab")
    register(registering, "c")

    assert catalog.created == [(LOCATION, ("place", "driver"), "ts_ms")]
    assert catalog.looked_up == 1
    assert catalog.wanted == [], "it was created so"
    assert catalog.sources == ["laps"]
    assert [places(files) for files in catalog.requests] == [["a", "b"], ["c"]]


def test_a_table_that_was_known_at_the_start_is_brought_in_line_once_and_not_looked_up() -> None:
    catalog = MemoryCatalog(KNOWN)
    registering = registrar(catalog, KNOWN)
    register(registering, "a")
    register(registering, "b")

    assert (catalog.created, catalog.looked_up) == ([], 0)
    assert catalog.wanted == [WANTED]
    assert catalog.sources == ["laps"]


def test_a_table_that_another_made_meanwhile_is_not_created() -> None:
    catalog = MemoryCatalog(KNOWN)
    registering = registrar(catalog)
    register(registering, "a")
    register(registering, "b")

    assert (catalog.created, catalog.looked_up) == ([], 1)
    assert catalog.wanted == [WANTED]
    assert [places(files) for files in catalog.requests] == [["a"], ["b"]]


def test_no_files_make_no_table() -> None:
    catalog = MemoryCatalog()
    register(registrar(catalog), "")

    assert (catalog.created, catalog.requests) == ([], [])


@pytest.mark.parametrize(
    ("there", "error", "told"),
    [
        (CatalogTable(LOCATION, ("place",)), ConfigError, r"\[place\], HIVE_COLUMNS says \[place, driver\]"),
        (CatalogTable("s3://elsewhere/data/t", ()), ConfigError, "s3://elsewhere/data/t, which is not in s3://lake"),
        (CatalogTable(MOVED, ("place", "driver")), RestartError, rf"the table at {LOCATION}: .* {MOVED}\. Restart"),
    ],
    ids=["without the virtual partition", "in another bucket", "put elsewhere meanwhile"],
)
def test_another_table_of_this_name_is_left_alone(there: CatalogTable, error: type[ConnectorError], told: str) -> None:
    catalog = MemoryCatalog(there)
    with pytest.raises(error, match=told):
        register(registrar(catalog), "a")

    assert (catalog.wanted, catalog.sources, catalog.requests) == ([], [], [])
    assert RestartError.exit_code == 75, "asks for a restart"


def test_the_place_of_a_quicker_creator_counts() -> None:
    class Quicker(MemoryCatalog):
        def create_table(self, location: str, wanted: PartitionSpec) -> CatalogTable:
            return CatalogTable(MOVED, ())

    catalog = Quicker()
    with pytest.raises(RestartError):
        register(registrar(catalog), "a")

    assert (catalog.sources, catalog.requests) == ([], [])


def test_files_get_the_address_that_the_table_is_known_by() -> None:
    known = CatalogTable("s3://container/data/t", ())
    catalog = MemoryCatalog(known)
    registering = Registrar(catalog, TableLocation("az://container", ROOT), WANTED, "laps", known)
    register(registering, "a")

    assert [found.uri for found in catalog.requests[0]] == ["s3://container/data/t/place=a/f.parquet"]


# --- in several requests --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("errors", "names", "told"),
    [
        ((None, LOST), "abcde", [(["a", "b"], "laps"), (["c", "d"], None), (["e"], "laps")]),
        ((LOST, LOST), "a", [(["a"], None)]),
        ((NOT_TAKEN,), "ab", [(["a", "b"], "laps")]),
    ],
    ids=["one lost answer", "two lost answers", "surely not carried out"],
)
def test_what_may_have_been_carried_out_is_asked_for_again_and_not_counted_again(
    errors: Sequence[ConnectorError | None], names: str, told: list[tuple[list[str], str | None]]
) -> None:
    catalog = Answers(*errors, most_files=2)
    registration = registrar(catalog).new_registration(files_of(names))
    for error in filter(None, errors):
        with pytest.raises(type(error)):
            registration.run()
    registration.run()
    registration.run()

    assert catalog.told == told, "once done it is not asked for any more"


def test_what_is_too_large_is_asked_for_in_halves() -> None:
    too_large = TooLargeError("registering", "413")
    catalog = Answers(too_large, too_large)
    register(registrar(catalog), "abcde")

    assert catalog.told == [(["a"], "laps"), (["b"], "laps"), (["c", "d", "e"], "laps")]


def test_a_single_file_that_is_too_large_is_refused() -> None:
    catalog = Answers(*[TooLargeError("registering", "413")] * 3)
    with pytest.raises(FatalError, match="413"):
        register(registrar(catalog), "abc")

    assert catalog.told == []


def test_a_former_owner_s_files_are_not_counted() -> None:
    catalog = Answers(LOST, most_files=2)
    registering = registrar(catalog)
    files = files_of("abc")
    with pytest.raises(RetryableError):
        registering.register_again(files)
    registering.register_again(files)

    assert catalog.told == [(["a", "b"], None), (["c"], None)]
