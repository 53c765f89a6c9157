"""Spark on the tables of an Iceberg catalog, in a process of its own: the newest one that Iceberg has a release for."""

import shutil
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyspark

from dev.iceberg_catalog import ICEBERG_JARS, ICEBERG_VERSION, IcebergServer
from dev.maven_jars import Jars, maven_jars
from dev.other_packages import answer, ask, other_packages, question
from dev.reading_spark import reading_spark

SPARK_VERSION = "4.1.4"
_RUNTIME = Jars(
    name=f"iceberg-spark-{ICEBERG_VERSION}",
    alone=(f"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:{ICEBERG_VERSION}",),
    megabytes=48,
)


def query(catalog: IcebergServer, sql: str) -> pa.Table:
    """What Spark returns for the last of these statements, in which the catalog is called ``lake``.

    Raises:
        ServiceError: it could not be fetched, or it refuses a statement.
    """
    folder = other_packages(
        f"spark-{SPARK_VERSION}-iceberg-{ICEBERG_VERSION}",
        [f"pyspark=={SPARK_VERSION}"],
        f"fetching Spark {SPARK_VERSION} for Iceberg once, 460 MB",
        _add_jars,
    )
    return ask(folder, __name__, {"url": catalog.url, "storage": catalog.storage, "sql": sql})


def compact(catalog: IcebergServer, namespace: str, table: str) -> dict[str, int]:
    """Let Spark write all files of the table anew, as few of each partition as possible; return what it counted.

    Raises:
        ServiceError: it could not be fetched, or it failed.
    """
    options = "map('rewrite-all', 'true')"
    sql = f"CALL lake.system.rewrite_data_files(table => '{namespace}.{table}', options => {options})"
    [counted] = query(catalog, sql).to_pylist()
    return dict(counted)


def _add_jars(folder: Path) -> None:
    """Add Iceberg; and put the Hadoop of our Spark in place of this one's, which does not run on Java 24 and later."""
    jars = folder / "pyspark" / "jars"
    for hadoop in jars.glob("hadoop-client-*.jar"):
        hadoop.unlink()
    ours = Path(pyspark.__file__).parent / "jars"
    aws = maven_jars(ICEBERG_JARS).glob("iceberg-aws-bundle-*.jar")
    for jar in (*ours.glob("hadoop-client-*.jar"), *aws, *maven_jars(_RUNTIME).iterdir()):
        shutil.copy2(jar, jars)


def _settings(url: str, storage: dict[str, str]) -> dict[str, str]:
    lake = "spark.sql.catalog.lake"
    return {
        lake: "org.apache.iceberg.spark.SparkCatalog",
        f"{lake}.type": "rest",
        f"{lake}.uri": url,
        f"{lake}.io-impl": "org.apache.iceberg.io.ResolvingFileIO",
        **{f"{lake}.{name}": value for name, value in storage.items()},
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.session.timeZone": "UTC",
    }


def _answer() -> None:
    asked = question()
    with (
        tempfile.TemporaryDirectory(prefix="reader-") as folder,
        reading_spark(Path(folder), master="local[2]", **_settings(asked["url"], asked["storage"])) as session,
    ):
        try:
            *changes, last = asked["sql"].split(";")
            for change in changes:
                session.sql(change)
            answer(session.sql(last).toArrow())
        except Exception as error:  # noqa: BLE001 - its message is known as long as the session lasts
            sys.exit(str(error))


if __name__ == "__main__":
    _answer()
