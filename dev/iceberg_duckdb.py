"""DuckDB on the tables of an Iceberg catalog.

Its extension for Iceberg does not come as a Python package for the DuckDB of requirements-dev.txt yet. So a process of
its own runs the newest one that has it.
"""

from urllib.parse import urlsplit

import duckdb
import pyarrow as pa

from dev.iceberg_catalog import IcebergServer
from dev.other_packages import answer, ask, other_packages, question

VERSION = "1.5.5"
_EXTENSIONS = ("avro", "httpfs", "iceberg")  # in the order in which they need each other


def query(catalog: IcebergServer, sql: str) -> pa.Table:
    """What DuckDB returns for the query, in which the catalog is called ``lake``.

    Raises:
        ServiceError: it could not be fetched, or it refuses the query.
    """
    packages = [f"duckdb=={VERSION}", *(f"duckdb-extension-{name}=={VERSION}" for name in _EXTENSIONS)]
    folder = other_packages(f"duckdb-{VERSION}-iceberg", packages, f"fetching DuckDB {VERSION} for Iceberg once")
    return ask(folder, __name__, {"url": catalog.url, "storage": catalog.storage, "sql": sql})


def _connect(url: str, storage: dict[str, str]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name in _EXTENSIONS:
        package = __import__(f"duckdb_extension_{name}")
        connection.load_extension(f"{package.__path__[0]}/extensions/v{VERSION}/{name}.duckdb_extension")
    if storage:
        endpoint = urlsplit(storage["s3.endpoint"])
        connection.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{storage['s3.access-key-id']}', "
            f"SECRET '{storage['s3.secret-access-key']}', REGION '{storage['client.region']}', "
            f"ENDPOINT '{endpoint.netloc}', URL_STYLE path, USE_SSL {endpoint.scheme == 'https'})"
        )
    connection.execute(f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{url}', AUTHORIZATION_TYPE none)")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _answer() -> None:
    asked = question()
    answer(_connect(asked["url"], asked["storage"]).sql(asked["sql"]).to_arrow_table())


if __name__ == "__main__":
    _answer()
