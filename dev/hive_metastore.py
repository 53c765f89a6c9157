"""A private Hive metastore: the one that comes with PySpark, which keeps its tables in memory."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from socket import create_connection
from typing import ClassVar, Final
from xml.sax.saxutils import escape

import pyspark

from dev.iceberg_catalog import IcebergServer
from dev.java import find_java
from dev.maven_jars import maven_jars
from dev.minio import LocalMinio
from dev.other_packages import other_packages
from dev.spark_cluster import S3_JARS

VERSION: Final = "2.3.10"
_PROGRAM: Final = Path(__file__).with_name("HiveMetastoreServer.java")
_THRIFT: Final = "thrift==0.25.0"  # PyIceberg's extra ``hive``, which the connector does not bring
_PREFIX: Final = "PYICEBERG_CATALOG__DEFAULT__"


class LocalHiveMetastore(IcebergServer):
    """For tables in the bucket ``hive``. This process and the connector's can import ``thrift``."""

    name: ClassVar[str] = "hive-metastore"

    def __init__(self, minio: LocalMinio) -> None:
        super().__init__("s3://hive", minio)
        self._minio = minio
        self.url = f"thrift://127.0.0.1:{self._port}"
        self._packages = str(other_packages("thrift-0.25.0", [_THRIFT], "fetching Thrift once, 1 MB"))
        sys.path.append(self._packages)

    @property
    def settings(self) -> dict[str, str]:
        return {f"{_PREFIX}TYPE": "hive", f"{_PREFIX}URI": self.url, "PYTHONPATH": self._packages}

    @property
    def properties(self) -> dict[str, str]:
        return {"type": "hive", "uri": self.url, **self.storage}

    def _command(self) -> Sequence[str]:
        properties = {
            "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
            "datanucleus.schema.autoCreateAll": "true",
            "datanucleus.connectionPoolingType": "HikariCP",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": f"{self.folder}/warehouse",
            "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",  # it looks whether there is a table's folder
            "fs.s3a.endpoint": self._minio.endpoint_url,
            "fs.s3a.endpoint.region": self._minio.region,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": self._minio.access_key,
            "fs.s3a.secret.key": self._minio.secret_key,
        }
        lines = (
            f"<property><name>{name}</name><value>{escape(text)}</value></property>"
            for name, text in properties.items()
        )
        (self.folder / "hive-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
        jars = Path(pyspark.__file__).parent / "jars"
        return [
            *(find_java(), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-cp", f"{self.folder}:{jars}/*:{maven_jars(S3_JARS)}/*"),
            *("org.codehaus.janino.SimpleCompiler", str(_PROGRAM), _PROGRAM.stem, str(self._port)),
        ]

    def _environment(self) -> Mapping[str, str]:
        return {}

    def _is_ready(self) -> bool:
        try:
            create_connection(("127.0.0.1", self._port), timeout=5).close()
        except OSError:
            return False
        return True
