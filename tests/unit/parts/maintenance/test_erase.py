"""``erase`` without Spark: which rows and folders go, and what it says of the others."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.storage.local.store import LocalStore
from app.table.layout import dead_letter_root
from app.table.schema import EMPTY, TableSchema
from app.table.schema_store import SchemaStore
from tests.support.commands import run_command
from tests.support.journals import keep_journal
from tests.unit.parts.maintenance.lake import ROOT, Lake, OtherClock


@pytest.mark.parametrize("dry", [False, True])
def test_rows_that_meet_all_conditions_go_and_the_others_stay(
    lake: Lake, capsys: pytest.CaptureFixture[str], dry: bool
) -> None:
    for batch in range(2):
        lake.write(batch, "a")
        lake.write(batch, "b")
    untouched = lake.files("year=2024/place=b")
    assert lake.run("erase", "--where", "place = 'a'", "--where", "n >= 15", *["--dry-run"] * dry) == 0
    printed = capsys.readouterr().out.splitlines()
    erased = "would be erased" if dry else "erased"
    assert printed[:2] == ["year=2024/place=a: 5 rows", f"5 rows {erased} from 2 files in 1 folder"]
    assert printed[2].startswith("Not searched: records that are only in Kafka")
    assert lake.numbers("*/place=a") == list(range(20 if dry else 15))
    assert lake.files("year=2024/place=b") == untouched


def test_the_index_of_a_file_goes_with_it_although_the_table_has_no_virtual_columns_any_more(lake: Lake) -> None:
    indexed = lake.write(0)
    index = lake.put(f"year=2024/place=a/.vidx/{indexed.name}", {"sensor": ["x"]})
    other = lake.put("year=2024/place=a/.vidx/other.parquet", {"sensor": ["y"]})
    assert lake.run("erase", "--where", "n < 10") == 0
    assert (index.exists(), other.exists()) == (False, True)


def test_folders_of_a_time_long_ago_go(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.write(0, year="2019")
    lake.write(1, year="__HIVE_DEFAULT_PARTITION__")
    lake.write(2, year="2999")
    lake.patch.setattr("app.parts.maintenance.merger.merge_session", None)  # whole folders go without Spark
    assert lake.run("erase", "--older-than", "400d") == 0
    assert capsys.readouterr().out.splitlines() == [
        "year=2019/place=a: 10 rows",
        "10 rows erased from 1 file in 1 folder",
    ]
    assert lake.numbers() == list(range(10, 30))


def test_old_folders_go_also_where_column_types_contradict_the_table(lake: Lake) -> None:
    """Which suspends the table of one of several topics: KEEP erases what is too old all the same."""
    lake.write(0, year="2019")
    assert lake.run("erase", "--where", "n < 5", COLUMN_TYPES="n:boolean") == 2
    assert lake.run("erase", "--older-than", "400d", COLUMN_TYPES="n:boolean") == 0
    assert not lake.files()


def test_a_table_without_folders_of_years_has_none_of_a_time_long_ago(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.put("place=a/x.parquet", {"n": [1]})
    assert lake.run("erase", "--older-than", "1d", HIVE_COLUMNS="place") == 2
    assert "the table has no folders of years. Use --where" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("folder", "age", "is_old"),
    [
        ("year=2019/month=02/day=28", "1d", True),
        ("year=2019/month=02/day=28", "999999999d", False),
        ("year=2019/month=02/day=31", "1d", False),  # no time at all
        ("year=9999/month=12/day=31", "1d", False),
        (f"year={datetime.now(UTC).year}/day=01", "1m", False),  # without months only the year says a time
        ("year=2019/day=31", "1m", True),
        (f"year={datetime.now(UTC):%Y/month=%m}", "1m", False),  # it is being written, whatever the age
    ],
)
def test_a_folder_is_old_once_its_time_has_ended_so_long_ago(lake: Lake, folder: str, age: str, is_old: bool) -> None:
    path = lake.put(f"{folder}/x.parquet", {"n": [1]})
    columns = ",".join(part.partition("=")[0] for part in folder.split("/"))
    assert lake.run("erase", "--older-than", age, HIVE_COLUMNS=columns) == 0
    assert path.exists() is not is_old


@pytest.mark.parametrize(
    ("zone", "hours", "is_old"),
    [("UTC", 6, True), ("Etc/GMT+12", 6, False), ("UTC", -6, False), ("Pacific/Kiritimati", -6, True)],
)
def test_what_is_old_is_reckoned_in_the_time_zone_of_the_folders(
    lake: Lake, zone: str, hours: int, is_old: bool
) -> None:
    at = datetime.now(UTC) - timedelta(hours=hours)
    path = lake.put(f"year={at:%Y}/month={at:%m}/day={at:%d}/hour={at:%H}/x.parquet", {"n": [1]})
    SchemaStore(LocalStore(lake.folder), ROOT, {}, EMPTY, zone).extend(TableSchema({"n": pa.int64()}))
    assert lake.run("erase", "--older-than", "1h", HIVE_COLUMNS="year,month,day,hour", TIME_ZONE=zone) == 0
    assert path.exists() is not is_old


def test_more_of_the_table_than_it_may_have_is_refused_and_told(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    for batch, year in enumerate(("2019", "2020", "2999")):
        lake.write(batch, year=year)
    guarded = ("erase", "--older-than", "400d", "--at-most")
    assert lake.run(*guarded, "60", "--dry-run") == 2
    assert lake.last is None
    assert lake.run(*guarded, "60") == 2
    assert "67 % of the table's" in capsys.readouterr().err
    assert (round(lake.done.refused), lake.done.erased) == (67, 0)
    assert lake.numbers() == list(range(30))
    assert lake.run(*guarded, "70") == 0
    done = lake.done
    assert (done.refused, done.rows, done.age, done.left) == (0, 20, 400 * 86_400, 0)
    assert lake.numbers() == list(range(20, 30))
    assert lake.run(*guarded, "1") == 0, "nothing is left that could be refused"


@pytest.mark.parametrize(("hours", "said"), [(-2.5, "2 h 30 min ahead of"), (1.2, "1 h 12 min behind"), (-0.8, "")])
def test_nothing_is_erased_by_a_clock_that_is_not_the_stores(
    lake: Lake, capsys: pytest.CaptureFixture[str], hours: float, said: str
) -> None:
    lake.write(0, year="2019")
    lake.patch.setattr("app.parts.commands.find_tables.new_store", lambda _: OtherClock(lake.folder, hours))
    assert lake.run("erase", "--older-than", "400d") == (2 if said else 0)
    assert f"this machine's clock is {said} the store's" in capsys.readouterr().err or not said
    assert lake.numbers("*/*") == list(range(10)) if said else not lake.files()
    assert (bool(lake.done.clock), bool(lake.done.erased)) == (bool(said), not said)
    lake.patch.setattr("app.parts.commands.find_tables.new_store", lambda _: LocalStore(lake.folder))
    assert lake.run("erase", "--older-than", "400d") == 0
    assert (lake.done.clock, lake.files()) == (0, []), "once the clock is right, it goes on"


def test_a_run_over_some_folders_is_no_run_over_the_table(lake: Lake) -> None:
    lake.write(0, year="2019")
    assert lake.run("erase", "--older-than", "400d", "--folder", "year=2019") == 0
    assert lake.last is None


def test_what_a_run_has_left_that_was_cut_off_goes_with_the_next_one(lake: Lake) -> None:
    for batch in range(3):
        lake.write(batch, year="2019")
        lake.write(batch + 3, year="2999")
    lake.dies("erase", "--older-than", "400d", at="delete")
    lake.patch.setattr("app.parts.maintenance.job._LEASE", timedelta(0))
    assert lake.run("erase", "--older-than", "400d", "--at-most", "50") == 0
    assert lake.numbers() == list(range(30, 60))


def test_a_merged_file_without_rows_keeps_its_name(lake: Lake) -> None:
    [first] = lake.merge_later_ones()
    assert lake.run("erase", "--where", "n = 3") == 0
    assert first.exists(), "an upload of it that comes late must find its name taken"
    assert len(lake.numbers()) == 29


def what_hinders(lake: Lake, how: str) -> Callable[[], None]:
    """Keep rows of the folder from the first search, and return what ends that."""
    if how == "a run that was cut off":
        lake.write(0), lake.write(1)
        lake.dies("compact", at="upload")
        return lambda: lake.patch.setattr("app.parts.maintenance.job._LEASE", timedelta(0))
    pending, revoked = lake.write(0), lake.write(1, "c")
    kept = pending.rename(lake.folder / "kept")
    log = keep_journal(lake.folder, ROOT, pending=pending, revoked=revoked)
    if how == "a batch that is not finished":
        pq.write_table(pq.read_table(revoked).slice(0, 0), revoked)

    def settle() -> None:
        """The batch is finished, also where it had no file at first; a placeholder replaces what was rolled back."""
        log.unlink()
        pq.write_table(pq.read_table(revoked).slice(0, 0), revoked)
        pending.parent.mkdir(exist_ok=True)
        kept.rename(pending)

    return settle


HINDRANCES = ("a run that was cut off", "a batch that is not finished", "a batch that was rolled back")


@pytest.mark.parametrize("which", [("--where", "n < 100"), ("--older-than", "400d")])
@pytest.mark.parametrize("how", HINDRANCES)
def test_rows_that_something_hinders_go_as_soon_as_they_can(lake: Lake, how: str, which: tuple[str, str]) -> None:
    end = what_hinders(lake, how)
    pauses: list[float] = []

    def wait(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            end()

    lake.patch.setattr("app.parts.maintenance.erase.sleep", wait)
    assert lake.run("erase", *which) == 0
    assert len(pauses) == 2
    assert sum(pq.read_metadata(path).num_rows for path in lake.files()) == 0


@pytest.mark.parametrize("dry", [False, True])
@pytest.mark.parametrize("how", HINDRANCES)
def test_rows_that_something_hinders_for_good_are_named_and_make_the_exit_code_1(
    lake: Lake, capsys: pytest.CaptureFixture[str], how: str, dry: bool
) -> None:
    what_hinders(lake, how)
    lake.patch.setattr("app.parts.maintenance.erase.sleep", lambda _: None)
    assert lake.run("erase", "--where", "n < 100", *["--dry-run"] * dry) == 1
    said = capsys.readouterr()
    place = "c" if "rolled" in how else "a"
    assert f"year=2024/place={place}: not searched completely: " in said.out
    assert " failed" in said.err


@pytest.mark.parametrize("other", [("compact", "--when-cold", "0m"), ("erase", "--where", "n = 3")])
@pytest.mark.parametrize("moment", ["record", "read_range", "download"])
def test_rows_that_another_run_moves_in_the_same_moment_go_too(lake: Lake, other: tuple[str, ...], moment: str) -> None:
    """``record``: the other run is quicker. Else it deletes what is being read, or makes it a placeholder."""
    lake.merge_later_ones()
    lake.patch.setattr("app.parts.maintenance.erase.sleep", lambda _: None)
    begun: list[str] = []

    def begin(what: str) -> None:
        if what == moment and not begun:
            begun.append(what)
            run_command(lake.settings(), *other)

    def late(name: str) -> Callable[..., Any]:
        read = getattr(LocalStore, name)

        def read_late(*arguments: Any) -> Any:
            begin(name)
            return read(*arguments)

        return read_late

    for name in ("read_range", "download"):
        lake.patch.setattr(LocalStore, name, late(name))
    lake.step_by_step(before=lambda _, what: begin(what))
    assert lake.run("erase", "--where", "n < 20") == 0
    assert begun
    assert lake.numbers() == list(range(20, 30))


def test_a_dead_letter_with_records_and_files_of_a_cluster_are_named(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.write(0, year="2019")
    path = lake.folder / dead_letter_root(ROOT) / "x.parquet"
    path.parent.mkdir(parents=True)
    for rows, code in ((0, 0), (1, 1)):
        pq.write_table(pa.table({"value": pa.array([b"x"] * rows, pa.binary())}), path)
        assert lake.run("erase", "--where", "n = 1") == code
    assert f"{path.parent.name}: not searched: 1 file may contain these records" in capsys.readouterr().out
    assert lake.run("erase", "--older-than", "400d") == 0
    path.unlink()
    lake.age(lake.put("_journal/compact-0.d/part.parquet", {"n": [1]}), days=0)
    assert lake.run("erase", "--where", "n = 1") == 1
    assert "1 file of a run on a cluster" in capsys.readouterr().out
