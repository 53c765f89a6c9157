"""The archive of parsed classes that Java starts with: it spares half of the processor time of Spark's start.

A run of the connector's own write makes Java load the classes it needs, and Java writes them down when it ends. From
Java 25 on that is its ahead-of-time cache, before it a dynamic archive. Java checks an archive against itself, its jars
and its options, and goes on without one that does not match.

The image has one. Elsewhere a connector that has run for a while makes it in the user's cache, in a process of its own
with the lowest priority. ``python -m app.spark.class_archive FILE`` makes one for an image.
"""

import fcntl
import hashlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from app.container import MemoryLimit
from app.errors import ConnectorError
from app.spark.java import INHERITED, Java, find_java
from app.spark.launch import (
    EXTRA_OPTIONS,
    JARS,
    JVM_OPTIONS,
    MODULE_OPTIONS,
    class_path,
    connect,
    extra_options,
    start_java,
)
from app.spark.session import spark_conf, use_scratch_file_system

logger = logging.getLogger(__name__)

_REPO = Path(__file__).resolve().parents[2]
_WITH_AOT_CACHE = 25  # the first Java that makes one in a single run
_KEPT = 3  # archives of other versions of Java or Spark: each has almost 200 MB
_NEEDED = (*INHERITED, "JAVA_HOME", "XDG_CACHE_HOME", EXTRA_OPTIONS)  # by the process that makes one
_ARCHIVE_OPTIONS = ("-XX:AOTCache", "-XX:SharedArchiveFile", "-Xshare")


def archive_option(java: Java, archive: Path) -> str:
    """What makes Java start with this archive."""
    return f"-XX:{'AOTCache' if java.release >= _WITH_AOT_CACHE else 'SharedArchiveFile'}={archive}"


def cached_archive(java: Java) -> Path | None:
    """Where the archive for this Java and Spark is, or belongs; None if there is no such place or another is in use."""
    if any(option.startswith(_ARCHIVE_OPTIONS) for option in extra_options()):
        return None
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        cache = named if named.is_absolute() else Path.home() / ".cache"
        archive = cache / "quix-ts-datalake-sink" / "java" / f"{_key(java)}.archive"
    except (OSError, RuntimeError):  # a Java that vanishes; no home folder
        return None
    return None if os.pathsep in str(archive) else archive  # Java would take it for several


def archive_options(java: Java) -> list[str]:
    """The options that make Java start with the archive of the user's cache, if it has been made."""
    archive = cached_archive(java)
    # Java compares only the size by itself, and crashes with an archive that a disk has damaged.
    return ["-XX:+VerifySharedSpaces", archive_option(java, archive)] if archive and archive.is_file() else []


def make_in_background(java: Java, limit: MemoryLimit | None, scratch: Path) -> Popen[bytes] | None:
    """Begin to make the archive where it is missing; the process ends with ours, or by ``stop_making``.

    If memory is limited, nothing is made: a second Java beside Spark's might exceed the limit.

    Args:
        java: which one.
        limit: that of this process, ``None`` where there is none.
        scratch: a private folder for what is not needed any more once the process has ended, however it ended.
    """
    archive = cached_archive(java)
    if archive is None or archive.exists() or limit or not _can_write(archive.parent):
        return None
    logger.info("making an archive of Java's classes, with which Spark starts faster: %s", archive)
    command = [sys.executable, "-m", __name__, "--for-parent", str(archive)]
    environment = {name: os.environ[name] for name in _NEEDED if name in os.environ} | {"TMPDIR": str(scratch)}
    with suppress(OSError):
        return Popen(
            command, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, cwd=_REPO, env=environment, start_new_session=True
        )
    return None


def stop_making(process: Popen[bytes]) -> None:
    """End what ``make_in_background`` has begun, with the Java that it has started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def make(java: Java, archive: Path) -> None:
    """Make an archive; another process that makes one in the same folder at this moment is left alone.

    Raises:
        ConnectorError, OSError: it did not work; nothing is at its place then, or what was there before.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_suffix(".unfinished")
    with _alone(archive.with_name("archive.lock")) as alone:
        if not alone:
            return
        try:
            _train(java, unfinished)
            unfinished.replace(archive)
        finally:
            for left in archive.parent.glob("*.unfinished*"):  # also Java's own, and those of tries that were ended
                left.unlink(missing_ok=True)


def _key(java: Java) -> str:
    """All that an archive depends on. Java takes the jars in the order in which the folder has them."""
    home = java.path.resolve().parent.parent
    files = [home / "lib" / "modules", *(Path(entry.path) for entry in os.scandir(JARS))]
    stats = [(str(file), found.st_size, int(found.st_mtime)) for file in files for found in [file.stat()]]
    depends = [java.release, stats, class_path(), MODULE_OPTIONS, JVM_OPTIONS, extra_options()]
    return hashlib.sha256(json.dumps(depends).encode()).hexdigest()[:16]


def _can_write(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        logger.debug("no archive of Java's classes is made: %s", error)
        return False
    return True


@contextmanager
def _alone(lock: Path) -> Iterator[bool]:
    """Whether no other process has the lock."""
    with lock.open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _train(java: Java, archive: Path) -> None:
    option = "AOTCacheOutput" if java.release >= _WITH_AOT_CACHE else "ArchiveClassesAtExit"
    with tempfile.TemporaryDirectory(prefix="quix-archive-") as folder:
        scratch = Path(folder)
        started = start_java(java, "512m", scratch, sys.stderr.fileno(), [f"-XX:{option}={archive}"])
        SparkContext._ensure_initialized(gateway=connect(started))
        conf = SparkConf().setMaster("local[1]").setAppName("class-archive")
        conf.setAll(list(spark_conf(scratch, "snappy", 1_000_000).items()))
        session = SparkSession.builder.config(conf=conf).getOrCreate()
        use_scratch_file_system(session)
        for compression in ("snappy", "zstd"):
            _write(session, scratch / compression, compression)
        session.stop()
        code = started.end()  # it writes the archive then
        if code != 0 or not archive.exists():
            raise ConnectorError("making an archive of classes", f"Java ended with code {code}")


def _write(session: SparkSession, folder: Path, compression: str) -> None:
    folder.mkdir()
    staged = folder / "staged.parquet"
    rows = range(1_000)
    columns = {"number": [*rows], "fraction": [i / 7 for i in rows], "text": [f"row {i}" for i in rows]}
    pq.write_table(pa.table({**columns, "group": [i % 4 for i in rows]}), staged)
    frame = session.read.parquet(str(staged))
    frame.write.partitionBy("group").option("compression", compression).parquet(str(folder / "out"))


def _remove_old(archive: Path) -> None:
    """Keep the latest few; a Java that runs with one that is removed keeps it until it ends."""
    others = sorted(archive.parent.glob("*.archive"), key=lambda path: path.stat().st_mtime)
    for path in others[:-_KEPT]:
        path.unlink(missing_ok=True)


def _end_with_parent() -> None:
    """Wait until nobody holds the other end of our standard input, then end with all that we have started."""
    os.read(sys.stdin.fileno(), 1)
    os.killpg(0, signal.SIGKILL)


def main(arguments: list[str]) -> None:
    archive = Path(arguments[-1])
    if arguments[0] == "--for-parent":
        threading.Thread(target=_end_with_parent, daemon=True).start()
        os.nice(19)
    try:
        make(find_java(), archive)
    except (ConnectorError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"ERROR: {archive}: {error}")
    if arguments[0] == "--for-parent":
        _remove_old(archive)


if __name__ == "__main__":
    main(sys.argv[1:])
