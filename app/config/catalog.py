"""Variables of the catalog."""

import os
from typing import Annotated, Literal

from pydantic import BeforeValidator, PositiveFloat

from app.config import parsers as parse
from app.config.fields import Contradictions, env
from app.config.store import Url
from app.config.table import Table
from app.http_headers import fits_header
from app.parts import CATALOGS, CatalogKind

CatalogType = Literal["quix", "iceberg"]

_OF_PYICEBERG = "PYICEBERG_CATALOG__DEFAULT__"  # variables of the library, which it reads by itself


class Catalog(Table):
    # Injected by Quix Cloud
    platform_catalog_url: Url = env("Quix__Lakehouse__Catalog__Url")
    """The catalog, unless `CATALOG_URL` is set."""
    platform_catalog_token: str | None = env("Quix__Lakehouse__Catalog__AuthToken", secret=True)
    """Token for that catalog. The connector never sends it to another host."""
    platform_query_url: Url = env("Quix__Lakehouse__Query__Url")
    """The query API. It is told of new files, once they are in the catalog."""
    platform_query_token: str | None = env("Quix__Lakehouse__Query__AuthToken", secret=True)
    """Token for the query API."""

    catalog_type: CatalogType = env("CATALOG_TYPE", "quix")
    """`quix`: plain folders, in the catalog of Quix if there is one. `iceberg`: a table of an Iceberg catalog."""
    catalog_url: Url = env("CATALOG_URL")
    """Address of the REST catalog that registers the files. Empty: the catalog of the Quix workspace, if it has one."""
    catalog_auth_token: str | None = env("CATALOG_AUTH_TOKEN", secret=True)
    """Bearer token for the catalog."""
    catalog_client_id: str | None = env("CATALOG_CLIENT_ID", only_with="CATALOG_TYPE=iceberg")
    """Client id of the OAuth2 login at an Iceberg catalog."""
    catalog_client_secret: str | None = env("CATALOG_CLIENT_SECRET", secret=True, needed_with="CATALOG_CLIENT_ID")
    """Client secret of the OAuth2 login."""
    catalog_warehouse: str | None = env("CATALOG_WAREHOUSE", only_with="CATALOG_TYPE=iceberg")
    """Warehouse of the Iceberg catalog. Empty: its default."""
    snapshot_days: PositiveFloat = env("SNAPSHOT_DAYS", 1.0)
    """Days after which snapshots of an Iceberg table expire. At most the newest 1,000 are kept."""
    auto_discover: bool = env("AUTO_DISCOVER", True)
    """Create the table in the catalog and register files. `false`: only compare the catalog with the settings."""
    catalog_namespace: Annotated[str, BeforeValidator(parse.name)] = env("CATALOG_NAMESPACE", "default")
    """Namespace of the table in the catalog."""

    @property
    def catalog_kind(self) -> CatalogKind:
        return CATALOGS[self.catalog_type]

    def contradictions(self) -> Contradictions:
        yield from super().contradictions()
        if self.catalog_type == "iceberg":
            yield from self._contradictions_of_iceberg()
            return
        for entry in self.transforms:
            yield "HIVE_COLUMNS", f"must not hold {entry} without CATALOG_TYPE=iceberg: only Iceberg has transforms"

    def _contradictions_of_iceberg(self) -> Contradictions:
        if self.catalog_url is None and not any(name.startswith(_OF_PYICEBERG) for name in os.environ):
            yield "CATALOG_URL", f"must be set with CATALOG_TYPE=iceberg, unless {_OF_PYICEBERG}TYPE names a catalog"
        if self.catalog_client_id and self.catalog_auth_token:
            yield "CATALOG_AUTH_TOKEN", "must not be set with CATALOG_CLIENT_ID: one of them is the login"
        if self.catalog_auth_token and not fits_header(self.catalog_auth_token):
            yield "CATALOG_AUTH_TOKEN", "must be one word of visible ASCII, as it goes into a header"
        if not self.auto_discover:
            yield "AUTO_DISCOVER", "must be true with CATALOG_TYPE=iceberg: the catalog is the table"
        if self.null_partition != "auto":
            yield "NULL_PARTITION", "has no effect with CATALOG_TYPE=iceberg: a missing value is null"
        if any(name.startswith(parse.VIRTUAL_MARK) or "." in name for name in self.partitions):
            yield "HIVE_COLUMNS", "must have neither ~ nor dots in names with CATALOG_TYPE=iceberg"
        for variable, names in (("TIMESTAMP_COLUMN", (self.timestamp_column,)), ("COLUMN_TYPES", self.column_types)):
            if any("." in name for name in names):
                yield variable, "must have no dots in names with CATALOG_TYPE=iceberg"
        for entry in filter(parse.is_odd_transform, self.partitions):
            yield "HIVE_COLUMNS", f"must have {entry} in a form such as day(at), bucket(16,device) or truncate(3,code)"
