"""Spark writes what was staged: every type, every column name, every row in its place and in its order."""

import gc
import multiprocessing
import os
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from ipaddress import ip_address
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from py4j.java_gateway import JavaObject
from pyspark import SparkContext

from app.catalog.column_stats import column_stats
from app.errors import ConfigError, FatalError, SparkLostError
from app.model import BatchPart, OffsetRange, OutputFile, StagedFile, TopicPartition, WrittenFile
from app.service.build import new_batch_limits
from app.spark.batch_offsets import read_batch_offsets
from app.spark.launch import MODULE_OPTIONS, forget_java
from app.spark.staged_file import StagedWriter
from app.spark.writer import SparkWriter
from app.timings import DEFAULT
from tests.services.spark import new_spark_writer
from tests.support.environment import load
from tests.support.small_disk import small_disk
from tests.unit.pipeline.pipeline_line import wait_until

ROW_GROUP_ROWS = 100_000
MOMENT = datetime(2024, 2, 29, 23, 59, 59, 123456, UTC)
NewWriter = Callable[..., SparkWriter]


@pytest.fixture(scope="module")
def new_writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewWriter]:
    """Makes started writers that share one Java process: a session takes over the compression of the latest."""
    made: list[SparkWriter] = []

    def new(compression: str, scratch: Path | None = None) -> SparkWriter:
        writer = new_spark_writer(
            scratch or tmp_path_factory.mktemp("scratch"), compression=compression, row_group_rows=ROW_GROUP_ROWS
        )
        made.append(writer)
        writer.start().result()
        return writer

    yield new
    for writer in made:
        writer.close()
    forget_java()


@pytest.fixture(scope="module")
def writer(new_writer: NewWriter) -> SparkWriter:
    return new_writer("snappy")


def _staged(folder: Path, table: pa.Table, groups: list[int] | None = None) -> StagedFile:
    """The table as step 2 leaves it; by default all rows in one group."""
    ids = pa.array(groups if groups is not None else [0] * table.num_rows, pa.int32())
    path = folder / "staged.parquet"
    pq.write_table(
        table.append_column("__file_group", ids),
        path,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        row_group_size=max(1, table.num_rows),
    )
    part = BatchPart(OffsetRange(TopicPartition("t", 0), 0, table.num_rows), "0badcafe", 0)
    counts = pc.value_counts(ids).to_pylist()
    rows = {count["values"]: count["counts"] for count in counts}
    return StagedFile(path, "__file_group", tuple(OutputFile((part,), {}, rows[i]) for i in range(len(rows))))


def _write(writer: SparkWriter, folder: Path, table: pa.Table, groups: list[int] | None = None) -> list[WrittenFile]:
    return writer.write(_staged(folder, table, groups), folder / "out")


def _read(file: WrittenFile) -> pa.Table:
    return pq.ParquetFile(file.path).read()


TYPED = {
    "whole": pa.array([1, -(2**63), None], pa.int64()),
    "small": pa.array([1, 2, None], pa.int32()),
    "fraction": pa.array([0.1, float("nan"), None], pa.float64()),
    "single": pa.array([0.5, float("inf"), None], pa.float32()),
    "flag": pa.array([True, False, None], pa.bool_()),
    "text": pa.array(["a", "ü\n\x00😀", None], pa.string()),
    "bytes": pa.array([b"\x00\xff", b"", None], pa.binary()),
    "moment": pa.array([MOMENT, datetime(1969, 12, 31, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
    "wall_clock": pa.array([MOMENT.replace(tzinfo=None), datetime(1, 1, 1), None], pa.timestamp("us")),
    "day": pa.array([date(2024, 2, 29), date(1, 1, 1), None], pa.date32()),
    "price": pa.array([Decimal("12.34"), Decimal("-0.01"), None], pa.decimal128(10, 2)),
    "list": pa.array([[1, None], [], None], pa.list_(pa.int64())),
    "struct": pa.array([{"a": 1, "b": {"c": "x"}}, {"a": None, "b": None}, None]),
    "structs": pa.array([[{"a": 1.5}], [None], None], pa.list_(pa.struct([("a", pa.float64())]))),
}


def test_java_gets_its_objects_back_where_nothing_else_collects(writer: SparkWriter, tmp_path: Path) -> None:
    def held() -> int:
        return sum(isinstance(each, JavaObject) for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        counts = []
        for number in range(60):
            (tmp_path / str(number)).mkdir()
            _write(writer, tmp_path / str(number), pa.table({"n": [number]}))
            counts.append(held())
    finally:
        gc.enable()
    assert max(counts[40:]) <= max(counts[:20]) + 20, "of one write or two"


@pytest.mark.parametrize("name", ["a.b", "`", "A", "with space"])
def test_the_offsets_of_a_batch_are_in_the_footer_of_each_file(writer: SparkWriter, tmp_path: Path, name: str) -> None:
    offsets = (
        OffsetRange(TopicPartition("readings", 0), 0, 2**63 - 1),
        OffsetRange(TopicPartition("readings", 11), 7, 7),
    )
    table = pa.table({name: [3, 1, 2], "a": ["x", "y", "z"]})
    staged = replace(_staged(tmp_path, table, [0, 1, 0]), offsets=offsets)

    files = writer.write(staged, tmp_path / "out")

    assert [_read(file).select(table.column_names).to_pydict() for file in files] == [
        {name: [3, 2], "a": ["x", "z"]},
        {name: [1], "a": ["y"]},
    ]
    assert [_read(file).column_names for file in files] == [table.column_names] * 2
    assert [read_batch_offsets(pq.read_metadata(file.path).metadata) for file in files] == [offsets] * 2


def test_files_whose_names_say_the_offsets_have_none_in_their_footers(writer: SparkWriter, tmp_path: Path) -> None:
    [file] = _write(writer, tmp_path, pa.table({"n": [1]}))
    footer = pq.read_metadata(file.path).metadata
    assert b"kafka_offsets" not in footer[b"org.apache.spark.sql.parquet.row.metadata"]


def test_columns_keep_their_types_and_values(writer: SparkWriter, tmp_path: Path) -> None:
    table = pa.table(TYPED)

    [file] = _write(writer, tmp_path, table)

    stored = _read(file)
    types = {name: str(stored.schema.field(name).type) for name in stored.column_names}
    assert types == {name: str(column.type).replace("item:", "element:") for name, column in TYPED.items()}
    for name in TYPED:  # as text, for NaN is not equal to itself
        assert repr(stored[name].to_pylist()) == repr(table[name].to_pylist()), name


NAMES = (
    "temp (C)",
    "a.b",
    "a",
    "A",
    "ä;{},=`'\"\\\n\t",
    " padded ",
    "😀",
    "select",
    "__file_group_",
    "x" * 300,
)


def test_columns_keep_their_names(writer: SparkWriter, tmp_path: Path) -> None:
    table = pa.table({name: pa.array([i, i + 100]) for i, name in enumerate(NAMES)})
    nested = pa.array([{name: i for i, name in enumerate(NAMES)}, None])

    [file] = _write(writer, tmp_path, table.append_column("nested", nested))

    stored = _read(file)
    assert stored.column_names == [*NAMES, "nested"]
    assert [column.to_pylist() for column in stored.columns[:-1]] == [[i, i + 100] for i in range(len(NAMES))]
    assert stored["nested"].to_pylist() == [{name: i for i, name in enumerate(NAMES)}, None]


def test_every_group_becomes_one_file_with_its_rows_in_the_order_of_arrival(
    writer: SparkWriter, tmp_path: Path
) -> None:
    rows, groups = 300_000, 7
    ids = [(i * i + i // 11) % groups for i in range(rows)]
    ids[:groups] = range(groups)  # groups are numbered in the order they are first seen
    table = pa.table({"arrival": pa.array(range(rows), pa.int64()), "text": [f"row {i}" for i in range(rows)]})

    files = _write(writer, tmp_path, table, ids)

    assert [file.group.rows for file in files] == [ids.count(group) for group in range(groups)]
    for group, file in enumerate(files):
        stored = _read(file)
        assert stored.column_names == ["arrival", "text"]
        assert stored["arrival"].to_pylist() == [i for i in range(rows) if ids[i] == group]
        assert file.size == file.path.stat().st_size


@pytest.mark.parametrize("name", ["lap", "lap.time", "a `b`"])
def test_a_sort_column_orders_the_rows_of_each_file(writer: SparkWriter, tmp_path: Path, name: str) -> None:
    values = [7.5, None, float("nan"), -1.0, 3.0, 2.0, None, 9.0]
    staged = _staged(tmp_path, pa.table({name: values, "arrival": range(8)}), [0, 0, 0, 0, 1, 1, 1, 1])

    first, second = writer.write(replace(staged, sort_column=name), tmp_path / "out")

    assert _read(first)["arrival"].to_pylist() == [3, 0, 2, 1], "NaN above all numbers, nulls last"
    assert _read(second)["arrival"].to_pylist() == [5, 4, 7, 6]
    assert repr(_read(first)[name].to_pylist()) == "[-1.0, 7.5, nan, None]"


def test_bounds_leave_out_no_number_that_a_reader_may_look_for(writer: SparkWriter, tmp_path: Path) -> None:
    nan = float("nan")
    table = pa.table(
        {
            "nan_first": [nan, 1.0, 2.0],
            "nan_last": pa.array([1.0, 2.0, nan], pa.float32()),
            "nan_alone": [nan, nan, nan],
            "infinite": [1.0, float("inf"), 2.0],
            "price": pa.array([Decimal("12.25"), None, Decimal("-0.50")], pa.decimal128(10, 2)),
            "moment": pa.array([MOMENT, None, MOMENT], pa.timestamp("us", "UTC")),
            "fraction": [0.5, 2.5, None],
        }
    )

    [file] = _write(writer, tmp_path, table)

    stats = column_stats(pq.read_metadata(file.path), None)
    assert {name: (found["min"], found["max"]) for name, found in stats.items()} == {
        "price": (-0.5, 12.25),
        "moment": (MOMENT.isoformat(), MOMENT.isoformat()),
        "fraction": (0.5, 2.5),
    }


def test_nothing_but_the_files_is_left_behind(new_writer: NewWriter, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    writer = new_writer("snappy", scratch)
    before = sorted(scratch.iterdir())

    files = _write(writer, tmp_path, pa.table({"n": [1, 2, 3]}), [0, 1, 1])

    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert sorted(written) == sorted(file.path for file in files), "no _SUCCESS, no checksums"
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o400 for path in written)
    assert sorted(scratch.iterdir()) == before, "no trace of the batch, nor of the one that warmed it up"
    assert not list(scratch.glob("warm-up*"))


@pytest.mark.parametrize("compression", ["snappy", "zstd", "gzip", "none"])
def test_files_are_compressed_as_asked_for(new_writer: NewWriter, tmp_path: Path, compression: str) -> None:
    [file] = _write(new_writer(compression), tmp_path, pa.table({"text": ["the same again"] * 1000}))

    column = pq.read_metadata(file.path).row_group(0).column(0)
    assert column.compression == {"none": "UNCOMPRESSED"}.get(compression, compression.upper())
    assert _read(file)["text"].to_pylist() == ["the same again"] * 1000


def test_rows_that_do_not_match_what_was_staged_are_refused(writer: SparkWriter, tmp_path: Path) -> None:
    staged = _staged(tmp_path, pa.table({"n": [1, 2, 3]}), [0, 1, 1])
    [first, second] = staged.groups
    wrong = StagedFile(staged.path, staged.group_column, (first, OutputFile(second.parts, {}, 3)))

    with pytest.raises(FatalError, match=r"3 rows of t\[0\] became 1 files with 2 rows"):
        writer.write(wrong, tmp_path / "out")

    wrong = replace(wrong, groups=(first, OutputFile(second.parts * 3, {}, 3)))
    with pytest.raises(FatalError, match=r"3 rows of t\[0\] and 2 more partitions became 1 files with 2 rows"):
        writer.write(wrong, tmp_path / "out again")


def test_a_job_that_spark_refuses_says_why_in_one_line(writer: SparkWriter, tmp_path: Path) -> None:
    staged = _staged(tmp_path, pa.table({"n": [1]}))
    (tmp_path / "out").write_text("in the way")

    with pytest.raises(FatalError) as refused:
        writer.write(staged, tmp_path / "out")

    assert "writing a batch with Spark" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "at org.apache" not in str(refused.value)
    assert writer.alive


def test_a_disk_that_fills_up_while_spark_writes_is_told_and_the_next_batch_finds_room(
    writer: SparkWriter, tmp_path: Path
) -> None:
    values = pa.array([os.urandom(1_000) for _ in range(4_000)])  # nothing that a codec makes smaller
    groups = [number % 2 for number in range(len(values))]
    staged = _staged(tmp_path, pa.table({"n": range(len(values)), "v": values}), groups)
    full = pytest.raises(FatalError, match=r"No space left on device\. .*TMPDIR")
    with small_disk(tmp_path / "disk", 2) as disk, full:
        writer.write(staged, disk / "out")
    assert writer.alive
    files = writer.write(staged, tmp_path / "out")
    assert sorted(n for file in files for n in pq.read_table(file.path)["n"].to_pylist()) == list(range(len(values)))


def _lose_java(scratch: Path, how: str, told: "Queue[tuple[str, object]]") -> None:
    """Runs in a process of its own, for a lost Java process is lost for good."""
    patience = {"job_seconds": 0.5} if how == "frozen" else {}  # ten minutes are a long time
    writer = new_spark_writer(scratch, **patience)
    writer.start().result()
    java = writer.jvm_pid()
    assert java is not None
    staged = _staged(scratch, pa.table({"n": [1]}))
    if how == "frozen":
        os.kill(java, signal.SIGSTOP)
    else:
        os.kill(java, signal.SIGKILL)
    for _ in range(2):
        try:
            writer.write(staged, scratch / "out")
        except SparkLostError as error:
            told.put(("raised", str(error)))
    told.put(("lost", str(writer.lost.result(0))))
    told.put(("alive", writer.alive))
    wait_until(lambda: _has_ended(Path(f"/proc/{java}")))
    writer.close()


@pytest.mark.parametrize(
    ("how", "cause"), [("frozen", "no answer from Java for 0 s"), ("killed", "the Java process ended with code -9")]
)
def test_a_lost_java_process_is_told_once_and_every_later_write_fails_at_once(
    tmp_path: Path, how: str, cause: str
) -> None:
    context = multiprocessing.get_context("spawn")
    told: Queue[tuple[str, object]] = context.Queue()
    process = context.Process(target=_lose_java, args=(tmp_path, how, told))
    process.start()
    try:
        (_, first), (_, second), lost, alive = (told.get(timeout=300) for _ in range(4))
        assert cause in str(first)
        assert (second, lost, alive) == (first, ("lost", str(first)), ("alive", False))
    finally:
        process.join(120)
        process.kill()
    assert process.exitcode == 0


def _start_with_a_java_that_dies(scratch: Path, by: str, told: "Queue[tuple[str, str]]") -> None:
    program = scratch / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "25"\' && exit\n{by}\n')
    program.chmod(0o755)
    os.environ["JAVA_HOME"] = str(scratch / "java")
    writer = new_spark_writer(scratch)
    try:
        writer.start().result()
    except (ConfigError, SparkLostError) as error:
        told.put((type(error).__name__, str(error)))
    writer.close()


@pytest.mark.parametrize(
    ("by", "kind", "cause"),
    [
        ("kill -KILL $$", "SparkLostError", "the Java process ended with code -9"),
        ("exit 1", "ConfigError", "Java ended with code 1"),
    ],
)
def test_a_java_that_is_killed_at_the_start_may_start_the_next_time(
    tmp_path: Path, by: str, kind: str, cause: str
) -> None:
    context = multiprocessing.get_context("spawn")
    told: Queue[tuple[str, str]] = context.Queue()
    process = context.Process(target=_start_with_a_java_that_dies, args=(tmp_path, by, told))
    process.start()
    try:
        found, message = told.get(timeout=300)
    finally:
        process.join(120)
        process.kill()
    assert found == kind
    assert cause in message


SECRETS = {"S3_SECRET_KEY": "keep-this-1", "AWS_SECRET_ACCESS_KEY": "keep-this-2", "KAFKA_SASL_PASSWORD": "keep-this-3"}


def _show_java(scratch: Path, seen: "Queue[dict[str, str]]", done: "Queue[None]") -> None:
    """Runs in a process of its own, for its environment and its end."""
    os.environ.update(SECRETS)
    os.environ.update(SPARK_REMOTE="sc://127.0.0.1:1", SPARK_API_MODE="connect")  # of another program
    writer = new_spark_writer(scratch)
    writer.start().result()
    java = Path(f"/proc/{writer.jvm_pid()}")
    seen.put(
        {
            "pid": java.name,
            "environment": (java / "environ").read_text(),
            "command": (java / "cmdline").read_text(),
            "ours": str({name for name in os.environ if "GATEWAY" in name}),
            "gateway": str(SparkContext._gateway.gateway_parameters.port),  # type: ignore[union-attr]
            "user": str(SparkContext._jvm.org.apache.hadoop.security.UserGroupInformation.getLoginUser()),  # type: ignore[union-attr]
        }
    )
    done.get(timeout=600)


@pytest.fixture(scope="module")
def shown_java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, str], BaseProcess]]:
    """What was seen of a Java process, and the Python that it belongs to."""
    context = multiprocessing.get_context("spawn")
    seen, done = context.Queue(), context.Queue()
    process = context.Process(target=_show_java, args=(tmp_path_factory.mktemp("scratch"), seen, done))
    process.start()
    try:
        yield seen.get(timeout=300), process
    finally:
        process.kill()
        process.join()


def test_java_gets_no_secret(shown_java: tuple[dict[str, str], BaseProcess]) -> None:
    seen, _ = shown_java

    assert not [secret for secret in SECRETS.values() if secret in seen["environment"] + seen["command"]]
    assert not [name for name in SECRETS if name in seen["environment"]]
    assert "secret" not in seen["command"].lower()
    assert seen["ours"] == "set()", "PySpark's secret for the gateway does not stay in our environment"


def test_nobody_without_the_secret_gets_an_answer_at_any_port(shown_java: tuple[dict[str, str], BaseProcess]) -> None:
    seen, _ = shown_java
    listening = _listening(seen["pid"])

    assert int(seen["gateway"]) in [port for _, port in listening]
    assert {address for address, _ in listening} == {"127.0.0.1"}
    for _, port in listening:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as stranger:
            if port == int(seen["gateway"]):
                stranger.sendall(b"c\nz:java.lang.System\ngetProperty\nsuser.home\ne\n")
                assert b"Authentication error" in stranger.recv(1000)
            else:
                # The head of a request of Spark's protocol: length of the frame, type, id, length of the body, body.
                stranger.sendall((21 + 4).to_bytes(8) + bytes([3]) + (7).to_bytes(8) + (4).to_bytes(4) + b"ping")
                assert _answer(stranger)[:1] in (b"", b"\x05"), "closed, or refused"


def _answer(stranger: socket.socket) -> bytes:
    """What follows the length of a frame: its type first."""
    try:
        return stranger.recv(1000)[8:]
    except ConnectionResetError:
        return b""


def _listening(pid: str) -> list[tuple[str, int]]:
    """Address and port of every socket on which a process takes connections."""
    links = [str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()]
    found = []
    for version in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{version}").read_text().splitlines()[1:]:
            fields = line.split()
            local, state = fields[1], fields[3]
            if state == "0A" and f"socket:[{fields[9]}]" in links:
                address, port = local.split(":")
                found.append((_readable(address), int(port, 16)))
    return found


def _readable(address: str) -> str:
    words = [bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8)]
    found = ip_address(b"".join(words))
    return str(getattr(found, "ipv4_mapped", None) or found)


def test_java_ends_with_a_python_that_is_killed(shown_java: tuple[dict[str, str], BaseProcess]) -> None:
    seen, process = shown_java
    java = Path(f"/proc/{seen['pid']}")
    assert java.exists()

    process.kill()

    wait_until(lambda: _has_ended(java))


def _has_ended(process: Path) -> bool:
    return not process.exists() or "State:\tZ" in (process / "status").read_text()


def test_java_is_opened_as_spark_wants_it(writer: SparkWriter) -> None:
    jvm = SparkContext._jvm
    wanted = list(jvm.org.apache.spark.launcher.JavaModuleOptions.defaultModuleOptionArray())  # type: ignore[union-attr]
    assert set(wanted) - set(MODULE_OPTIONS) == {"--add-modules=jdk.incubator.vector"}


def test_rows_of_the_largest_batch_keep_their_order(writer: SparkWriter, tmp_path: Path) -> None:
    """A sort that goes through the disk would not keep it. Flags take least on the way there, and most in the sort."""
    limits = new_batch_limits(load(SPARK_DRIVER_MEMORY="512m"), DEFAULT, tmp_path)
    schema = pa.schema([*((f"flag{n}", pa.bool_()) for n in range(200)), ("number", pa.int64()), ("group", pa.int32())])
    staged = StagedWriter(tmp_path / "staged.parquet", schema)
    rows, portion = 0, 2_000
    while staged.sort_bytes < limits.max_sort_bytes:
        numbers = pa.array(range(rows, rows + portion), pa.int64())
        flags = [pa.array([True] * portion)] * 200
        groups = pc.bit_wise_and(numbers, pa.scalar(1, pa.int64())).cast(pa.int32())
        staged.append(pa.table([*flags, numbers, groups], schema=schema))
        rows += portion
    staged.close()
    part = BatchPart(OffsetRange(TopicPartition("t", 0), 0, rows), "0badcafe", 0)
    groups_of = tuple(OutputFile((part,), {}, rows // 2) for _ in range(2))
    files = writer.write(StagedFile(staged.path, "group", groups_of), tmp_path / "out")
    for first, file in enumerate(files):
        assert pq.ParquetFile(file.path).read(["number"])["number"].to_pylist() == [*range(first, rows, 2)]
