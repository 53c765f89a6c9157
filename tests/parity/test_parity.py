"""The same records through the dependency's sink and through ours leave the same table and the same catalog.

Only names of files and of the writer differ. ``docs/coming-from-another-sink.md`` lists the records that differ.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.delivery.pipeline import Writer
from app.spark.writer import SparkWriter
from app.table.layout import QUIX_NULL
from tests.fakes.arrow_writer import ArrowWriter
from tests.fakes.catalog_server import CatalogServer
from tests.parity.case import BUCKET, NOON, ROOT, TABLE, Case, record
from tests.parity.lake import FoundFile, Outcome
from tests.parity.ours import Ours
from tests.parity.theirs import Theirs
from tests.services.spark import started_spark

# --- what is compared -----------------------------------------------------------------------------------------------

_OWN_NAMES = ("created_by", "sink")  # names of the writer
_OF_ENTRY = ("partition_values", "row_count", "column_stats")


def assert_both_write_the_same(case: Case, writer: Writer) -> None:
    """Write the case by each sink into a lake and a catalog of its own, and compare."""
    with TemporaryDirectory() as folder, CatalogServer() as their_catalog, CatalogServer() as our_catalog:
        lakes = Path(folder)
        (lakes / "theirs").mkdir()
        (lakes / "ours").mkdir()
        theirs = Theirs(case, lakes / "theirs" / BUCKET, their_catalog)
        ours = Ours(case, lakes / "ours" / BUCKET, lakes / "scratch", our_catalog, writer)
        try:
            for batch in case.numbered:
                their_outcome, our_outcome = theirs.write(batch), ours.write(batch)
                assert sum(len(file.rows) for file in our_outcome.files) == len(batch)
                assert list(_lines(our_outcome)) == list(_lines(their_outcome))
        finally:
            theirs.close()
            ours.close()


def _lines(outcome: Outcome) -> Iterator[str]:
    """What a batch has left, a line for each file and each request."""
    for file in sorted(outcome.files, key=lambda file: file.numbers):
        types = {path: str(kind) for path, kind in file.types.items() if kind != pa.null()}
        entry = file.entry and {name: file.entry.get(name) for name in _OF_ENTRY}
        yield _text([file.folder, types, file.rows, entry, _index_of(file)])
    for request in outcome.requests:
        yield _text([request.about, {name: value for name, value in request.body.items() if name != "files"}])


def _index_of(file: FoundFile) -> Sequence[str]:
    """The rows of the index; theirs has one for virtual partitions without any value too."""
    rows = file.index.rows if file.index else ()
    folders = file.entry["partition_values"] if file.entry else {}
    has_values = any(value is not None for row in rows for name, value in row.items() if name not in folders)
    return sorted(map(_text, rows)) if has_values else []


def _text(value: Any) -> str:
    """A value as text: 1 is not 1.0, the order of fields is open, and a missing field is null."""
    if isinstance(value, Mapping):
        fields = (f"{name!r}: {_text(value[name])}" for name in sorted(value) if value[name] is not None)
        return "{" + ", ".join(field for field in fields if not field.startswith(_OWN_FIELDS)) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return "[" + ", ".join(map(_text, value)) + "]"
    return repr(value)


_OWN_FIELDS = tuple(f"{name!r}: " for name in _OWN_NAMES)


# --- cases ----------------------------------------------------------------------------------------------------------


def _case(name: str, *batches: list[Any], **settings: Any) -> Case:
    return Case(name, batches, **settings)


def _valued(*values: Any, name: str = "p") -> list[Any]:
    return [{name: value} for value in values]


def _timed(name: str, *values: Any, parts: str = "year,month,day,hour") -> Case:
    return _case(name, _valued(*values, name="t"), timestamp_column="t", hive_columns=parts)


CASES = (
    _case("text of every sort", [{"s": value} for value in ("", " ", "a\nb", "\x00", "ü", "😀", "null", "x" * 5_000)]),
    _case("odd names", [{" ": 2, "a b": 3, "a.b": 4, "ü": 5, "😀": 6, "x'y\"z": 7, "a/b": 8, "`": 9, "\x01": 10}]),
    _case("structs whose fields come and go", [{"s": {"a": 1}}, {"s": {"b": "x"}}], [{"s": {"a": 1, "b": "y"}}]),
    _case(
        "lists of structs and of lists",
        [{"l": [{"a": 1}, {"b": "x"}], "m": [[1], [], [2, 3]]}, {"l": [None], "m": [[]]}],
    ),
    _case("keys of objects", [record({"v": 1}, key={"id": 1}), record({"v": 2}, key={"id": 2})]),
    _case("the key as a partition", [record({"v": 1}, key="a"), record({"v": 2}, key=None)], hive_columns="__key"),
    _case(
        "Kafka's time",
        [record({"v": 1}, timestamp=NOON - 7_200_000), record({"v": 2}, timestamp=NOON)],
        hive_columns="year,month,day,hour",
    ),
    *(
        _case(f"numbers of {unit} a second", _valued(at, at + 1, name="ts_ms"), hive_columns="year,month,day,hour")
        for unit, at in ((1, NOON // 1000), (10**3, NOON), (10**6, NOON * 10**3), (10**9, NOON * 10**6))
    ),
    _case("fractions of seconds", _valued(1.5, 1_705_320_000.75, 0.0, name="ts_ms"), hive_columns="year,hour"),
    _timed("text in UTC", "2024-01-15", "2024-01-15T23:59:59.123", "1969-12-31 23:00:00"),
    _timed("text with zones", "2024-01-15T23:30:00-05:00", "2024-01-15T00:30:00+02:00", "2024-01-15T12:00:00Z"),
    _timed("moments", datetime(2024, 1, 15, 13), datetime(2300, 1, 1)),
    _timed("days", date(2024, 1, 15), date(1969, 12, 31), parts="year,month,day"),
    _case("a time of null", _valued(None, NOON, name="ts_ms"), hive_columns="year,month"),
    _case("no time at all", _valued(None, None, name="ts_ms"), hive_columns="year,hour"),
    _case("a field of the name of a part", [{"year": 1999, "month": "May", "v": 1}], hive_columns="year,month"),
    _case(
        "text in folders",
        _valued("a", "b", "a", "A", " ", "a b", "a,b", "é", "😀", "-", ".", "1", "True", "None"),
        hive_columns="p",
    ),
    _case("decimals in folders", _valued(Decimal("1.50"), Decimal("2.25")), hive_columns="p"),
    _case(
        "null, missing and an empty object", [{"p": None}, {}, {"p": 1.5}], [{"p": {}}, {"p": None}], hive_columns="p"
    ),
    _case("a partition column that no record has", [{"v": 1}, {"v": 2}], hive_columns="p"),
    _case("the null folders' names as text", _valued("__None__", "__HIVE_DEFAULT_PARTITION__", None), hive_columns="p"),
    _case(
        "rows of many folders in turn",
        [{"p": f"p{index % 5}", "q": index % 3} for index in range(100)],
        hive_columns="p,q",
    ),
    _case(
        "a virtual partition",
        [{"place": place, "driver": driver} for place in "ab" for driver in ("x", "y", None, "x")],
        hive_columns="place,~driver",
    ),
    _case(
        "a virtual partition of each kind",
        [{"i": 1, "x": 1.5, "b": True, "s": "a", "d": date(2024, 1, 1)}, {"i": 2}],
        hive_columns="~i,year,~x,~b,~s,~d",
    ),
    _case(
        "a virtual partition named like a part of the time", _valued("old", "new", name="year"), hive_columns="~year"
    ),
    _case("bounds of numbers", [{"i": 2**53 + 1, "x": -1.5}, {"i": -5, "x": 2.5}, {"i": None}], hive_columns="year"),
    _case(
        "bounds of moments",
        [{"d": date(2024, 1, 1), "m": datetime(2024, 1, 1, 12)}, {"d": date(1999, 1, 1), "m": None}],
    ),
    _case("a name with a dot beside a struct", [{"a": {"b": 1}, "a.b": 5}, {"a": {"b": 2}, "a.b": 7}]),
    _case("nothing is registered", _valued("a", "b"), hive_columns="p", auto_discover=False),
    _case(
        "partitions and bounds and a sort column",
        [{"p": "a", "n": 1, "b": 1}, {"p": "a", "n": 2}],
        [{"p": "b", "n": 3}],
        hive_columns="year,p,~n",
        sort_column="n",
        stats_columns="n",
        timestamp_column="at",
    ),
)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkWriter]:
    with started_spark(tmp_path_factory.mktemp("scratch")) as writer:
        yield writer


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_sinks_write_the_same(case: Case, spark: SparkWriter) -> None:
    assert_both_write_the_same(case, spark)


# --- records that nobody thought of ---------------------------------------------------------------------------------

whole = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
fractions = st.floats(allow_nan=False, allow_infinity=False).filter(bool)  # bounds of 0.0 have any sign
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
moments = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1))

KINDS: dict[str, st.SearchStrategy[Any]] = {
    "whole": whole,
    "fraction": fractions,
    "flag": st.booleans(),
    "text": texts,
    "bytes": st.binary(max_size=3),
    "day": st.dates(),
    "moment": moments,
    "moment in UTC": moments.map(lambda moment: moment.replace(tzinfo=UTC)),
    "numbers": st.lists(whole, min_size=1, max_size=3),
    "texts": st.lists(texts, min_size=1, max_size=3),
    "object": st.fixed_dictionaries({"a": whole}, optional={"b": texts, "c.d": st.lists(st.booleans(), min_size=1)}),
    "objects": st.lists(st.fixed_dictionaries({"a": whole, "b": texts}), min_size=1, max_size=2),
}
OF_FOLDERS = st.sampled_from(
    [whole, fractions, st.booleans(), st.dates(), st.text(st.characters(categories=["L", "Nd"]), min_size=1)]
)
NAMES = ("a", "b", "c.d", "ü", "x y")


def _maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(values, values, st.none())


@st.composite
def steady_cases(draw: st.DrawFn) -> Case:
    """Each column keeps to one kind, as in a topic that is in order; values may be null or missing."""
    kinds = draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(sorted(KINDS)), max_size=4))
    values = {**{name: KINDS[kind] for name, kind in kinds.items()}, "p": draw(OF_FOLDERS)}
    fields = st.fixed_dictionaries({}, optional={name: _maybe(each) for name, each in values.items()})
    keys = draw(st.sampled_from([texts, whole, st.binary(max_size=3)]))
    records = st.builds(record, fields, key=_maybe(keys), timestamp=st.integers(10**11 + 1, 10**13))
    batch = draw(st.lists(records, min_size=1, max_size=8))
    columns = draw(st.sampled_from(["", "p", "year,month,day,hour", "year,p,hour", "~p", "day,~p"]))
    return Case("steady", [batch], hive_columns=columns, stats_columns=draw(st.sampled_from(["", "a,b", "ts_ms"])))


@settings(
    max_examples=int(os.environ.get("PARITY_EXAMPLES", "100")),
    deadline=None,
    derandomize="PARITY_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
@given(steady_cases())
def test_steady_records_become_the_same(case: Case) -> None:
    assert_both_write_the_same(case, ArrowWriter())


# --- a table that one of the two sinks has begun, and the other goes on with ------------------------------------------

FIRST: list[Any] = [{"p": "a", "driver": "x", "n": 1}, {"p": None, "driver": "y", "s": "text"}, {"p": "b", "x": 1.5}]
SECOND: list[Any] = [{"p": "a", "driver": "z", "n": 2}, {"driver": "y", "s": "more"}, {"p": "c", "x": 2.5}]
CASE = Case("continued", [FIRST, SECOND], hive_columns="year,p,~driver", sort_column="n", stats_columns="n,x")
ROWS = [
    ("a", "x", 1, None, None),
    (QUIX_NULL, "y", None, "text", None),
    ("b", None, None, None, 1.5),
    ("a", "z", 2, None, None),
    (QUIX_NULL, "y", None, "more", None),
    ("c", None, None, None, 2.5),
]


class Shared:
    def __init__(self, folder: Path, catalog: CatalogServer, spark: SparkWriter) -> None:
        self._folder = folder
        self._spark = spark
        self.catalog = catalog
        self.lake = folder / BUCKET

    def write(self, sink: str, case: Case, batch: int) -> Outcome:
        writer = (
            Theirs(case, self.lake, self.catalog)
            if sink == "theirs"
            else Ours(case, self.lake, self._folder / "scratch", self.catalog, self._spark)
        )
        with closing(writer):
            return writer.write(case.numbered[batch])

    def read(self, columns: str) -> list[tuple[Any, ...]]:
        """The whole table, as DuckDB reads it: data files alone, for ``**`` would find the index files too."""
        source = f"'{self.lake / ROOT}/year=*/p=*/*.parquet', union_by_name = true, hive_types_autocast = false"
        return duckdb.execute(f"SELECT {columns} FROM read_parquet({source}) ORDER BY row").fetchall()  # noqa: S608


@pytest.fixture
def table(tmp_path: Path, spark: SparkWriter) -> Iterator[Shared]:
    with CatalogServer() as catalog:
        yield Shared(tmp_path, catalog, spark)


@pytest.mark.parametrize(("first", "second"), [("theirs", "ours"), ("ours", "theirs")])
def test_a_table_of_one_is_continued_by_the_other(table: Shared, first: str, second: str) -> None:
    begun, went_on = (table.write(sink, CASE, batch) for batch, sink in enumerate((first, second)))

    assert _folders(begun) == {"year=2024/p=a", f"year=2024/p={QUIX_NULL}", "year=2024/p=b"}
    assert _folders(went_on) == {"year=2024/p=a", f"year=2024/p={QUIX_NULL}", "year=2024/p=c"}
    requests = [request.about for request in went_on.requests]
    assert requests == ["POST sources", "POST manifest/add-files"], "the table is known, with all properties"
    assert table.read("p, driver, n, s, x") == ROWS
    assert len(table.catalog.files(TABLE)) == 6


def _folders(outcome: Outcome) -> set[str]:
    return {file.folder for file in outcome.files}
