"""``compact`` without Spark: which files it takes, and that each row stays there once whatever happens meanwhile."""

import json
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.errors import ConfigError, FatalError, SparkLostError
from app.model import BatchPart, OffsetRange
from app.parts.maintenance.compact import compact
from app.parts.maintenance.job import bins_worth_merging
from app.parts.maintenance.merger import access_of_executors, uri_for_executors
from app.storage.local.store import LocalStore
from app.table.layout import file_name
from tests.fakes.arrow_merge import ArrowMerge
from tests.fakes.catalog_server import CatalogServer
from tests.support.commands import options
from tests.support.environment import BROKER_ALONE, load
from tests.support.journals import keep_journal
from tests.unit.parts.maintenance.lake import OWNER, PARTITION, ROOT, Killed, Lake


def audit(lake: Lake, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, object]:
    capsys.readouterr()
    assert lake.run("audit", "--json", *options) == 0
    answer: dict[str, object] = json.loads(capsys.readouterr().out)
    return answer


def test_small_files_of_a_folder_become_one_and_keep_their_offsets(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    for batch in range(4):
        lake.write(batch, "a")
    lake.write(4, "b")
    before = audit(lake, capsys)

    assert lake.run("compact") == 0

    [line, other, total] = capsys.readouterr().out.splitlines()
    done = lake.done
    assert (done.before, done.after, done.later, done.failed) == (5, 2, 0, 0)
    assert done.begun < done.ended
    assert line.startswith("year=2024/place=a: 4 files, ")
    assert " → 1 file, " in line
    assert line.endswith(" (snappy → zstd)")
    assert other.startswith("year=2024/place=b: 1 file, ")
    assert total == "2 folders: 5 files became 2"
    assert [len(lake.files(f"year=2024/place={place}")) for place in "ab"] == [1, 1]
    assert lake.numbers() == list(range(50))
    after = audit(lake, capsys)
    assert after["partitions"] == before["partitions"]
    assert audit(lake, capsys, "--offsets")["partitions"] == before["partitions"]

    assert lake.run("compact") == 0
    assert capsys.readouterr().out == "0 folders: 0 files became 0\n"


@pytest.mark.parametrize("loser", ["", "a", "b", "d"])
def test_tables_of_a_run_share_one_java_and_one_that_loses_it_leaves_the_others_alone(lake: Lake, loser: str) -> None:
    sessions: list[SimpleNamespace] = []

    @contextmanager
    def session(*_: object) -> Iterator[SimpleNamespace]:
        assert all(each.is_closed for each in sessions), "never two at once"
        sessions.append(mine := SimpleNamespace(is_lost=False, is_closed=False))
        yield mine
        mine.is_closed = True

    class Merge(ArrowMerge):
        def __init__(self, session: Any, sources: Mapping[pa.Schema, Sequence[str]], *others: Any) -> None:
            super().__init__(session, sources, *others)
            session.is_lost |= self._rows.num_rows == 20
            if session.is_lost:
                raise SparkLostError("reading files", "Java gives no answer")

    lake.patch.setattr("app.parts.maintenance.merger.Merge", Merge)
    lake.patch.setattr("app.parts.maintenance.merger.merge_session", session)
    lake.patch.setattr("app.parts.maintenance.merger.has_ended", lambda its: its.is_lost)
    tables = "abcd"
    for table in tables:
        lake.table = lake.folder / "data" / table
        for batch in range(2 if table == loser else 3):
            lake.write(batch, "a"), lake.write(batch, "b")
    code = lake.run("compact", *(f"--table={table}" for table in tables), input=",".join(tables))
    assert code == (SparkLostError.exit_code if loser else 0)
    files = [len([*lake.folder.glob(f"data/{table}/year=2024/place=*/*.parquet")]) for table in tables]
    assert files == [4 if table == loser else 2 for table in tables]
    assert len(sessions) == (2 if loser in ("a", "b") else 1)
    assert all(each.is_closed for each in sessions)


def test_a_dry_run_says_what_would_be_done_and_changes_nothing(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    files = [lake.write(batch) for batch in range(3)]
    lake.put("year=2024/place=a/other.parquet", {"n": [0.5]})
    assert lake.run("compact", "--dry-run") == 0
    line, total = capsys.readouterr().out.splitlines()
    assert line.endswith("→ 1 file (n bigint → double, snappy → zstd)")
    assert total == "1 folder: 4 files would become 1"
    assert set(files) < set(lake.files())
    assert not (lake.table / "_journal").exists()


def test_folders_with_new_files_and_those_that_the_pattern_leaves_out_stay(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    for batch in range(2):
        lake.write(batch, "a", "2023")
        lake.age(lake.write(batch, "b", "2023"), days=0.9)
        lake.write(batch, "a", "2024")
    assert lake.run("compact", "--folder", "year=2023") == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-2:] == ["1 folder: 2 files became 1", "skipped: 2 files younger than 1 d"]
    assert [len(lake.files(folder)) for folder in ("year=2023/place=a", "year=2023/place=b", "year=2024/place=a")] == [
        1,
        2,
        2,
    ]
    assert lake.run("compact", "--folder", "year=2023/place=*", "--when-cold", "12h") == 0
    assert len(lake.files("year=2023/place=b")) == 1


@pytest.mark.parametrize("command", [["compact"], ["erase", "--older-than", "1d"]], ids=" ".join)
def test_a_pattern_that_no_folder_is_like_is_no_success(
    lake: Lake, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    lake.write(0, "a", "2023")
    assert lake.run(*command, "--folder", "yaer=2023") == ConfigError.exit_code
    assert "no folder of the table matches yaer=2023" in capsys.readouterr().err


def test_a_large_file_is_not_written_anew_for_a_few_rows(lake: Lake) -> None:
    numbers = range(100, 200_000)
    lake.put("year=2024/place=a/large.parquet", {"n": numbers, "value": [math.sqrt(n) for n in numbers]})
    assert lake.run("compact") == 0  # it has the codec and the types of the table now
    [large_file] = lake.files()
    lake.age(large_file, days=2)
    for batch in range(3):
        lake.write(batch)
    assert lake.run("compact") == 0
    assert large_file in lake.files()
    assert len(lake.files()) == 2
    assert lake.numbers() == [*range(30), *numbers]


def test_one_of_two_files_that_are_nearly_large_enough_is_not_written_anew_either() -> None:
    files = map(Sized, [2_400_000, 2_400_000, 2_500])
    assert all(len(some) < 2 for some in bins_worth_merging(files, 4 << 20))


class Sized(NamedTuple):
    size: int


def test_files_of_batches_that_are_not_finished_or_were_rolled_back_are_left(lake: Lake) -> None:
    pending, undone = lake.write(0), lake.write(1)
    lake.write(2), lake.write(3)
    keep_journal(lake.folder, ROOT, pending=pending, revoked=undone)
    assert lake.run("compact") == 0
    assert len(lake.files()) == 3
    assert {pending, undone} < set(lake.files())


def test_files_that_are_large_enough_together_are_not_merged_further(lake: Lake) -> None:
    for batch in range(6):
        lake.write(batch, kind=pa.float64())
    lake.patch.setattr("app.parts.maintenance.compact._MEGABYTE", int(3.5 * lake.files()[0].stat().st_size))
    assert lake.run("compact", "--target-mb", "1") == 0
    assert len(lake.files()) == 2
    assert lake.numbers() == list(range(60))


def test_a_folder_that_cannot_be_merged_is_named_and_the_others_go_on(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.put("year=2024/place=a/one.parquet", {"n": [1], "N": ["x"]})
    lake.write(0, "b"), lake.write(1, "b")
    assert lake.run("compact") == 1
    printed = capsys.readouterr()
    assert "year=2024/place=a: not changed: its column 'N' differs from another column only in capitals" in printed.out
    assert "1 folder failed" in printed.err
    assert len(lake.files("year=2024/place=b")) == 1


def test_with_a_catalog_the_old_files_stay_without_rows(lake: Lake) -> None:
    old = [lake.write(batch) for batch in range(3)]
    with CatalogServer() as catalog:
        variables = {"CATALOG_URL": catalog.url, "CATALOG_AUTH_TOKEN": catalog.token}
        assert lake.run("compact", **variables) == 0
        rows = {str(file["file_path"]).rpartition("/")[2]: file["row_count"] for file in catalog.files("readings")}
        assert lake.run("compact", "--when-cold", "0m", **variables) == 0
    [new] = set(lake.files()) - set(old)
    assert rows == {new.name: 30, **{path.name: 0 for path in old}}
    assert [pq.read_metadata(path).num_rows for path in old] == [0, 0, 0]
    assert lake.numbers() == list(range(30))


def test_a_merged_file_that_is_merged_again_keeps_its_name_for_a_day(lake: Lake) -> None:
    [first] = lake.merge_later_ones()
    assert pq.read_metadata(first).num_rows == 0, "an upload of it that comes late must find its name taken"
    assert lake.numbers() == list(range(30))

    lake.age_all(days=2)
    assert lake.run("compact") == 0
    assert not first.exists()
    assert lake.numbers() == list(range(30))
    assert len(lake.files()) == 1


def later(lake: Lake) -> None:
    """Let the lease of what was cut off be over."""
    lake.patch.setattr("app.parts.maintenance.job._LEASE", timedelta(0))


def kill_at(step: int, number: int, _: str) -> None:
    if number == step:
        raise Killed


NEWEST = ("compact", "--when-cold", "0m", "--newest-by", "device")
# Which rows each of them leaves of 0 to 29, of which five in turn have other keys.
COMMANDS: Mapping[str, tuple[Sequence[str], Sequence[int]]] = {
    "compact": (("compact", "--when-cold", "0m"), range(30)),
    "erase": (("erase", "--where", "n % 10 = 3"), [n for n in range(30) if n % 10 != 3]),
    "newest": (NEWEST, range(25, 30)),
    "newest and dropped": ((*NEWEST, "--drop-where", "device = 'd1'"), [25, 27, 28, 29]),
    "all dropped": ((*NEWEST, "--drop-where", "device <> 'd'"), []),
}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_run_killed_at_any_step_is_completed_by_the_next_one(lake: Lake, name: str, moment: str) -> None:
    command, wanted = COMMANDS[name]
    for batch in range(2):
        lake.write(batch)
    assert lake.run("compact", "--when-cold", "0m") == 0  # so that a merged file is merged again
    lake.write(2)
    as_it_was = lake.table.rename(lake.folder / "as it was")
    killed = 0
    while True:
        shutil.rmtree(lake.table, ignore_errors=True)
        shutil.copytree(as_it_was, lake.table)
        store = lake.step_by_step(**{moment: partial(kill_at, killed)})
        try:
            lake.run(*command)
        except Killed:
            pass
        else:
            break
        assert set(lake.numbers()) >= {*wanted}, f"rows are lost after a kill {moment} {store.steps}"
        lake.step_by_step()
        later(lake)
        assert lake.run(*command) == 0
        if not wanted:
            assert lake.numbers() in ([*range(25, 30)], []), f"old rows are back after a kill {moment} {store.steps}"
            assert lake.run(*command) == 0
        assert lake.numbers() == [*wanted], f"after a kill {moment} {store.steps}"
        assert not lake.open_records()
        assert len([path for path in lake.files() if pq.read_metadata(path).num_rows]) == bool(wanted)
        killed += 1
    assert killed == len(store.steps)
    assert {"record", "upload", "delete", "empty"} <= set(store.steps)


@pytest.mark.parametrize("step", ["upload", "record", "delete"])
def test_a_run_that_stalls_while_another_one_completes_its_work_doubles_nothing(lake: Lake, step: str) -> None:
    """The other one merges the same files, and later merges the result again."""
    lake.write(0), lake.write(1)
    assert lake.run("compact") == 0  # there is a record of the folder then
    lake.age_all(days=2)
    lake.write(2)
    later(lake)

    def stall(_: int, what: str) -> None:
        if what != step or stalled:
            return
        stalled.append(what)
        lake.step_by_step()
        compact(lake.settings(), options("compact"))
        lake.write(3)
        compact(lake.settings(), options("compact", "--when-cold", "0m"))

    stalled: list[str] = []
    lake.step_by_step(before=stall)
    assert lake.run("compact") == 0
    assert stalled
    assert lake.numbers() == list(range(40))
    assert not lake.open_records()


def test_what_was_cut_off_just_now_is_left_to_who_is_at_it(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.write(0), lake.write(1)
    lake.dies("compact", at="upload")
    assert lake.run("compact") == 0
    assert "a: another run is working on it, or was interrupted in the last 10 minutes" in capsys.readouterr().out
    assert len(lake.open_records()) == 1
    assert audit(lake, capsys)["folders_in_compaction"] == 1
    assert lake.run("audit") == 0
    assert "1 folder in which compact or erase runs, or was interrupted:" in capsys.readouterr().out


def test_a_record_of_another_release_is_not_touched(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.write(0), lake.write(1)
    (lake.table / "_journal").mkdir()
    record = lake.table / "_journal" / "compact-0.json"
    record.write_text('{"version": 2, "folder": "a"}')
    assert lake.run("compact") == 2
    assert "it has version 2" in capsys.readouterr().err
    assert record.read_text() == '{"version": 2, "folder": "a"}'
    assert len(lake.files()) == 2


@pytest.mark.parametrize("body", ["", "[]"])
def test_a_damaged_record_is_not_taken_for_one_without_a_change(
    lake: Lake, capsys: pytest.CaptureFixture[str], body: str
) -> None:
    lake.write(0), lake.write(1)
    assert lake.run("compact") == 0
    (record,) = (lake.table / "_journal").glob("compact-*.json")
    record.write_text(body)
    lake.write(2), lake.write(3)
    files = lake.files()
    assert lake.run("compact") == 1
    assert "the record of a compaction" in capsys.readouterr().err
    assert lake.files() == files


@pytest.mark.parametrize("option", [[], ["--dry-run"]])
def test_a_column_that_only_the_settings_and_other_programs_know_gets_the_type_of_the_settings(
    lake: Lake, capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    lake.put("year=2024/place=a/x.parquet", {"n": [1], "m": [1]})
    (lake.table / "_journal").mkdir()
    (lake.table / "_journal" / "schema.json").write_text('{"version":1,"columns":[{"name":"n","type":"bigint"}]}')
    assert lake.run("compact", *option, COLUMN_TYPES="m:double") == 0
    assert "m bigint → double" in capsys.readouterr().out


@pytest.mark.parametrize("moment", ["before", "after"])
def test_what_was_cut_off_before_its_merged_file_was_there_is_given_up(
    lake: Lake, capsys: pytest.CaptureFixture[str], moment: str
) -> None:
    """Whoever gives it up may die too, and the one that is given up comes back."""
    deleted = lake.write(0)
    lake.write(1), lake.write(2)
    stalled: list[str] = []

    def stall(_: int, what: str) -> None:
        if what == "upload" and not stalled:
            stalled.append(what)
            deleted.unlink()
            give_up = lake.step_by_step(**{moment: kill_when_given_up})
            with suppress(Killed):
                compact(lake.settings(), options("compact"))
            assert "upload" in give_up.steps
            lake.step_by_step()
            compact(lake.settings(), options("compact"))

    def kill_when_given_up(_: int, what: str) -> None:
        if what == "upload":
            raise Killed

    later(lake)
    lake.step_by_step(before=stall)
    assert lake.run("compact") == 0

    printed = capsys.readouterr().out
    assert "rolled back an interrupted change of another run" in printed
    assert "another run has changed it first" in printed
    assert not lake.open_records()
    assert lake.run("compact", "--when-cold", "0m") == 0
    assert lake.numbers() == list(range(10, 30))


@pytest.mark.parametrize("moment", ["record", "upload"])
def test_no_other_run_leaves_out_rows_by_the_condition_of_an_erase_that_was_cut_off(
    lake: Lake, capsys: pytest.CaptureFixture[str], moment: str
) -> None:
    """Once its merged file is there, any run takes out the files that it is merged of."""
    lake.write(0), lake.write(1)
    lake.dies("erase", "--where", "n % 10 = 3", at=moment)
    [record] = lake.open_records()
    assert "n % 10" not in record.read_text()
    later(lake)

    assert lake.run("compact") == 0

    done = {"record": "rolled back an interrupted change", "upload": "completed an interrupted change"}
    assert f"year=2024/place=a: {done[moment]}" in capsys.readouterr().out
    assert not lake.open_records()
    assert lake.numbers() == [n for n in range(20) if moment == "record" or n % 10 != 3]


FOREIGN = "it lists keys that are not data files of its folder"


@pytest.mark.parametrize(
    ("record", "code", "said"),
    [
        ({"version": 2}, 2, "it has version 2"),
        ({"deleted": [f"{ROOT}/_journal/schema.json"]}, 1, FOREIGN),
        ({"deleted": [f"{ROOT}/year=2024/place=b/x.parquet"]}, 1, FOREIGN),
        ({"deleted": [f"{ROOT}/year=2024/place=a/../x.parquet"]}, 1, FOREIGN),
    ],
    ids=str,
)
def test_a_record_of_another_release_or_that_names_others_than_files_of_its_folder_is_not_touched(
    lake: Lake, capsys: pytest.CaptureFixture[str], record: dict[str, Any], code: int, said: str
) -> None:
    lake.write(0), lake.write(1)
    (lake.table / "_journal").mkdir()
    lists = {"deleted": [], "emptied": [], "out": None} | record
    path = lake.table / "_journal" / "compact-0.json"
    path.write_text(json.dumps({"version": 1, "folder": "year=2024/place=a", "rows": 0, "holder": "x", **lists}))
    before = path.read_text()
    later(lake)
    assert lake.run("compact") == code
    assert said in capsys.readouterr().err
    assert (path.read_text(), len(lake.files())) == (before, 2)


def test_an_audit_does_not_advise_to_delete_what_only_seems_doubled_beside_a_merged_batch(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    """Joins and windows keep records back: the ranges of batches overlap, their offsets do not."""
    for batch, offsets in enumerate(((0, 2), (1, 3))):
        part = BatchPart(OffsetRange(PARTITION, *offsets), OWNER, batch)
        lake.put(f"year=2024/place={batch}/{file_name([part])}", {"n": list(offsets), "__offset": list(offsets)})
    assert audit(lake, capsys, "--offsets")["partitions"] != []
    assert lake.run("compact", "--folder", "*/place=0") == 0

    capsys.readouterr()
    assert lake.run("audit", "--offsets") == 1
    printed = capsys.readouterr().out
    assert "cannot check whether other batches contain 1 offset of these files" in printed
    assert "Delete none of these files" in printed
    assert "delete its files" not in printed


def test_files_that_cannot_be_merged_do_not_keep_the_others_from_it(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    for batch in range(4):
        lake.write(batch)
    broken = lake.files()[1]
    lake.patch.setattr("app.parts.maintenance.erase._BIN_BYTES", 1)  # each file by itself
    lake.step_by_step()
    download = LocalStore.download

    def refuse(store: LocalStore, key: str, path: Path) -> None:
        if key.endswith(broken.name):
            raise FatalError("reading it", "broken")
        download(store, key, path)

    lake.patch.setattr(LocalStore, "download", refuse)
    assert lake.run("erase", "--where", "n % 10 = 3") == 1
    printed = capsys.readouterr().out
    assert "year=2024/place=a: 3 rows\nyear=2024/place=a: some files not changed: reading it: broken" in printed
    assert [n for n in lake.numbers() if n % 10 == 3] == [13]


def test_an_audit_names_merged_files_without_offsets(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "ab":
        lake.put(f"year=2024/place=a/{name}.parquet", {"n": [1]})
    assert audit(lake, capsys)["other_files"] == ["year=2024/place=a/a.parquet", "year=2024/place=a/b.parquet"]
    assert lake.run("compact") == 0
    [merged] = lake.files()
    assert audit(lake, capsys)["other_files"] == [f"year=2024/place=a/{merged.name}"]


def test_executors_get_the_keys_that_the_settings_have(tmp_path: Path) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL": "http://minio:9000"}
    bucket = load(AWS_REGION="eu-west-1", **keys).storage
    assert uri_for_executors(bucket) == "s3a://lake"
    assert access_of_executors(bucket) == {
        "spark.hadoop.fs.s3a.endpoint": "http://minio:9000",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-west-1",
        "spark.hadoop.fs.s3a.access.key": "id",
        "spark.hadoop.fs.s3a.secret.key": "secret",
    }
    role = access_of_executors(load(S3_ROLE_ARN="arn:aws:iam::123456789012:role/lake").storage)
    assert not [name for name in role if ".sts." in name], "Hadoop refuses the region without the address"
    folder = load(BROKER_ALONE, STORAGE_URL=f"file://{tmp_path}").storage
    assert (uri_for_executors(folder), access_of_executors(folder)) == (f"file://{tmp_path}", {})
