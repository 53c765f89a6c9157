"""ClickHouse on the tables of an Iceberg catalog: as a library for Python, in a process of its own."""

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog

from dev.iceberg_catalog import IcebergServer
from dev.other_packages import answer, ask, other_packages, question

VERSION = "4.4.0"


def query(catalog: IcebergServer, namespace: str, table: str, snapshot: int | None = None) -> pa.Table:
    """What ClickHouse returns for the whole table, with bytes for texts.

    Raises:
        ServiceError: it could not be fetched, or it refuses the table.
    """
    folder = other_packages(f"chdb-{VERSION}", [f"chdb=={VERSION}"], "fetching ClickHouse for Iceberg once, 150 MB")
    location = RestCatalog("lake", uri=catalog.url, **catalog.storage).load_table((namespace, table)).location()
    when = f", iceberg_snapshot_id = {snapshot}" if snapshot else ""
    storage = catalog.storage
    address = location.replace("s3:/", storage["s3.endpoint"])
    login = f"'{storage['s3.access-key-id']}', '{storage['s3.secret-access-key']}'"
    sql = f"SELECT * FROM icebergS3('{address}', {login}) SETTINGS output_format_arrow_string_as_string = 0{when}"  # noqa: S608
    return ask(folder, __name__, {"sql": sql})


def _answer() -> None:
    import chdb  # noqa: PLC0415 - in this process alone

    answer(chdb.query(question()["sql"], "ArrowTable"))


if __name__ == "__main__":
    _answer()
