"""Address and login of the REST catalog of Quix and of the query API, and the table in them, by the settings."""

from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from app.config.settings import Settings


@dataclass(frozen=True, slots=True)
class QuixTarget:
    """A table in a REST catalog of Quix, or at the query API.

    Args:
        url: the base address without a slash at its end, e.g. ``https://catalog.example.com/api/v1``.
        token: the bearer token, if there is one.
        workspace_id: of the topics that feed the table; empty outside Quix Cloud.
        stats_columns: the only columns whose bounds are sent (zone maps); empty for all that can have them.
        query_api: to notify of new files, if any are registered and the platform names one.
    """

    url: str
    token: str | None = field(repr=False)
    namespace: str
    table: str
    workspace_id: str = ""
    stats_columns: tuple[str, ...] = ()
    query_api: "QuixTarget | None" = None


def new_target(settings: Settings) -> QuixTarget | None:
    """The catalog to register in, if there is one. The platform's token is sent only to the platform's host."""
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
