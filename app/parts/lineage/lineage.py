"""Reports this run to an OpenLineage collector: START, RUNNING every ten minutes, then COMPLETE, FAIL or ABORT.

Each event contains the topics, the tables with their columns, and the rows written since the last delivered event. A
separate thread sends the events, so records never wait for the collector. A lost event causes a warning.
"""

import logging
import os
import re
from datetime import UTC, datetime
from functools import cached_property
from threading import Event, Thread
from typing import Any

import pyarrow as pa
from openlineage.client import OpenLineageClient, event_v2, facet_v2
from openlineage.client.event_v2 import RunState
from openlineage.client.transport.http import HttpTransport
from openlineage.client.uuid import generate_new_uuid

from app import __version__
from app.config.settings import Settings
from app.errors import ConnectorError, cut, innermost, one_line
from app.monitoring.metrics import Counts, Totals
from app.parts.http.rest_client import Credentials, Patience, RestClient, Service
from app.redaction import add_secrets, redact
from app.service.connector import Connector, Lane
from app.service.lake import Lake
from app.storage.targets import AzureTarget, LocalTarget
from app.table.type_names import type_name

logger = logging.getLogger(__name__)

_EVERY_SECONDS = 600.0  # between two RUNNING events
_AGAIN_SECONDS = 60.0  # until the retry of an event that was not delivered
_STOP_SECONDS = 2.0
_PATIENCE = Patience(connect=5.0, read=5.0, whole=5.0)
_SECRET = re.compile("OPENLINEAGE__.*(KEY|SECRET|AUTH|HEADERS.*)")

event_v2.set_producer(f"urn:quix-ts-datalake-sink:{__version__}")


class Lineage(Thread):
    """Reports the run in the ``with`` block of this object. Each event lists the tables that are open at that time."""

    def __init__(self, connector: Connector, lane: Lane) -> None:
        super().__init__(name="lineage", daemon=True)
        self._settings, self._lakes = connector.settings, connector.lakes
        brokers = lane.application.config.broker_address.bootstrap_servers
        self._topics, self._broker = dict.fromkeys(lane.topics), f"kafka://{brokers.partition(',')[0]}"
        self._counts = connector.runtime.metrics.counts
        self._id, self._reported = str(generate_new_uuid()), dict[str, Totals]()
        self._state, self._is_failing = RunState.START, False
        self._over = Event()
        self._error: BaseException | None = None

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._error = error
        self._over.set()
        self.join(_STOP_SECONDS)

    def run(self) -> None:
        while not self._over.wait(_EVERY_SECONDS if self._send(self._state) else _AGAIN_SECONDS):
            pass
        state, facets, why = RunState.COMPLETE, dict[str, Any](), self._error
        if why:
            state = RunState.FAIL if isinstance(why, Exception) else RunState.ABORT
            text = redact(str(why)) if isinstance(why, ConnectorError) else type(why).__name__  # without values
            facets["errorMessage"] = facet_v2.error_message_run.ErrorMessageRunFacet(text, "PYTHON")
        if self._send(state, facets):
            self._client.close(_STOP_SECONDS)

    def _send(self, state: RunState, facets: Any = None) -> bool:
        """Send an event for this state. Return whether the event was delivered."""
        settings, counts, lakes = self._settings, self._counts(), dict(self._lakes)
        self._topics |= dict.fromkeys(tp.topic for tp in counts.positions)
        of_tables = {**counts.of_tables, settings.table: counts}  # for several tables, table is a template
        totals = {table: of_tables.get(table, Counts()).totals for table in lakes}
        kind = facet_v2.job_type_job.JobTypeJobFacet("BATCH" if settings.until else "STREAMING", "QUIX", "CONNECTOR")
        name = f"{settings.consumer_group}.{settings.table}"
        event = event_v2.RunEvent(
            eventType=state,
            eventTime=datetime.now(UTC).isoformat(),
            run=event_v2.Run(self._id, facets),
            job=event_v2.Job(settings.lineage_namespace, name, {"jobType": kind}),
            inputs=[event_v2.InputDataset(self._broker, topic) for topic in self._topics],
            outputs=[self._output(table, lake, totals[table]) for table, lake in lakes.items()],
        )
        doing = f"reporting this run to {settings.lineage_url}"
        try:
            self._client.emit(event)
        except Exception as error:  # noqa: BLE001 - of any transport
            level = logging.DEBUG if self._is_failing else logging.WARNING
            why = cut(one_line(f"{type(error).__name__}: {innermost(error)}"), 300)
            logger.log(level, "%s: %s. This does not affect the records", doing, why)
            self._is_failing = True
            return False
        if self._is_failing:
            logger.info("%s: it works again", doing)
        self._reported, self._state, self._is_failing = totals, RunState.RUNNING, False
        return True

    def _output(self, name: str, lake: Lake, totals: Totals) -> event_v2.OutputDataset:
        """Return the dataset of a table with columns. The table's name in the catalog is a symlink to the folder."""
        target, table, catalog = self._settings.storage, lake.location, self._settings.catalog
        before = self._reported.get(name, Totals())
        written = facet_v2.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            totals.rows - before.rows, totals.size - before.size, totals.files - before.files
        )
        columns = {**lake.schema.current.columns, **dict.fromkeys(lake.spec.columns, pa.string())}
        facets: dict[str, Any] = {"schema": facet_v2.schema_dataset.SchemaDatasetFacet(_fields(pa.struct(columns)))}
        if catalog and "://" in catalog.url:
            in_catalog = f"{self._settings.catalog_namespace}.{name}"
            link = facet_v2.symlinks_dataset.Identifier(catalog.url, in_catalog, "TABLE")
            facets["symlinks"] = facet_v2.symlinks_dataset.SymlinksDatasetFacet([link])
        names = target.dfs_uri if isinstance(target, AzureTarget) else target.uri, table.root
        if isinstance(target, LocalTarget):
            names = "file", table.uri.removeprefix("file://")
        return event_v2.OutputDataset(*names, {"outputStatistics": written}, facets=facets)

    @cached_property
    def _client(self) -> OpenLineageClient:
        """The client for the settings and for OpenLineage's variables. Logins in these variables are hidden in logs."""
        add_secrets(*(value for name, value in os.environ.items() if _SECRET.fullmatch(name)))
        settings, config = self._settings, dict[str, Any](facets={"source_code_location": {"disabled": True}})
        if "OPENLINEAGE__TRANSPORT__TYPE" not in os.environ:
            transport = {"type": "http", "url": f"{settings.lineage_url}/", "endpoint": settings.lineage_endpoint}
            login = {"auth": {"type": "api_key", "apiKey": settings.lineage_key}} if settings.lineage_key else {}
            config["transport"] = {**transport, **login, "retry": {"total": 0}}
        client = _Client(config=config)
        if isinstance(client.transport, HttpTransport):
            client.transport.session.stream = True  # otherwise a huge answer is read
            client.transport.session.hooks["response"].append(_refuse_redirect)
        return client


class _Client(OpenLineageClient):
    @staticmethod
    def _find_yaml_config_path() -> str | None:
        """Ignore a configuration file in the working directory, because this file could name code to load."""
        return os.environ.get("OPENLINEAGE_CONFIG")


def ask(settings: Settings) -> str:
    """Return a text that says whether the collector answers. No event is sent, because an event would create a run."""
    url, service = str(settings.lineage_url), Service("the collector", "OPENLINEAGE_URL", "OPENLINEAGE_API_KEY")
    client = RestClient(service, url, Credentials(settings.lineage_key))
    try:
        client.ask("GET", f"/{settings.lineage_endpoint}", f"asking {url}", patience=_PATIENCE)
    except ConnectorError as error:
        logger.warning("%s. This does not affect the records", str(error).rstrip("."))
        return "does not answer like a collector; this does not affect the records"
    return "answers"


def _refuse_redirect(answer: Any, **_: Any) -> None:
    if answer.is_redirect:  # after a redirect, the client would lose the event
        answer.close()
        raise OSError(f"it answers {answer.status_code} and redirects to {answer.headers['Location']}")


def _fields(kind: pa.DataType) -> list[facet_v2.schema_dataset.SchemaDatasetFacetFields]:
    new, fields = facet_v2.schema_dataset.SchemaDatasetFacetFields, kind if pa.types.is_struct(kind) else ()
    return [new(each.name, type_name(each.type), fields=_fields(each.type)) for each in fields]
