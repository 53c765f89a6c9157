"""Finds the addresses that the user names, and that logins and records go to unencrypted."""

from urllib.parse import urlsplit

from app.config.catalog import CatalogVariables
from app.container import OWN_ADDRESS
from app.storage.targets import AzureTarget, S3Target, StorageTarget


def unencrypted(settings: CatalogVariables, storage: StorageTarget) -> list[str]:
    """Returns the variables. What the platform injects is in its own network, and no choice of the user's."""
    store = None if settings.uses_platform_storage else storage
    brokers = settings.bootstrap_servers if settings.security_protocol == "SASL_PLAINTEXT" else None
    addresses = {
        "KAFKA_BOOTSTRAP_SERVERS": brokers and f"http://{brokers}".replace(",", " http://"),
        "KAFKA_OAUTH_TOKEN_URL": settings.oauth_token_url,
        "SCHEMA_REGISTRY_URL": (settings.registry_password or settings.registry_token) and settings.registry_url,
        "AWS_ENDPOINT_URL": store.endpoint_url if isinstance(store, S3Target) else None,
        "AZURE_ENDPOINT_URL": store.endpoint_url if isinstance(store, AzureTarget) else None,
        "CATALOG_URL": (settings.catalog_auth_token or settings.catalog_client_secret) and settings.catalog_url,
    }
    return [name for name, found in addresses.items() if any(map(_is_plain, (found or "").split()))]


def _is_plain(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme == "http" and OWN_ADDRESS.fullmatch(parts.hostname or "") is None
