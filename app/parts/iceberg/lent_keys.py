"""Requests keys for S3 from the Iceberg catalog ("vended credentials"), for the folder of the table.

From the catalog's answer, the connector uses only the keys and their end. The store's host, region and bucket are those
of the settings. Properties of the table, which other users may change, cannot contain keys.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import ACCESS_DELEGATION_DEFAULT, RestCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

from app.catalog.base import RestartError
from app.errors import ConfigError, ConnectorError, FatalError, RetryableError
from app.http_headers import fits_header
from app.parts.iceberg.catalog_address import IcebergTarget
from app.parts.iceberg.restricted_catalog import NAME, properties_with
from app.parts.iceberg.table import DEADLINE_SECONDS, translated
from app.redaction import add_login
from app.work_pool import WorkPool

_REUSE_SECONDS: Final = 2.0  # threads that wait for the same answer do not request keys one after the other
_LONGEST: Final = 16_384  # characters of a key or token
_FIELDS: Final = ("access-key-id", "secret-access-key", "session-token", "session-token-expires-at-ms")
_UNKNOWN_SECONDS: Final = 300  # if the answer does not contain the end of the keys
_LEAST_SECONDS: Final = 5  # botocore refuses keys that expire while it reads them
_MOST_SECONDS: Final = 12 * 3_600  # no token service issues keys for a longer time
_GRANT: Final = (
    "In the catalog, allow this login to write the table, and let the catalog issue credentials for the table. Or set "
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, without CATALOG_VENDED_CREDENTIALS"
)


class Lender:
    """Requests new keys, in the form of botocore. Only one thread may call an instance at a time."""

    def __init__(self, target: IcebergTarget) -> None:
        table = f"{target.namespace}.{target.table}"
        self._doing = f"requesting keys for the Iceberg table {table} from the catalog {target.url}"
        self._target = target
        self._catalogs: list[RestCatalog] = []
        self._last: Mapping[str, str] | ConnectorError = {}
        self._reuse_until = 0.0

    def __call__(self) -> Mapping[str, str]:
        if time.monotonic() >= self._reuse_until:
            answer = WorkPool("keys").submit(_request_keys, self._target, self._catalogs, self._doing)
            try:
                self._last = answer.result(DEADLINE_SECONDS)
            except TimeoutError:
                self._catalogs = []  # the thread may still use the former one
                self._last = RetryableError(self._doing, "no answer in time")
            except ConnectorError as error:
                self._last = error
            self._reuse_until = time.monotonic() + _REUSE_SECONDS
        if isinstance(self._last, ConnectorError):
            raise self._last.with_traceback(None)
        return self._last


def _request_keys(target: IcebergTarget, catalogs: list[RestCatalog], doing: str) -> Mapping[str, str]:
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
    access_key, secret_key, token, end = (str(lent.get(f"s3.{name}") or "") for name in _FIELDS)
    if not all(fits_header(each) and len(each) <= _LONGEST for each in (access_key, secret_key, token)):
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
