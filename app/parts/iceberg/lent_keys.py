"""Requests keys for S3 from the Iceberg catalog ("vended credentials"), for the folder of the table.

From the catalog's answer, the connector uses only the keys and their end. The store's host, region and bucket are those
of the settings. Properties of the table, which other users may change, cannot contain keys.
"""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import ACCESS_DELEGATION_DEFAULT, RestCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

from app.catalog.base import RestartError
from app.errors import ConfigError, FatalError, RetryableError
from app.http_headers import fits_header
from app.parts.iceberg.catalog_address import IcebergTarget
from app.parts.iceberg.restricted_catalog import NAME, properties_with
from app.parts.iceberg.table import translated
from app.redaction import add_login

_FIELDS: Final = ("access-key-id", "secret-access-key", "session-token", "session-token-expires-at-ms")
_UNKNOWN_SECONDS: Final = 300  # if the answer does not contain the end of the keys
_LEAST_SECONDS: Final = 5  # botocore refuses keys that expire while it reads them
_MOST_SECONDS: Final = 12 * 3_600  # no token service issues keys for a longer time
_GRANT: Final = (
    "In the catalog, allow this login to write the table, and let the catalog issue credentials for the table. Or set "
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, without CATALOG_VENDED_CREDENTIALS"
)


def new_lender(target: IcebergTarget) -> Callable[[], Mapping[str, str]]:
    """Return a function that requests new keys, in the form of botocore. Only one thread may call the function."""
    return partial(_request_keys, target, [])


def _request_keys(target: IcebergTarget, catalogs: list[RestCatalog]) -> Mapping[str, str]:
    table = f"{target.namespace}.{target.table}"
    doing = f"requesting keys for the Iceberg table {table} from the catalog {target.url}"
    try:
        if not catalogs:
            catalogs.append(_new_catalog(target, doing))
        answer: Any = catalogs[0].load_table((*target.namespace.split("."), target.table))
    except (NoSuchTableError, NoSuchNamespaceError):
        raise RestartError(doing, "the table is missing", "A start of the connector creates it") from None
    except Exception as error:  # noqa: BLE001 - of the catalog's library
        raise translated(doing, error) from None
    folder = f"{answer.metadata.location.rstrip('/')}/"
    lent = {**answer.config, **RestCatalog._resolve_storage_credentials(answer.storage_credentials, folder)}
    access_key, secret_key, token, end = (str(lent.get(f"s3.{name}", "")) for name in _FIELDS)
    if not all(map(fits_header, (access_key, secret_key, token))):
        raise FatalError(doing, "the answer contains no temporary keys for S3", _GRANT)
    for secret in (secret_key, token):
        add_login(f"Bearer {secret}")
    seconds = min(float(end) / 1_000 - time.time(), _MOST_SECONDS) if end.isdecimal() else _UNKNOWN_SECONDS
    if seconds < _LEAST_SECONDS:
        raise RetryableError(doing, "the catalog has issued keys that have expired", "Set the clocks of all machines")
    end_of_keys = datetime.fromtimestamp(time.time() + seconds, UTC).isoformat()
    return {"access_key": access_key, "secret_key": secret_key, "token": token, "expiry_time": end_of_keys}


def _new_catalog(target: IcebergTarget, doing: str) -> RestCatalog:
    catalog = load_catalog(NAME, **properties_with(target.properties, ACCESS_DELEGATION_DEFAULT))
    if not isinstance(catalog, RestCatalog):
        raise ConfigError(doing, "only REST catalogs issue keys", "Remove CATALOG_VENDED_CREDENTIALS")
    vars(catalog)["_response_to_table"] = lambda _, answer: answer  # a table would mix in its properties
    return catalog
