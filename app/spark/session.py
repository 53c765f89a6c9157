"""Configures Spark's session and a local file system without `chmod`. Formats Spark's errors and column names."""

import os
import tempfile
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column
from pyspark.sql.functions import col

from app.spark.options import size_checks

# Hadoop's local file system starts the program chmod for every new file and folder. With small files, this takes 90 %
# of a job's time. The scratch folder is private (0700), and only this process reads it. It needs no checksums.
_FILE_SYSTEM_CLASS = "datalake.ScratchFileSystem"
_FILE_SYSTEM_SOURCE = """
package datalake;

public class ScratchFileSystem extends org.apache.hadoop.fs.LocalFileSystem {
    public ScratchFileSystem() {
        super(new WithoutChmod());
        setWriteChecksum(false);
        setVerifyChecksum(false);
    }

    public static class WithoutChmod extends org.apache.hadoop.fs.RawLocalFileSystem {
        public void setPermission(
            org.apache.hadoop.fs.Path path, org.apache.hadoop.fs.permission.FsPermission permission) {
        }
    }
}
"""

_HADOOP_PREFIX = "spark.hadoop."
COMMON_CONF: Final = {  # for all sessions
    "spark.ui.enabled": "false",
    # Spark's status store keeps finished jobs even without the UI. After months, the jobs would fill the heap.
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "10",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.cleaner.periodicGC.interval": "10min",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",  # JSON may contain both a and A
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


def spark_conf(scratch: Path, compression: str, row_group_rows: int, off_heap_mb: int) -> dict[str, str]:
    return COMMON_CONF | {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(scratch / "spark"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.showConsoleProgress": "false",
        # In the heap, a sort's pages would move to the old generation. The serial collector would enlarge the old
        # generation instead of freeing the pages. Outside the heap, the pages are freed when the job ends.
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": f"{off_heap_mb}m",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.parquet.compression.codec": "uncompressed" if compression == "none" else compression,
        # A staged file is one task. With several tasks, each task would write a file into every partition.
        "spark.sql.files.maxPartitionBytes": "16g",
        "spark.sql.files.minPartitionNum": "1",  # otherwise one task for each core, if the file has enough row groups
        "spark.sql.files.openCostInBytes": "0",
        "spark.hadoop.parquet.block.row.count.limit": str(row_group_rows),
        # Checks the size after each row. If a staged file's largest row is known, the size is checked less often.
        **{f"{_HADOOP_PREFIX}{name}": rows for name, rows in size_checks(1).items()},
    }


def use_scratch_file_system(session: Any) -> None:
    """Compiles ``_FILE_SYSTEM_SOURCE`` with Spark's compiler. Hadoop then uses this file system for ``file:`` paths."""
    jvm = session._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(_FILE_SYSTEM_SOURCE)
    hadoop = session.sparkContext._jsc.hadoopConfiguration()
    # Only the settings of this module remain, because Parquet scans all of Hadoop's settings for every file. The other
    # thousand settings repeat defaults of the code, or are for unused services.
    jvm.org.apache.hadoop.mapred.JobConf()  # the first JobConf adds defaults to every existing configuration
    hadoop.clear()
    for name, value in session.sparkContext.getConf().getAll():
        if name.startswith(_HADOOP_PREFIX):
            hadoop.set(name.removeprefix(_HADOOP_PREFIX), value)
    hadoop.setClassLoader(compiler.getClassLoader())
    hadoop.set("fs.file.impl", _FILE_SYSTEM_CLASS)
    jvm.org.apache.hadoop.fs.FileSystem.closeAll()  # instances of the former class are cached


def quoted(name: str) -> Column:
    """Returns the column with this name. The name may contain dots."""
    return col("`" + name.replace("`", "``") + "`")


def reason_of(error: Exception) -> str:
    """Returns the error's cause in one line: the original Java exception, without the stack trace."""
    if isinstance(error, Py4JJavaError):
        cause: Any = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.toString()).splitlines()[0]
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__


def hint_of(error: Exception) -> str:
    """Returns what to do about an error of the temporary folder; an empty text for other errors."""
    reason, folder = reason_of(error), tempfile.gettempdir()
    if "No space left on device" in reason:
        return (
            "The temporary folder is full: give it more space (TMPDIR, or the size of the tmpfs) or lower MAX_BUFFER_MB"
        )
    if "UnsatisfiedLinkError" in reason and os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0):
        return f"Java loads native code from {folder}, which is mounted noexec: mount it exec, or set TMPDIR to another"
    return ""
