"""A new file in the place of an old one: what is written, what is told, and what others may do meanwhile."""

import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.catalog.registrar import Registrar
from app.commands.rewrite.replaced_files import ReplacedFiles, notes
from app.commands.rewrite.rewrite_file import Rewriter, Rewritten, SkippedError, WholeWriter
from app.commands.rewrite.stored_rows import NotPossibleError
from app.errors import ConnectorError, FatalError, RetryableError
from app.journal.survey import survey
from app.model import OffsetRange, TopicPartition
from app.spark.batch_offsets import read_batch_offsets
from app.storage.base import ChangedError, ObjectStore, StoredObject
from app.storage.local.store import LocalStore
from app.table.catalog_table import TableProperties
from app.table.layout import index_key
from app.table.location import TableLocation
from app.table.schema import TableSchema
from app.timings import Timings
from tests.fakes.arrow_writer import ArrowWriter
from tests.fakes.memory_catalog import MemoryCatalog
from tests.fakes.memory_schema import MemorySchema

ROOT = "data/t"
KEY = f"{ROOT}/place=a%2Fb/data_1.parquet"
BIG = 2**53 + 1
WANTED = TableProperties(("place",), "ts_ms")


class Table:
    """A table in a folder with one file, and a rewriter for it."""

    def __init__(self, folder: Path) -> None:
        self.lake = folder / "lake"
        self.path = self.lake / KEY
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        self.write({"n": [2, 1], "v": [1, 2]})
        self.schema = MemorySchema(TableSchema({"n": pa.int64(), "v": pa.float64()}))
        self.catalog = MemoryCatalog()
        self.writer: WholeWriter = ArrowWriter()
        self.virtual: tuple[str, ...] = ()
        self.store: ObjectStore = LocalStore(self.lake)

    def write(self, columns: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), self.path)

    def read(self) -> list[dict[str, Any]]:
        return pq.ParquetFile(self.path).read().to_pylist()  # type: ignore[no-any-return]

    def rewriter(self, *, with_catalog: bool = True) -> Rewriter:
        return Rewriter(
            store=self.store,
            writer=self.writer,
            schema=self.schema,
            replaced=self.replaced(with_catalog=with_catalog),
            fixed=frozenset(),
            scratch=self.scratch,
            timings=Timings(first_retry_seconds=0.0),
        )

    def replaced(self, *, with_catalog: bool = True) -> ReplacedFiles:
        place = TableLocation(f"file://{self.lake}", ROOT)
        registrar = Registrar(self.catalog if with_catalog else None, place, WANTED, "sensors", None)
        return ReplacedFiles(self.store, ROOT, registrar, self.virtual, None)

    def finish(self) -> int:
        """What the next run does first."""
        self.store = LocalStore(self.lake)
        self.catalog.refuse = lambda: None
        return self.replaced().finish(self.scratch)

    def notes(self) -> list[Path]:
        return list((self.lake / ROOT / "_journal").glob("*.json"))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


class Meddling(ArrowWriter):
    """Does something to the table while a file is being written."""

    def __init__(self, meddle: Callable[[], object]) -> None:
        super().__init__()
        self._meddle = meddle

    def write_whole(self, source: Path, columns: Sequence[str], out: Path, offsets: Sequence[OffsetRange]) -> Path:
        self._meddle()
        return super().write_whole(source, columns, out, offsets)


def test_the_file_has_the_table_s_types_under_its_own_name(table: Table) -> None:
    before = table.path.stat().st_size

    rewriter = table.rewriter()
    done = rewriter.rewrite(KEY)
    rewriter.close()

    assert table.read() == [{"n": 2, "v": 1.0}, {"n": 1, "v": 2.0}]
    assert done == Rewritten(2, before, table.path.stat().st_size, rescued=0, is_last=False)
    assert [found.key for found in table.store.list("")] == [KEY]
    assert list(table.scratch.iterdir()) == []


def test_the_catalog_gets_the_same_path_with_the_new_size_and_bounds(table: Table) -> None:
    table.rewriter().rewrite(KEY)

    [[file]] = table.catalog.requests
    assert (file.key, file.uri) == (KEY, f"file://{table.lake}/{KEY}")
    assert (file.rows, file.size) == (2, table.path.stat().st_size)
    assert dict(file.partition_values) == {"place": "a/b"}
    assert file.column_stats["v"] == {"type": "numeric", "min": 1.0, "max": 2.0, "null_count": 0, "value_count": 2}


def test_the_schema_gets_the_column_for_rescued_values_before_the_first_file_has_it(table: Table) -> None:
    table.write({"v": [BIG, 1]})
    table.writer = Meddling(lambda: table.schema.asked and pytest.fail("too early"))

    assert table.rewriter().rewrite(KEY).rescued == 1

    assert table.schema.asked == [TableSchema({"_rescued_data": pa.string()})]
    assert table.read() == [
        {"v": None, "_rescued_data": f'{{"v":{BIG}}}'},
        {"v": 1.0, "_rescued_data": None},
    ]


def test_a_file_of_the_table_s_schema_is_not_touched(table: Table) -> None:
    table.rewriter().rewrite(KEY)
    written = table.path.read_bytes()

    with pytest.raises(SkippedError, match="has the table's schema by now"):
        table.rewriter().rewrite(KEY)
    assert table.path.read_bytes() == written


def test_a_file_that_is_gone_is_skipped(table: Table) -> None:
    table.path.unlink()
    with pytest.raises(SkippedError, match="deleted"):
        table.rewriter().rewrite(KEY)


def test_a_file_that_is_deleted_while_it_is_rewritten_stays_deleted(table: Table) -> None:
    table.writer = Meddling(table.path.unlink)
    with pytest.raises(SkippedError, match="somebody else"):
        table.rewriter().rewrite(KEY)
    assert not table.path.exists()
    assert table.catalog.requests == []


def test_a_file_that_is_changed_while_it_is_rewritten_stays_as_others_made_it(table: Table) -> None:
    table.writer = Meddling(lambda: table.write({"v": [7]}))
    with pytest.raises(SkippedError, match="somebody else"):
        table.rewriter().rewrite(KEY)
    assert table.read() == [{"v": 7}]
    assert table.catalog.requests == []


def test_a_file_that_cannot_be_written_stays_as_it_is(table: Table) -> None:
    table.write({"v": pa.array([1]), "t": pa.array([1], pa.time64("us"))})
    before = table.path.read_bytes()
    with pytest.raises(NotPossibleError, match="time64"):
        table.rewriter().rewrite(KEY)
    assert table.path.read_bytes() == before


def test_the_offsets_in_a_footer_are_kept(table: Table) -> None:
    """The name of a file of several partitions does not say them."""
    offsets = (OffsetRange(TopicPartition("sensors", 0), 5, 9), OffsetRange(TopicPartition("sensors", 7), 0, 3))
    path = ArrowWriter().write_whole(table.path, ["n", "v"], table.scratch / "with offsets", offsets)
    shutil.move(path, table.path)
    (table.scratch / "with offsets").rmdir()

    table.rewriter().rewrite(KEY)

    assert table.read() == [{"n": 2, "v": 1.0}, {"n": 1, "v": 2.0}]
    assert read_batch_offsets(pq.read_metadata(table.path).metadata) == offsets


class Forgetful(ArrowWriter):
    """Changes what it writes."""

    def __init__(self, change: Callable[[pa.Table], pa.Table]) -> None:
        super().__init__()
        self._change = change

    def write_whole(self, source: Path, columns: Sequence[str], out: Path, offsets: Sequence[OffsetRange]) -> Path:
        path = super().write_whole(source, columns, out, offsets)
        pq.write_table(self._change(pq.read_table(path)), path)
        return path


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.slice(1),
        lambda rows: rows.take([1, 0]),
        lambda rows: pa.concat_tables([rows, rows]),
        lambda rows: rows.drop_columns(["n"]),
        lambda rows: rows.set_column(0, "n", pa.array([2, 2])),
    ],
)
def test_a_file_without_the_rows_of_the_old_one_does_not_take_its_place(
    table: Table, change: Callable[[pa.Table], pa.Table]
) -> None:
    table.writer = Forgetful(change)
    before = table.path.read_bytes()
    with pytest.raises(FatalError, match=f"checking the new file://{table.lake}/{KEY}: .*stays in its place"):
        table.rewriter().rewrite(KEY)
    assert table.path.read_bytes() == before


@pytest.mark.parametrize("has_index", [False, True])
def test_the_index_of_a_virtual_partition_gets_the_new_type(table: Table, has_index: bool) -> None:
    table.virtual = ("v",)
    if has_index:
        table.store.overwrite(index_key(KEY), b"of the old file")
    table.rewriter().rewrite(KEY)
    sidecar = pq.ParquetFile(table.path.parent / ".vidx" / table.path.name).read()
    assert sorted(sidecar["v"].to_pylist()) == [1.0, 2.0]
    assert sidecar["place"].to_pylist() == ["a/b", "a/b"]
    assert sidecar.schema.field("v").type == pa.float64()


def test_the_index_of_another_column_stays(table: Table) -> None:
    table.virtual = ("n",)
    table.rewriter().rewrite(KEY)
    assert not (table.path.parent / ".vidx").exists()


def test_a_catalog_that_is_away_is_waited_for(table: Table) -> None:
    answers: list[ConnectorError | None] = [RetryableError("registering", "no answer"), None]
    table.catalog.refuse = lambda: answers.pop(0)
    table.rewriter().rewrite(KEY)
    assert table.catalog.keys == [KEY]


class TestNextRun:
    """A file that is replaced has the table's schema: the next run would not come back to it."""

    def test_after_a_lost_answer_it_tells_the_catalog(self, table: Table) -> None:
        class Store(LocalStore):
            def replace(self, path: Path, key: str, *, replaces: str) -> StoredObject:
                super().replace(path, key, replaces=replaces)
                raise RetryableError(f"replacing {key}", "no answer, and reading it back failed")

        table.store = Store(table.lake)
        with pytest.raises(RetryableError):
            table.rewriter().rewrite(KEY)
        assert table.read()[0]["v"] == 1.0
        assert table.catalog.requests == []
        assert table.finish() == 1
        [[file]] = table.catalog.requests
        assert (file.key, file.size, file.column_stats["v"]["max"]) == (KEY, table.path.stat().st_size, 2.0)
        assert table.catalog.topics == [None], "its source has counted the rows before"
        assert table.notes() == []
        assert table.finish() == 0

    def test_after_a_crash_it_tells_the_catalog_and_brings_the_index_up_to_date(self, table: Table) -> None:
        class Store(LocalStore):
            def replace(self, path: Path, key: str, *, replaces: str) -> StoredObject:
                super().replace(path, key, replaces=replaces)
                raise SystemExit

        table.virtual = ("v",)
        table.store = Store(table.lake)
        with pytest.raises(SystemExit):
            table.rewriter().rewrite(KEY)
        assert table.finish() == 1
        assert table.catalog.keys == [KEY]
        sidecar = pq.ParquetFile(table.path.parent / ".vidx" / table.path.name).read()
        assert sorted(sidecar["v"].to_pylist()) == [1.0, 2.0]

    def test_a_file_that_was_not_replaced_is_left_to_whoever_is_at_it(self, table: Table) -> None:
        class Store(LocalStore):
            def replace(self, path: Path, key: str, *, replaces: str) -> StoredObject:
                raise RetryableError(f"replacing {key}", "no route to host")

        table.store = Store(table.lake)
        with pytest.raises(RetryableError):
            table.rewriter().rewrite(KEY)
        assert table.finish() == 0
        assert table.catalog.requests == []
        (note,) = table.notes()
        os.utime(note, (0, 0))  # nobody is at it for so long
        assert table.finish() == 0
        assert table.notes() == []

    def test_a_file_that_is_gone_is_forgotten(self, table: Table) -> None:
        table.replaced().note(KEY, "etag")
        table.path.unlink()
        assert table.finish() == 0
        assert table.notes() == []

    def test_notes_are_kept_while_the_catalog_is_away(self, table: Table) -> None:
        table.replaced().note(KEY, "etag")
        table.catalog.refuse = lambda: RetryableError("registering", "503")
        with pytest.raises(RetryableError):
            table.replaced().finish(table.scratch)
        assert len(table.notes()) == 1

    def test_nothing_is_noted_where_nobody_is_to_be_told(self, table: Table) -> None:
        table.replaced(with_catalog=False).note(KEY, "etag")
        assert table.notes() == []

    def test_a_run_without_a_catalog_leaves_it_to_one_with(self, table: Table) -> None:
        table.replaced().note(KEY, "etag")
        assert table.replaced(with_catalog=False).finish(table.scratch) == 0
        assert table.finish() == 1
        assert table.catalog.keys == [KEY]

    def test_the_right_to_delete_is_not_needed(self, table: Table) -> None:
        class Store(LocalStore):
            def delete(self, key: str) -> None:
                raise FatalError(f"deleting {key}", "access denied")

        table.store = Store(table.lake)
        rewriter = table.rewriter()
        rewriter.rewrite(KEY)
        rewriter.close()
        assert table.finish() == 0
        assert list(notes(table.store, ROOT)) == []
        assert table.catalog.keys == [KEY]

    def test_after_all_went_well_or_somebody_was_quicker_there_is_nothing_to_finish(self, table: Table) -> None:
        for _ in range(2):
            rewriter = table.rewriter()
            with contextlib.suppress(SkippedError):
                rewriter.rewrite(KEY)
            rewriter.close()
            assert table.notes() == []
            table.write({"v": [1]})
            table.writer = Meddling(lambda: table.write({"v": [7]}))

    def test_notes_are_no_journals(self, table: Table) -> None:
        table.replaced().note(KEY, "etag")
        assert survey(table.store, ROOT).pending == frozenset()

    @pytest.mark.parametrize(
        "body", [b"", b"[]", b'{"key": "other/x", "replaces": "y", "catalog": true}', b'{"key": 1}']
    )
    def test_what_is_no_note_is_left_alone(self, table: Table, body: bytes, caplog: pytest.LogCaptureFixture) -> None:
        table.store.write(f"{ROOT}/_journal/rewrite-x.json", body, replaces=None)
        assert list(notes(table.store, ROOT)) == []
        assert "rewrite-x.json is no note of a rewrite" in caplog.text
        assert len(table.notes()) == 1


class TestSignals:
    """A signal in the moment of the replacement waits until the catalog has been told."""

    @pytest.fixture(autouse=True)
    def _same_signals(self) -> Any:
        former = signal.signal(signal.SIGTERM, signal.default_int_handler)
        yield
        signal.signal(signal.SIGTERM, former)

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_the_file_that_is_being_replaced_is_finished(self, table: Table, number: signal.Signals) -> None:
        class Store(LocalStore):
            def replace(self, path: Path, key: str, *, replaces: str) -> StoredObject:
                os.kill(os.getpid(), number)
                return super().replace(path, key, replaces=replaces)

        table.store = Store(table.lake)
        assert table.rewriter().rewrite(KEY).is_last
        assert table.read()[0]["v"] == 1.0
        assert table.catalog.keys == [KEY]
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler

    def test_it_is_not_forgotten_where_there_is_nothing_to_replace_any_more(self, table: Table) -> None:
        class Store(LocalStore):
            def replace(self, path: Path, key: str, *, replaces: str) -> StoredObject:
                os.kill(os.getpid(), signal.SIGTERM)
                raise ChangedError

        table.store = Store(table.lake)
        with pytest.raises(KeyboardInterrupt):
            table.rewriter().rewrite(KEY)

    def test_before_it_the_old_file_stays(self, table: Table) -> None:
        before = table.path.read_bytes()
        table.writer = Meddling(lambda: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(KeyboardInterrupt):
            table.rewriter().rewrite(KEY)
        assert table.path.read_bytes() == before
        assert list(table.scratch.iterdir()) == []

    def test_a_catalog_that_does_not_answer_is_not_waited_for_any_longer(
        self, table: Table, caplog: pytest.LogCaptureFixture
    ) -> None:
        def refuse() -> ConnectorError:
            os.kill(os.getpid(), signal.SIGTERM)
            return RetryableError("registering", "no answer")

        table.catalog.refuse = refuse
        assert table.rewriter().rewrite(KEY).is_last
        assert table.read()[0]["v"] == 1.0
        assert f"{KEY} is rewritten, but the catalog still has its former size" in caplog.messages[-1]
