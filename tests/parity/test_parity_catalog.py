"""What the two sinks ask of the catalog and of the query API for the same records: the same, field by field."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.catalog.registrar import MovedError
from app.errors import ConfigError
from tests.fakes.arrow_writer import ArrowWriter
from tests.fakes.canned_server import Answer, CannedServer
from tests.fakes.catalog_contract import Table
from tests.fakes.catalog_server import CatalogServer, Trouble
from tests.parity.case import BUCKET, ROOT, TABLE, Case
from tests.parity.ours import Ours
from tests.parity.theirs import Theirs

Json = Mapping[str, Any]
WELL = Answer(body=b"{}")
HOME = f"s3://{BUCKET}/{ROOT}"
BATCHES: list[list[Any]] = [[{"p": "a", "n": 1}, {"p": "b", "n": 2}], [{"p": None, "n": 3.5}, {"p": "a/b"}]]
FULL = {
    "created_by": "somebody",
    "auto_discovered": "false",
    "expected_partitions": ["year", "p"],
    "timestamp_column": "at",
    "sort_column": "n",
    "stats_columns": ["n"],
}
# Names of writers, and what no two sinks share. Special characters in folders are told of in the documentation.
OF_ITS_OWN = {"created_by", "sink", "file_size", "last_modified"}


def case(**settings: Any) -> Case:
    return Case("catalog", BATCHES, **({"hive_columns": "year,p", "stats_columns": "n", "sort_column": "n"} | settings))


@dataclass(frozen=True)
class Asked:
    """What a sink has asked, and how it ended."""

    catalog: Sequence[tuple[str, str, str, Any]]
    read: frozenset[str]
    query_api: Sequence[tuple[str, str, str, Any]]
    error: str


class Stand:
    """One sink with a catalog, a query API and a folder of its own, all alike for both of them."""

    def __init__(self, folder: Path, prepare: Callable[[CatalogServer], None], answer: Answer, ends: ExitStack) -> None:
        self.folder = folder / BUCKET
        self.folder.mkdir(parents=True)
        self.catalog = ends.enter_context(CatalogServer())
        self.query_api = ends.enter_context(CannedServer(answer))
        prepare(self.catalog)

    def asked(self, error: str = "") -> Asked:
        changing = [each for each in self.catalog.requests if each.method != "GET"]
        return Asked(
            [(each.method, each.path, _credentials(each.headers), _told(each.body)) for each in changing],
            frozenset(each.path for each in self.catalog.requests if each.method == "GET"),
            [
                (each.method, each.path, _credentials(each.headers), _told(each.json()))
                for each in self.query_api.requests
            ],
            error,
        )


def _credentials(headers: Mapping[str, str]) -> str:
    return f"{headers['authorization']}, {headers['content-type']}"


def _told(body: Any) -> Any:
    """A request's body without what is each sink's own; files by their folders, in the order of these."""
    if isinstance(body, dict):
        told = {name: "…" if name in OF_ITS_OWN else _told(value) for name, value in body.items()}
        if "file_path" in told:
            told["file_path"] = told["file_path"].rpartition("/")[0].replace("%2F", "/")
        if "files" in told:
            told["files"] = sorted(told["files"], key=lambda file: str(file["file_path"]))
        return told
    return [_told(each) for each in body] if isinstance(body, list) else body


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Callable[..., tuple[Asked, Asked]]]:
    """Let both sinks write the case, and give what they asked: theirs, ours."""
    with ExitStack() as ends:

        def both(
            case: Case, prepare: Callable[[CatalogServer], None] = lambda _: None, answer: Answer = WELL
        ) -> tuple[Asked, Asked]:
            theirs, ours = (Stand(tmp_path / name, prepare, answer, ends) for name in ("theirs", "ours"))
            return _by_theirs(case, theirs), _by_ours(case, ours, tmp_path / "scratch")

        yield both


def _by_theirs(case: Case, stand: Stand) -> Asked:
    sink = Theirs(case, stand.folder, stand.catalog, stand.query_api.url)
    try:
        error = next((outcome.error for batch in case.numbered if (outcome := sink.write(batch)).error), None)
    finally:
        sink.close()
    return stand.asked(str(error) if error else "")


def _by_ours(case: Case, stand: Stand, scratch: Path) -> Asked:
    try:
        sink = Ours(case, stand.folder, scratch, stand.catalog, ArrowWriter(), stand.query_api.url)
    except ConfigError as error:
        return stand.asked(str(error))
    for batch in case.numbered:
        sink.write(batch)
    sink.close()
    return stand.asked()


def known(
    properties: Json, location: str = HOME, spec: Sequence[str] = ("year", "p")
) -> Callable[[CatalogServer], None]:
    def prepare(catalog: CatalogServer) -> None:
        catalog.tables[f"default.{TABLE}"] = Table(location, list(spec), dict(properties))

    return prepare


def changes(asked: Asked) -> list[str]:
    return [f"{method} {path.rpartition('/')[2]}" for method, path, _, _ in asked.catalog]


def test_a_new_table(ask: Callable[..., tuple[Asked, Asked]]) -> None:
    theirs, ours = ask(case())

    assert ours == theirs
    assert changes(ours) == [f"PUT {TABLE}", "POST sources", "POST add-files", "POST add-files"]
    assert [path for _, path, _, _ in ours.query_api] == [f"/tables/{TABLE}/files-added"] * 2
    assert ours.query_api[0][3]["files"][0].keys() == {
        "file_path",
        "file_size",
        "last_modified",
        "partition_values",
        "row_count",
    }
    assert ours.catalog[2][3]["files"][0]["column_stats"].keys() == {"n"}


def test_a_new_table_with_virtual_partitions(ask: Callable[..., tuple[Asked, Asked]]) -> None:
    theirs, ours = ask(case(hive_columns="year,~p", stats_columns="", sort_column=""))

    assert ours == theirs


def test_a_workspace(ask: Callable[..., tuple[Asked, Asked]]) -> None:
    theirs, ours = ask(case(workspace="org-ws", root=f"org-ws/{ROOT}"))

    assert ours == theirs
    assert ours.catalog[0][3]["location"] == f"s3://{BUCKET}/org-ws/{ROOT}"
    assert ours.catalog[1][3]["source"]["workspace_id"] == "org-ws"


@pytest.mark.parametrize(
    ("properties", "changed"),
    [
        (FULL, False),
        ({**FULL, "stats_columns": "n"}, False),
        ({**FULL, "stats_columns": " n , "}, False),
        ({**FULL, "stats_columns": ["m", "n"]}, True),
        ({**FULL, "timestamp_column": "", "sort_column": None}, True),
        ({}, True),
    ],
)
def test_the_properties_of_a_known_table(
    ask: Callable[..., tuple[Asked, Asked]], properties: Json, changed: bool
) -> None:
    theirs, ours = ask(case(), known(properties))

    assert ours == theirs
    assert ("PATCH properties" in changes(ours)) == changed


def test_bounds_that_are_no_longer_restricted(ask: Callable[..., tuple[Asked, Asked]]) -> None:
    theirs, ours = ask(case(stats_columns=""), known(FULL))

    assert ours == theirs
    assert ours.catalog[0][3] == {"properties": {"stats_columns": None}}


def test_nothing_is_registered_where_that_is_not_wanted(ask: Callable[..., tuple[Asked, Asked]]) -> None:
    theirs, ours = ask(case(auto_discover=False), known(FULL))

    assert ours == theirs
    assert (changes(ours), ours.query_api) == ([], [])


def test_a_table_that_the_catalog_has_elsewhere_is_written_there(
    ask: Callable[..., tuple[Asked, Asked]], tmp_path: Path
) -> None:
    theirs, ours = ask(case(root="old/place"), known(FULL, f"s3://{BUCKET}/old/place"))

    assert ours == theirs
    assert ours.catalog[-1][3]["files"][0]["file_path"].startswith(f"s3://{BUCKET}/old/place/year=")
    for side in ("theirs", "ours"):
        folders = {path.relative_to(tmp_path / side / BUCKET).parts[:2] for path in (tmp_path / side).rglob("data_*")}
        assert folders == {("old", "place")}


@pytest.mark.parametrize(
    ("workspace", "location"),
    [
        ("", f"s3://elsewhere/{ROOT}"),
        ("", f"s3://{BUCKET}"),
        ("ws-1", f"s3://{BUCKET}/ws-2/{ROOT}"),
        ("ws-1", f"s3://{BUCKET}/ws-1"),
    ],
)
def test_a_table_out_of_reach_is_refused_by_both(
    ask: Callable[..., tuple[Asked, Asked]], workspace: str, location: str
) -> None:
    theirs, ours = ask(case(workspace=workspace), known(FULL, location))

    assert "is registered" in theirs.error
    assert f"the catalog has it at {location}" in ours.error
    assert changes(ours) == changes(theirs) == []


def test_a_table_with_other_partitions_is_refused_by_both(ask: Callable[..., tuple[Asked, Asked]]) -> None:
    theirs, ours = ask(case(), known(FULL, spec=("year", "q")))

    assert "Partition strategy mismatch" in theirs.error
    assert "is partitioned by [year, q], HIVE_COLUMNS says [year, p]" in ours.error
    assert changes(ours) == changes(theirs) == []


@pytest.mark.parametrize("status", [400, 404, 500, 501, 503])
@pytest.mark.parametrize("what", ["sources", "properties"])
def test_what_is_good_to_have_stops_neither(ask: Callable[..., tuple[Asked, Asked]], what: str, status: int) -> None:
    def prepare(catalog: CatalogServer) -> None:
        known({})(catalog)
        catalog.trouble(Trouble(status=status, only=what), times=2)

    theirs, ours = ask(case(), prepare)

    assert (theirs.error, ours.error) == ("", "")
    again = what == "sources" and status != 501
    assert changes(theirs).count("POST sources") == (2 if again else 1)
    assert [each for each in ours.catalog if each[1].endswith("add-files")] == [
        each for each in theirs.catalog if each[1].endswith("add-files")
    ]
    assert changes(ours) == ["PATCH properties", "POST sources", "POST add-files", "POST add-files"]


@pytest.mark.parametrize("status", [404, 500, 501])
def test_a_query_api_that_refuses_stops_neither(ask: Callable[..., tuple[Asked, Asked]], status: int) -> None:
    theirs, ours = ask(case(), answer=Answer(status, b"no"))

    assert ours == theirs
    assert len(ours.query_api) == 2


def test_a_table_that_another_put_elsewhere_meanwhile(tmp_path: Path) -> None:
    """Theirs goes on there at once. Journals here lie at the old place: nothing is uploaded; the next start does."""
    with CatalogServer() as catalog:
        wanted = case(root="quicker/place")
        ours = Ours(wanted, tmp_path / BUCKET, tmp_path / "first", catalog, ArrowWriter())
        known({}, f"s3://{BUCKET}/quicker/place", spec=())(catalog)
        with pytest.raises(MovedError, match="quicker/place"):
            ours.write(wanted.numbered[0])
        ours.close()
        assert list((tmp_path / BUCKET).rglob("*.parquet")) == []

        again = Ours(wanted, tmp_path / BUCKET, tmp_path / "scratch", catalog, ArrowWriter())
        assert len(again.write(wanted.numbered[0]).files) == 2
        again.close()
