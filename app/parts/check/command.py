import contextlib
import json
import logging
import secrets
import shutil
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from pkgutil import resolve_name
from typing import Final

from quixstreams import Application
from quixstreams.models.topics import Topic, TopicManager

from app.config.settings import Settings
from app.consumer.errors import ROOT
from app.errors import ConfigError, FatalError, cut
from app.formatting import counted
from app.journal.journal import Journal, warn_of_other_groups
from app.kafka.group import check_members
from app.kafka.topics import Topics, check_topic_rights, listing_topics, new_admin, prefix_of
from app.monitoring.http_server import listen
from app.parts import KEY_WATCH, OBSERVERS, REGISTRY
from app.parts.check.check_runner import ANSWER_SECONDS, Check, as_json, line, run
from app.parts.check.rights import check_group_rights, check_sending
from app.parts.commands import print_line, warnings_alone
from app.parts.try_out.offline import AnyTopic
from app.parts.try_out.plan import Plan
from app.retries import Request, Waits
from app.service.formats import new_deserializer
from app.service.framework_lane import names_of_dataframes
from app.service.kafka_client import new_application, open_topic, what_is_written
from app.service.lake import new_catalog, new_lake, new_location, new_store
from app.service.lane_choice import choose_lane
from app.service.tables import topics_among
from app.service.user_transform import load_customised
from app.spark.java_process import ONE_COMPILER, START_SECONDS
from app.spark.scratch import scratch_folder
from app.spark.writer import SparkWriter
from app.storage.conditional import try_out
from app.storage.targets import LocalTarget
from app.table.existing_table import CatalogTable, TableLocation, likely_meant
from app.table.layout import TIME_COLUMNS

logger = logging.getLogger(__name__)

_BROKER_SECONDS: Final = 20.0  # shorter than at the start of the connector, because a person waits for the result
_TABLE_SECONDS: Final = 120.0  # long, because all files of a table without a stored schema are listed
_PLANNED: Final = 1_000  # records for the plan; with fewer records, a warning about a missing column may be wrong
_PLAN_SECONDS: Final = 120.0
_SHOWN: Final = 300  # maximum number of characters of an error message
_OF_TABLE: Final = frozenset({"topic", "catalog", "registry", "plan", "table"})
_SERVER: Final = "lake-sink"  # the HTTP header Server of a running connector
_PORT_SECONDS: Final = 5.0
_SPARK_SECONDS: Final = START_SECONDS + 10.0  # after Spark's time-out, whose error explains more


def check(settings: Settings, options: Namespace) -> int:
    """Test each system once, and return 1 if a check fails. Nothing remains, except a bucket of ``CREATE_BUCKET``."""
    begin = time.monotonic()
    failed, printed = 0, set[str]()
    with warnings_alone(in_answer=options.json) as warnings, contextlib.closing(_Attempts(settings)) as attempts:
        for warning in settings.warnings:
            logger.warning("%s", warning)
        for column in settings.spec.columns:
            _warn("HIVE_COLUMNS", column, TIME_COLUMNS, "go to the null folder")
        without = {*options.without}
        checks = (each for each in attempts.checks() if not {each.name, *each.needs} & without)
        for test, result in run(checks, [attempts.spark] if attempts.spark.name not in without else ()):
            new = [each.message for each in warnings.newest_first()[::-1] if each.message not in printed]
            printed.update(new)
            print_line(as_json(test, result, new) if options.json else line(test, result))
            failed += result.state == "FAIL"
    if not options.json:
        took = f"{time.monotonic() - begin:.1f} s"
        print_line(f"nothing failed, in {took}" if not failed else f"{counted(failed, 'failure')}, in {took}")
    return 1 if failed else 0


def _warn(setting: str, column: str, names: Iterable[str], outcome: str) -> None:
    if meant := likely_meant(column, names, setting):
        logger.warning("%s: rows without the field %s %s. %s", setting, column, outcome, meant)


class _Attempts:
    """Contains the function of each check. Later checks use the results of earlier checks."""

    _application: Application  # set after the broker was reached
    _prefix = ""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._ends = contextlib.ExitStack()
        self._scratch = self._ends.enter_context(scratch_folder())
        self._store = new_store(settings)
        self._catalog_table: CatalogTable | None = None
        self._location: TableLocation = new_location(settings, self._store, None)
        self._visible: Sequence[str] = ()  # all topics in the broker's list
        self._topics: Sequence[str] = () if settings.is_expression else settings.topics  # existing input topics
        self._topic: Topic | None = None
        self._spark: SparkWriter | None = None
        spark = f"{settings.spark_master}, heap {settings.memory.heap_mb:,} MB"
        self.spark = Check("spark", spark, self._start_spark, seconds=_SPARK_SECONDS)  # the slowest check

    def checks(self) -> Iterator[Check]:
        """Yield all checks except ``spark``, in the order of their needs. The checks of several tables are last."""
        settings = self._settings
        broker = settings.broker_address or "the Quix workspace"
        events, batches, registry = settings.stream_timeout_topic, settings.batch_topic, settings.registry_url
        catalog = settings.catalog and settings.catalog.url
        hook = settings.stream_timeout_ms and not events
        topic = "topics" if settings.has_several else "topic"
        plan_needs = (topic, "transform", "registry", "broker")
        table_needs = ("store", "catalog") if catalog else ("store",)
        every = [
            (settings.http_port, Check("port", f"HTTP_PORT={settings.http_port}", self._try_port)),
            (catalog, Check("catalog", str(catalog), self._ask_catalog)),  # may change the table's location
            (True, Check("broker", broker, self._reach_broker, seconds=_BROKER_SECONDS + ANSWER_SECONDS)),
            (True, Check(topic, settings.input_topic, self._open_topic, ("broker",))),
            (events, Check("silence", str(events), partial(self._find_topic, "STREAM_TIMEOUT_TOPIC"), ("broker",))),
            (batches, Check("batches", str(batches), partial(self._find_topic, "BATCH_TOPIC"), ("broker",))),
            (hook, Check("silence", "on_stream_timeout()", self._find_silence_hook)),
            (True, Check("group", settings.consumer_group, self._check_group, (topic, "broker"))),
            (True, Check("transform", "app/transform.py", self._build)),
            (registry, Check("registry", str(registry), self._find_latest_schema)),
            (topic == "topic", Check("plan", "by the newest records", self._plan, plan_needs, _PLAN_SECONDS)),
            (True, Check("store", settings.storage.uri, self._try_store)),
            (True, Check("table", settings.table, self._compare_table, table_needs, _TABLE_SECONDS)),
        ]
        for name, observer in OBSERVERS.items():
            if observer.check and (address := getattr(settings, observer.settings[0])):
                every.append((True, Check(name, address, partial(resolve_name(observer.check), settings))))
        several = _OF_TABLE if settings.has_tables else ()
        yield from (check for is_used, check in every if is_used and check.name not in several)
        for of_topic in (settings.of_topic(topic.removeprefix(self._prefix)) for topic in self._topics if several):
            attempts = copy(self)
            attempts._settings, attempts._location = of_topic, new_location(of_topic, self._store, None)
            yield from (replace(check, table=of_topic.table) for check in attempts.checks() if check.name in _OF_TABLE)

    def close(self) -> None:
        if self._spark:
            self._spark.close()
        self._ends.close()

    # --- Kafka ------------------------------------------------------------------------------------------------------

    def _reach_broker(self) -> str:
        self._application = new_application(Application, self._settings, self._location, self._scratch)
        ask = listing_topics(self._application.config.broker_address)
        self._visible = Waits().retry(Request("Kafka"), ask, give_up_seconds=_BROKER_SECONDS)
        own = [name for name in self._visible if not name.startswith("__")]
        return f"lists {counted(len(own), 'topic')}"

    def _open_topic(self) -> str:
        self._prefix = prefix_of(self._application)
        several = self._settings.has_several
        self._topics = topics_among(self._settings, self._visible, self._prefix) if several else ()
        if self._topics:
            return counted(len(self._topics), "topic")
        topic = open_topic(self._settings, self._application, self._visible)  # raises if no topic exists
        self._topic, self._topics = topic, [topic.name]
        return counted(topic.broker_config.num_partitions or 0, "partition")

    def _check_group(self) -> str:
        config = self._application.config
        group, admin = config.consumer_group, new_admin(config.broker_address)
        check_topic_rights(admin, *self._topics)
        new = "; no offset is committed yet" if check_group_rights(admin, group, self._topics) else ""
        ours = what_is_written(self._settings, self._location, self._prefix)
        check_members(admin, group, ours, self._topics, warns=False)
        return f"has the rights to read, and no member writes another table{new}"

    def _find_topic(self, variable: str) -> str:
        topic = open_topic(self._settings, self._application, self._visible, variable)
        connection = self._application.config.broker_address
        check_topic_rights(new_admin(connection), topic.name, right="Write")
        check_sending(connection)
        return "exists, and the user may write to it"

    def _build(self) -> str:
        customised = load_customised()
        lane = choose_lane(customised, self._settings)
        if not self._settings.stream_timeout_ms:
            self._find_silence_hook()  # warns if the function is never called
        if lane.is_stateless:
            return lane.why
        if self._topic is None:
            return "loads; the stream was not built, because that needs the topic"
        partitions = self._topic.broker_config.num_partitions or 1
        topics = TopicManager(AnyTopic(partitions), self._settings.consumer_group)
        application = new_application(
            Application, self._settings, self._location, self._scratch, broker_address="offline", topic_manager=topics
        )
        given, read = topics.topic(self._topic.name), names_of_dataframes(application)
        customised.build(application.dataframe(given), application)
        if not self._application.is_quix_app:  # on the platform, the user has all rights
            self._check_rights(topics, read)
        others = ", ".join(name for name in topics.all_topics if name != given.name)
        return f"builds a stream; these topics are created if missing: {others}" if others else "builds a stream"

    def _check_rights(self, topics: TopicManager, read: Collection[str]) -> None:
        """Check the stream's rights to read and write its topics. Topics of quixstreams need both rights."""
        assert self._topic is not None, "it was opened before"  # noqa: S101
        connection = self._application.config.broker_address
        admin, regular = new_admin(connection), topics.topics.keys()
        if topics.all_topics.keys() - regular:
            Topics.derive_topic_config([self._topic])
        for name in topics.all_topics:
            if name in read or name not in regular:
                check_topic_rights(admin, name)
            if name not in read:
                check_topic_rights(admin, name, right="Write")
        if topics.all_topics.keys() - read:
            check_sending(connection)

    def _plan(self) -> str:
        if not choose_lane(load_customised(), self._settings).is_untouched:
            return "skipped, because transform() is edited: run `python main.py try --topic`"
        table = ["--table", self._settings.table]
        command = [sys.executable, str(ROOT / "main.py"), "try", "--topic", str(_PLANNED), "--json", *table]
        process = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        doing = "planning by the newest records"
        try:
            plan = Plan(**json.loads(process.stdout))
        except ValueError:
            raise FatalError(doing, cut(process.stderr.strip(), _SHOWN), "Run `python main.py try --topic`") from None
        if plan.records and plan.bad == plan.records:
            raise FatalError("reading the newest records", plan.short(), "Check the deserializers")
        return plan.short()

    def _find_silence_hook(self) -> str:
        hook, of_keys = load_customised().on_stream_timeout, new_deserializer("bytes")
        resolve_name(KEY_WATCH)(self._settings, hook, of_keys, self._ends)  # raises if hook is missing
        return "is defined"

    def _find_latest_schema(self) -> str:
        registry = resolve_name(REGISTRY)(self._settings, self._scratch)
        latest, subject = registry.latest(), registry.subject
        if latest is None:
            return f"answers; subject {subject} does not exist, but the producer may use another subject name"
        return f"{subject} is {latest}"

    # --- the lake ---------------------------------------------------------------------------------------------------

    def _ask_catalog(self) -> str:
        catalog = new_catalog(self._settings, self._store)
        assert catalog is not None, "one is set"  # noqa: S101
        self._catalog_table = catalog.check()
        name = f"{self._settings.catalog_namespace}.{self._settings.table}"
        if self._catalog_table is None:
            return f"authorised; table {name} does not exist yet"
        self._location = new_location(self._settings, self._store, self._catalog_table)
        return f"authorised; table {name} exists at {self._catalog_table.location or self._location.uri}"

    def _try_store(self) -> str:
        root = self._settings.root if self._settings.has_tables else self._location.root
        folder = f"{root}/_check-{secrets.token_hex(8)}"
        if isinstance(storage := self._settings.storage, LocalTarget):  # other stores have no folders
            path = storage.folder / folder
            self._ends.callback(_remove, path, [parent for parent in path.parents if not parent.exists()])
        self._store.connect(f"{folder}/")
        try_out(self._store, f"{folder}/")
        role = f", as {self._settings.s3_role_arn}" if self._settings.s3_role_arn else ""
        return f"a test object was written, read, replaced, listed and deleted{role}"

    def _compare_table(self) -> str:
        lake = new_lake(self._settings, self._store, self._location, self._catalog_table)
        warn_of_other_groups(self._store, self._location.root, self._settings.consumer_group)
        journal = Journal(self._store, self._location.root, self._settings.consumer_group)
        for stored in journal.logs():  # a newer release may have written them
            journal.log(stored.key.rpartition("/")[-1].removesuffix(".json")).read()
        spec, schema, column = lake.spec, lake.schema.would_be(), lake.spec.timestamp_column
        if column not in {*schema.columns, *spec.order}:
            _warn("TIMESTAMP_COLUMN", column, schema.columns, "have the Kafka timestamp there")
        order = self._catalog_table.partitions if self._catalog_table else (*spec.order, *self._settings.transforms)
        partitions = ", ".join(order if spec.keeps_columns else spec.order)
        columns = f"partitioned by {partitions}" if partitions else "without partitions"
        return f"at {self._location.uri}, {columns}"

    # --- this machine -----------------------------------------------------------------------------------------------

    def _try_port(self) -> str:
        host, port = self._settings.http_host, self._settings.http_port
        try:
            listen(host, port).close()
        except ConfigError:
            if not _is_served_by_a_connector(host, port):
                raise
            return "is used by a connector that runs here; a second connector needs another port"
        return "is free"

    def _start_spark(self) -> str:
        self._spark = SparkWriter(self._settings.spark, self._scratch, java_options=[ONE_COMPILER])
        self._spark.start().result()
        return f"{self._spark.versions}; a small table was written in four parts"


def _is_served_by_a_connector(host: str, port: int) -> bool:
    closing = contextlib.closing(HTTPConnection(host, port, timeout=_PORT_SECONDS))
    with contextlib.suppress(OSError, HTTPException), closing as connection:
        connection.request("HEAD", "/health/live")
        return connection.getresponse().getheader("Server") == _SERVER
    return False


def _remove(folder: Path, parents: Sequence[Path]) -> None:
    """Remove a folder, and then its empty parent folders, from the innermost to the outermost."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        for parent in parents:
            parent.rmdir()
