"""Limits what an Iceberg catalog, and whoever may alter the table, decides in this process.

pyiceberg imports and calls what a table's properties and the catalog's configuration name, takes every setting that a
catalog sends, and follows redirects with the login. Here only the user's own settings name code, hosts and logins.
"""

import logging
import time
from functools import partial
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

from pyiceberg.catalog import AVAILABLE_CATALOGS, URI, WAREHOUSE_LOCATION, Catalog, CatalogType
from pyiceberg.catalog.rest import NAMESPACE_SEPARATOR_PROPERTY, PREFIX, RestCatalog
from pyiceberg.io import PY_IO_IMPL, FileIO
from pyiceberg.table import TableProperties, locations
from pyiceberg.typedef import EMPTY_DICT, Properties

from app.errors import ConfigError, FatalError
from app.json_texts import MOST_BYTES
from app.parts.http.rest_client import REFUSAL_LIMIT, Patience, check_answer, read_answer
from app.parts.iceberg.store_io import ADDRESS, OWNS, STORE
from app.redaction import add_login, redact

logger = logging.getLogger(__name__)

_TAKEN: Final = (PREFIX, WAREHOUSE_LOCATION, NAMESPACE_SEPARATOR_PROPERTY)  # of a catalog's configuration
_ASKING: Final = "asking the Iceberg catalog"
_PATIENCE: Final = Patience(connect=10.0, read=60.0, whole=60.0)  # as long as a try waits
PROVIDER: Final = TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL


class RestrictedRestCatalog(RestCatalog):
    """A REST catalog whose configuration changes its paths, and nothing else."""

    def _fetch_config(self) -> None:
        own = self.properties
        super()._fetch_config()
        told, self.properties = self.properties, own
        self.properties |= {name: told[name] for name in _TAKEN if name in told}
        if urlsplit(self.uri)[:2] != urlsplit(own[URI])[:2]:
            address = redact(self.uri)
            logger.warning(
                "The Iceberg catalog names %s as its address. That is another host: set it yourself", address
            )
            self.uri = own[URI]

    def _config_headers(self, session: Any) -> None:
        super()._config_headers(session)
        session.hooks["response"].append(_check_answer)  # before the first request, which sends the client's secret
        session.request = partial(session.request, timeout=(_PATIENCE.connect, _PATIENCE.read))


def _check_answer(answer: Any, **_: Any) -> None:
    """Notes the login that was sent, refuses a redirect, which would take it to another address, and reads the body.

    A small compressed answer may need more memory than there is.
    """
    add_login(answer.request.headers.get("Authorization"))
    if answer.is_redirect:
        hint = f"Set CATALOG_URL to the address that answers itself; this one points to {answer.headers['Location']}"
        raise FatalError(_ASKING, f"it answered {answer.status_code}", hint)
    give_up = time.monotonic() + _PATIENCE.whole - answer.elapsed.total_seconds()
    answer._content = read_answer(answer, MOST_BYTES if answer.ok else REFUSAL_LIMIT, give_up)
    if answer.ok:
        check_answer(answer.content, MOST_BYTES, _ASKING, "CATALOG_URL")


def restrict(catalog: Catalog) -> Catalog:
    """Lets the catalog use the ``FileIO`` of the settings alone, whatever class and store a table names."""
    given = catalog.properties
    own = {name: given[name] for name in (PY_IO_IMPL, STORE, ADDRESS, OWNS) if name in given}
    load = catalog._load_file_io

    def load_own(properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        return load({**properties, **own}, location)

    vars(catalog)["_load_file_io"] = load_own
    return catalog


def refuse_provider(location_provider_impl: str, table_location: str, table_properties: Properties) -> NoReturn:  # noqa: ARG001
    """Refuses a table whose property names the code that places its metadata."""
    cause = f"its property {PROVIDER} is {location_provider_impl}"
    raise ConfigError(f"continuing the Iceberg table at {table_location}", cause, "Remove it: it would be run as code")


AVAILABLE_CATALOGS[CatalogType.REST] = lambda name, properties: RestrictedRestCatalog(name, **properties)
locations._import_location_provider = refuse_provider  # also where a table gets the property between two looks
