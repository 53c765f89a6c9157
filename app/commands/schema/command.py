"""``python main.py schema``: prints the statement with which an engine reads this table."""

from argparse import Namespace
from urllib.parse import urlsplit

import pyarrow as pa

from app.commands.output import print_line
from app.commands.schema.statements import Table, statement
from app.config.settings import Settings
from app.errors import ConfigError
from app.service.lake import CHECK_THE_NAME, new_catalog, new_lake, new_location
from app.service.stores import new_store
from app.storage.targets import S3Target
from app.table.layout import RESCUED_COLUMN


def schema(settings: Settings, options: Namespace) -> int:
    """Print the statement for the columns that the table has now."""
    if settings.is_iceberg:
        raise ConfigError("reading the schema", "the table is in the Iceberg catalog", "Engines find its columns there")
    store = new_store(settings)
    catalog = new_catalog(settings, store)
    known = catalog.check() if catalog else None
    location = new_location(settings, store, known)
    lake = new_lake(settings, store, location, known)
    columns = lake.schema.would_be().columns
    if not columns:
        raise ConfigError("reading the schema", f"there is no table in {location.uri} yet", CHECK_THE_NAME)
    columns = {RESCUED_COLUMN: pa.string(), **columns}  # it may come with any file
    https = _https(settings, location.uri)
    print_line(statement(options.engine, Table(settings.table, location.uri, https, columns, lake.spec.columns)))
    return 0


def _https(settings: Settings, uri: str) -> str:
    """The table's address for engines that read S3 by HTTP; that of another store stays as it is."""
    target = settings.storage
    if not isinstance(target, S3Target):
        return uri
    parts = urlsplit(uri)
    if target.endpoint_url:
        return f"{target.endpoint_url}/{parts.netloc}{parts.path}"
    return f"https://{parts.netloc}.s3.{target.region}.amazonaws.com{parts.path}"
