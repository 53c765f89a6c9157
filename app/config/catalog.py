"""The environment variables of the catalog."""

from pkgutil import resolve_name
from typing import Annotated, Literal

from pydantic import BeforeValidator, PositiveFloat

from app.config import parsers as parse
from app.config.fields import Contradictions, env
from app.config.store import Url
from app.config.table import Table
from app.parts import CATALOGS, CatalogKind

CatalogType = Literal["quix", "iceberg"]


class Catalog(Table):
    # Injected by Quix Cloud
    platform_catalog_url: Url = env("Quix__Lakehouse__Catalog__Url")
    """Address of the catalog. Used if `CATALOG_URL` is empty."""
    platform_catalog_token: str | None = env("Quix__Lakehouse__Catalog__AuthToken", secret=True)
    """Token for the catalog of Quix. The connector never sends this token to another host."""
    platform_query_url: Url = env("Quix__Lakehouse__Query__Url")
    """Address of the query API. The connector notifies this API when new files are in the catalog."""
    platform_query_token: str | None = env("Quix__Lakehouse__Query__AuthToken", secret=True)
    """Token for the query API."""

    catalog_type: CatalogType = env("CATALOG_TYPE", "quix")
    """`quix`: a table of folders, in the catalog of Quix if there is one. `iceberg`: a table of an Iceberg catalog."""
    catalog_url: Url = env("CATALOG_URL")
    """Address of the REST catalog that lists the files. Empty: the catalog of the Quix workspace, if there is one."""
    catalog_auth_token: str | None = env("CATALOG_AUTH_TOKEN", secret=True)
    """Bearer token for the catalog."""
    catalog_client_id: str | None = env("CATALOG_CLIENT_ID", only_with="CATALOG_TYPE=iceberg")
    """Client id for the OAuth2 login at an Iceberg catalog."""
    catalog_client_secret: str | None = env("CATALOG_CLIENT_SECRET", secret=True, needed_with="CATALOG_CLIENT_ID")
    """Client secret for the OAuth2 login."""
    catalog_warehouse: str | None = env("CATALOG_WAREHOUSE", only_with="CATALOG_TYPE=iceberg")
    """Warehouse of the Iceberg catalog. Empty: the catalog's default."""
    catalog_vended_credentials: bool = env("CATALOG_VENDED_CREDENTIALS", False)
    """Use keys for S3 that the Iceberg catalog issues for the folder of the table, instead of `AWS_ACCESS_KEY_ID`."""
    snapshot_days: PositiveFloat = env("SNAPSHOT_DAYS", 1.0)
    """Age in days at which snapshots of an Iceberg table expire. The table keeps at most 1,000 snapshots."""
    auto_discover: bool = env("AUTO_DISCOVER", True)
    """Create the table in the catalog, and register files. `false`: only compare the catalog with the settings."""
    catalog_namespace: Annotated[str, BeforeValidator(parse.name)] = env("CATALOG_NAMESPACE", "default")
    """Namespace of the table in the catalog."""

    @property
    def catalog_kind(self) -> CatalogKind:
        return CATALOGS[self.catalog_type]

    def contradictions(self) -> Contradictions:
        yield from super().contradictions()
        if contradictions := self.catalog_kind.contradictions:
            yield from resolve_name(contradictions)(self)
        if self.catalog_vended_credentials and not self.catalog_kind.new_lender:
            yield "CATALOG_VENDED_CREDENTIALS", "has no effect without CATALOG_TYPE=iceberg"
        for entry in () if self.catalog_kind.is_table else self.transforms:
            yield "HIVE_COLUMNS", f"must not contain {entry} without CATALOG_TYPE=iceberg: only Iceberg has transforms"
