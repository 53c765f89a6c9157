"""Reads the addresses and logins of Quix's REST catalog and query API, and the table, from the settings."""

from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from app.config.settings import Settings


@dataclass(frozen=True, slots=True)
class QuixTarget:
    """A table in a REST catalog of Quix, or in the query API.

    Args:
        url: The base address without a slash at the end, for example ``https://catalog.example.com/api/v1``.
        token: The bearer token; ``None`` if not needed.
        workspace_id: The workspace of the table's topics; empty outside Quix Cloud.
        stats_columns: The columns whose bounds (zone maps) are sent; empty for all columns that can have bounds.
        query_api: The query API to notify of new files; ``None`` if files are not registered, or without a query API.
    """

    url: str
    token: str | None = field(repr=False)
    namespace: str
    table: str
    workspace_id: str = ""
    stats_columns: tuple[str, ...] = ()
    query_api: "QuixTarget | None" = None


def new_target(settings: Settings) -> QuixTarget | None:
    """Return the catalog; ``None`` if no catalog is set. The platform's token is only sent to the platform's host."""
    platform_url = settings.platform_catalog_url
    url, token = settings.catalog_url or platform_url, settings.catalog_auth_token
    if url is None:
        return None
    if token is None and platform_url and _origin(url) == _origin(platform_url):
        token = settings.platform_catalog_token
    namespace, workspace_id = settings.catalog_namespace, settings.workspace_id or ""
    target = QuixTarget(url, token, namespace, settings.table, workspace_id, settings.stats_columns)
    if settings.platform_query_url is None or not settings.auto_discover:
        return target
    query_api = replace(target, url=settings.platform_query_url, token=settings.platform_query_token)
    return replace(target, query_api=query_api)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
