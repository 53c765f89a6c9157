"""Protects this process from the Iceberg catalog, and from users who can change the table's properties.

pyiceberg runs code that is named in the table's properties or in the catalog's configuration. pyiceberg also sends the
login to redirected addresses. With this module, only the connector's settings choose code, hosts and logins.
"""

import logging
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

from pyiceberg.catalog import AVAILABLE_CATALOGS, URI, WAREHOUSE_LOCATION, Catalog, CatalogType
from pyiceberg.catalog.rest import NAMESPACE_SEPARATOR_PROPERTY, PREFIX, RestCatalog
from pyiceberg.io import PY_IO_IMPL, FileIO
from pyiceberg.table import TableProperties, locations
from pyiceberg.typedef import EMPTY_DICT, Properties
from pyiceberg.utils.config import Config

from app.errors import ConfigError, FatalError
from app.json_texts import MOST_BYTES
from app.parts.http.rest_client import REFUSAL_LIMIT, Patience, check_answer, read_answer
from app.parts.iceberg.store_io import ADDRESS, OWNS, STORE
from app.redaction import add_login, add_secrets, redact

logger = logging.getLogger(__name__)

_ACCEPTED: Final = (PREFIX, WAREHOUSE_LOCATION, NAMESPACE_SEPARATOR_PROPERTY)  # settings that the catalog may send
_ASKING: Final = "asking the Iceberg catalog"
_PATIENCE: Final = Patience(connect=10.0, read=60.0, whole=60.0)  # seconds; ``whole`` equals the deadline of a try
PROVIDER: Final = TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL
NAME: Final = "default"  # the catalog in pyiceberg's variables: PYICEBERG_CATALOG__DEFAULT__…


def properties_with(properties: Mapping[str, str], delegation: str | None) -> dict[str, Any]:
    """Return the properties of a catalog that the variables of pyiceberg do not override. Hide the logins in logs.

    ``delegation`` is the kind of credentials to request from the catalog. Some catalogs issue no credentials.
    """
    own: dict[str, Any] = {**properties, "header.x-iceberg-access-delegation": delegation}
    users = {name.lower(): value for name, value in (Config().get_catalog_config(NAME) or {}).items()}
    for text in ({**own, **users}.get(name) for name in ("token", "credential")):
        add_secrets(str(text or "").partition(":")[2] or text)  # a client id is not a secret
    return {name: value for name, value in own.items() if name not in users}


class RestrictedRestCatalog(RestCatalog):
    """A REST catalog that can change only paths when it sends its configuration."""

    def _fetch_config(self) -> None:
        own = self.properties
        super()._fetch_config()
        configured, self.properties = self.properties, own
        self.properties |= {name: configured[name] for name in _ACCEPTED if name in configured}
        if urlsplit(self.uri)[:2] != urlsplit(own[URI])[:2]:
            warning = "The Iceberg catalog's configuration names another host, %s. To use it, set CATALOG_URL"
            logger.warning(warning, redact(self.uri))
            self.uri = own[URI]

    def _config_headers(self, session: Any) -> None:
        super()._config_headers(session)
        session.hooks["response"].append(_check_answer)  # is called from the first request on, which sends the secret
        session.request = partial(session.request, timeout=(_PATIENCE.connect, _PATIENCE.read))


def _check_answer(answer: Any, **_: Any) -> None:
    """Hide the login in logs, refuse a redirect (pyiceberg would send the login to that address), and read the body.

    The size of the decompressed body is limited, because a small compressed answer may need too much memory.
    """
    add_login(answer.request.headers.get("Authorization"))
    if answer.is_redirect:
        hint = f"Set CATALOG_URL to the final address; this address redirects to {answer.headers['Location']}"
        raise FatalError(_ASKING, f"it answered {answer.status_code}", hint)
    deadline = time.monotonic() + _PATIENCE.whole - answer.elapsed.total_seconds()
    answer._content = read_answer(answer, MOST_BYTES if answer.ok else REFUSAL_LIMIT, deadline)
    if answer.ok:
        check_answer(answer.content, MOST_BYTES, _ASKING, "CATALOG_URL")


def restrict(catalog: Catalog) -> Catalog:
    """Make the catalog use only the ``FileIO`` of the settings. Ignore the class and store in a table's properties."""
    own = {name: catalog.properties[name] for name in (PY_IO_IMPL, STORE, ADDRESS, OWNS) if name in catalog.properties}
    load = catalog._load_file_io

    def load_own(properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        return load({**properties, **own}, location)

    vars(catalog)["_load_file_io"] = load_own
    return catalog


def refuse_provider(location_provider_impl: str, table_location: str, table_properties: Properties) -> NoReturn:  # noqa: ARG001
    """Raise ``ConfigError`` for a table with a property that names code. The code would choose file locations."""
    cause = f"its property {PROVIDER} is {location_provider_impl}, which would be run as code"
    raise ConfigError(f"continuing the Iceberg table at {table_location}", cause, "Remove this property")


AVAILABLE_CATALOGS[CatalogType.REST] = lambda name, properties: RestrictedRestCatalog(name, **properties)
locations._import_location_provider = refuse_provider  # if somebody sets the property after the check
