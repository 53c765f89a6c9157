"""The settings of Spark's session, a local file system without forks, the words of its errors, names of columns."""

import os
import tempfile
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column
from pyspark.sql.functions import col

from app.spark.options import size_checks

# Hadoop's local file system forks a chmod for every new file and folder: 90 % of a job with small files.
# The scratch folder is private (0700) and only we read its files, so checksums are left out too.
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
COMMON_CONF: Final = {  # of all sessions
    "spark.ui.enabled": "false",
    # The status store keeps finished jobs even without the UI; months of them would fill the heap.
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "10",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.cleaner.periodicGC.interval": "10min",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",  # JSON may hold both a and A
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
        # In the heap the pages of a sort would go into the old generation, which the serial collector enlarges instead
        # of collecting it. Outside the heap they are given back when the job ends.
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": f"{off_heap_mb}m",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.parquet.compression.codec": "uncompressed" if compression == "none" else compression,
        # A staged file is one task: splitting it would write a file per task into every partition.
        "spark.sql.files.maxPartitionBytes": "16g",
        "spark.sql.files.minPartitionNum": "1",  # else there would be one per core, if the file has as many row groups
        "spark.sql.files.openCostInBytes": "0",
        "spark.hadoop.parquet.block.row.count.limit": str(row_group_rows),
        # Less often for a file that states its largest row.
        **{f"{_HADOOP_PREFIX}{name}": rows for name, rows in size_checks(1).items()},
    }


def use_scratch_file_system(session: Any) -> None:
    """Makes the file system that is compiled here, by the compiler that Spark ships, the one for ``file:`` paths."""
    jvm = session._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(_FILE_SYSTEM_SOURCE)
    hadoop = session.sparkContext._jsc.hadoopConfiguration()
    # Only our own settings stay: Parquet scans all of Hadoop's for every file, and every job copies them. The thousand
    # others repeat defaults of the code, or are for unused services.
    jvm.org.apache.hadoop.mapred.JobConf()  # the first of its kind adds defaults to every configuration there is
    hadoop.clear()
    for name, value in session.sparkContext.getConf().getAll():
        if name.startswith(_HADOOP_PREFIX):
            hadoop.set(name.removeprefix(_HADOOP_PREFIX), value)
    hadoop.setClassLoader(compiler.getClassLoader())
    hadoop.set("fs.file.impl", _FILE_SYSTEM_CLASS)
    jvm.org.apache.hadoop.fs.FileSystem.closeAll()  # instances of the former class are cached


def quoted(name: str) -> Column:
    """Returns the column with this name, which may contain dots."""
    return col("`" + name.replace("`", "``") + "`")


def reason_of(error: Exception) -> str:
    """Returns the cause in one line: the Java exception at the root, without its stack."""
    if isinstance(error, Py4JJavaError):
        cause: Any = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.toString()).splitlines()[0]
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__


def hint_of(error: Exception) -> str:
    """Returns the remedy for an error that comes from the temporary folder; empty for another one."""
    reason, folder = reason_of(error), tempfile.gettempdir()
    if "No space left on device" in reason:
        return (
            "The temporary folder is full: give it more room (TMPDIR, or the size of the tmpfs) or lower MAX_BUFFER_MB"
        )
    if "UnsatisfiedLinkError" in reason and os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0):
        return (
            f"Java loads native code from {folder}, which is mounted noexec: mount it exec, or name another in TMPDIR"
        )
    return ""
