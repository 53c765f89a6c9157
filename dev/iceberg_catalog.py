"""A private Iceberg REST catalog: the reference implementation, which the Iceberg project tests its clients with."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pyspark

from dev.java import find_java
from dev.maven_jars import Jars, maven_jars
from dev.minio import LocalMinio
from dev.server import NativeServer, answers_ok, free_ports

ICEBERG_VERSION = "1.11.0"
_JETTY = "11.0.25"
ICEBERG_JARS = Jars(
    name=f"iceberg-rest-{ICEBERG_VERSION}",
    with_all_they_need=(
        f"org.apache.iceberg:iceberg-core:{ICEBERG_VERSION}:tests",
        f"org.apache.iceberg:iceberg-aws:{ICEBERG_VERSION}",
        f"org.eclipse.jetty:jetty-servlet:{_JETTY}",
    ),
    alone=(
        f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG_VERSION}",
        "org.xerial:sqlite-jdbc:3.50.3.0",
        "org.slf4j:slf4j-simple:2.0.17",
    ),
    megabytes=97,
)
# Those that come with PySpark: a compiler, for the connector's Java has none; and the Hadoop that runs on this Java.
_OF_SPARK = ("janino-*", "commons-compiler-*", "hadoop-client-*")
_PROGRAM = Path(__file__).with_name("IcebergCatalogServer.java")


class IcebergServer(NativeServer):
    """An Iceberg REST catalog on a free port of 127.0.0.1.

    Args:
        warehouse: where tables lie that are made without a location: ``s3://bucket`` or ``file:///folder``.
        minio: the server of all buckets, if there are any.
        path: of the API in the address for clients, which is ``url``.
    """

    def __init__(self, warehouse: str, minio: LocalMinio | None = None, path: str = "") -> None:
        super().__init__()
        self._port = free_ports(1)[0]
        self.warehouse = warehouse
        self.minio = minio
        self._path = path
        self.url = f"http://127.0.0.1:{self._port}{path}"

    @property
    def settings(self) -> dict[str, str]:
        """The connector's variables for this catalog."""
        return {"CATALOG_URL": self.url}

    @property
    def properties(self) -> dict[str, str]:
        """PyIceberg's properties for this catalog and its buckets."""
        return {"type": "rest", "uri": self.url, **self.storage}

    @property
    def storage(self) -> dict[str, str]:
        """The properties by which Iceberg's own clients find the buckets; PyIceberg takes the same ones."""
        if self.minio is None:
            return {}
        return {
            "s3.endpoint": self.minio.endpoint_url,
            "s3.access-key-id": self.minio.access_key,
            "s3.secret-access-key": self.minio.secret_key,
            "s3.path-style-access": "true",
            "client.region": self.minio.region,
            "s3.region": self.minio.region,  # what Polars looks for
        }

    def _is_ready(self) -> bool:
        return self._is_answering(self._port)

    def _is_answering(self, port: int) -> bool:
        return answers_ok(f"http://127.0.0.1:{port}{self._path}/v1/config", timeout=5.0)


class LocalIcebergCatalog(IcebergServer):
    """The reference implementation. It keeps the tables' metadata where they lie."""

    name: ClassVar[str] = "iceberg-catalog"

    def _command(self) -> Sequence[str]:
        spark = Path(pyspark.__file__).parent / "jars"
        of_spark = sorted(str(jar) for name in _OF_SPARK for jar in spark.glob(f"{name}.jar"))
        return [
            *(find_java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            f"-Djava.io.tmpdir={self.folder}",  # SQLite unpacks its library there
            *("-cp", ":".join([f"{maven_jars(ICEBERG_JARS)}/*", *of_spark])),
            *("org.codehaus.janino.SimpleCompiler", str(_PROGRAM), _PROGRAM.stem, str(self._port)),
        ]

    def _environment(self) -> Mapping[str, str]:
        properties = {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": f"jdbc:sqlite:{self.folder / 'catalog.db'}",
            "jdbc.schema-version": "V1",
            "clients": "1",  # connections; SQLite refuses a second writer
            "warehouse": self.warehouse,
            "io-impl": "org.apache.iceberg.io.ResolvingFileIO",  # each table as the scheme of its location says
            **self.storage,
        }
        return {"CATALOG_PROPERTIES": "\n".join(f"{name}={value}" for name, value in properties.items())}
