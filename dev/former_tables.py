"""Writes the tables of a former version: ``python -m dev.former_tables <commit or tag>``.

The ``main.py`` of that version writes them, from a checkout. ``<commit or tag>.tar.xz`` then has all objects as the
version left them, and ``former.json``: the records, the ids of Kafka, and the offsets that the group has committed.
"""

import io
import json
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from app.storage.s3.store import S3Store
from dev.broker import QUIET
from dev.connector import REPO, environment
from dev.iceberg_catalog import LocalIcebergCatalog
from dev.kafka import LocalKafka
from dev.minio import LocalMinio
from tests.e2e.connector import ConnectorProcess
from tests.e2e.lake import copy
from tests.e2e.records import value
from tests.e2e.scenario import Scenario, s3_store

FOLDER = REPO / "tests" / "upgrade"
ARCHIVES = sorted(FOLDER.glob("*.tar.xz"))
BUCKET = "former-tables"
NAMESPACE = "former"
BASE = {"HIVE_COLUMNS": "site,year", "METADATA_COLUMNS": "__partition,__offset", "ON_BAD_RECORD": "dead-letter"}
ICEBERG = {"CATALOG_TYPE": "iceberg", "CATALOG_NAMESPACE": NAMESPACE}
BAD = "no JSON"
SITES = 60  # so many files are uploaded one after the other: some milliseconds to kill the process
MOST_TRIES = 20
_WORD = 100  # bytes: a record of a folder with nothing under way is shorter
_PAUSE = 0.0005  # seconds; what the process must not finish takes some milliseconds


def version_of(archive: Path) -> str:
    """Returns the commit or tag."""
    return archive.name.removesuffix(".tar.xz")


class Former:
    """One topic with its table, written by the version in ``tree``."""

    def __init__(
        self, scenario: Scenario, settings: Mapping[str, str], values: Sequence[str] = (), tree: Path = REPO
    ) -> None:
        self.scenario = scenario
        self.settings = {**BASE, **(settings or scenario.local_store)}
        self.values = [*values]
        self.tree = tree

    def start(self) -> ConnectorProcess:
        connector = self.scenario.connector(self.settings, root=self.tree)
        connector.wait_until_ready()
        return connector

    def produce(self, sites: int, count: int, bad: int = 0) -> None:
        first = len(self.values)
        rows = [value(n) | {"site": f"site-{n % sites}"} for n in range(first, first + count)]
        added = [*map(json.dumps, rows), *[BAD] * bad]
        self.scenario.produce((None, text, None, 0) for text in added)
        self.values += added

    def write(self, connector: ConnectorProcess, sites: int, count: int, bad: int = 0) -> None:
        self.produce(sites, count, bad)
        self.scenario.wait_until_committed(len(self.values), by=connector)

    def stop(self, connector: ConnectorProcess) -> None:
        if code := connector.stop():
            raise AssertionError(f"the connector ended with code {code}")

    def data_files(self) -> list[Path]:
        return sorted(self.scenario.lake.folder.glob("site=*/*/*.parquet"))


def stopped(table: Former) -> None:
    """Several batches, with dead letters, and the end of a normal stop."""
    connector = table.start()
    for _ in range(3):
        table.write(connector, sites=4, count=50, bad=1)
    table.stop(connector)


def killed(table: Former) -> None:
    """A batch of which some files are uploaded and some are not."""
    for _ in range(MOST_TRIES):
        connector = table.start()
        table.write(connector, sites=1, count=50)
        before = set(table.data_files())
        table.produce(sites=SITES, count=SITES)
        while set(table.data_files()) <= before:
            time.sleep(_PAUSE)
        connector.kill()
        if len(table.data_files()) < len(before) + SITES:
            return
    raise AssertionError("each batch was uploaded before the process was killed")


def merging(table: Former) -> None:
    """Small files that ``compact`` was replacing when it was killed."""
    for _ in range(MOST_TRIES):
        connector = table.start()
        for _ in range(3):
            table.write(connector, sites=4, count=20)
        table.stop(connector)
        variables = environment({**table.settings, "input": table.scenario.topic})
        command = [sys.executable, str(table.tree / "main.py"), "compact", "--when-cold", "0h"]
        with subprocess.Popen(command, env=variables) as compact:
            while not _is_merging(table) and compact.poll() is None:
                time.sleep(_PAUSE)
            compact.kill()
        if _is_merging(table):
            return
    raise AssertionError("each folder was merged before the process was killed")


def _is_merging(table: Former) -> bool:
    """Whether the record of a folder lists files; with nothing under way it is a word of 16 bytes."""
    records = (table.scenario.lake.folder / "_journal").glob("compact-*.json")
    return any(path.stat().st_size > _WORD for path in records)


def ids_of(scenario: Scenario) -> list[str]:
    """Returns Kafka's ids of the topic and of the cluster."""
    admin = AdminClient({"bootstrap.servers": scenario.kafka.bootstrap_servers, **QUIET})
    described = admin.describe_topics(TopicCollection([scenario.topic]))[scenario.topic].result()
    return [str(described.topic_id), str(scenario.kafka.cluster_id())]


def _described(table: Former) -> dict[str, Any]:
    scenario = table.scenario
    names = {"topic": scenario.topic, "group": scenario.group, "ids": ids_of(scenario)}
    return names | {"committed": scenario.committed(), "values": table.values}


TABLES: Mapping[str, Callable[[Former], None]] = {"stopped": stopped, "killed": killed, "merging": merging}


def main(version: str) -> None:
    with ExitStack() as ends:
        folder = Path(ends.enter_context(TemporaryDirectory()))
        tree = folder / "tree"
        subprocess.run(["git", "worktree", "add", "--detach", str(tree), version], cwd=REPO, check=True)
        ends.callback(subprocess.run, ["git", "worktree", "remove", "--force", str(tree)], cwd=REPO, check=True)
        kafka, minio = ends.enter_context(LocalKafka()), ends.enter_context(LocalMinio())
        minio.client().create_bucket(Bucket=BUCKET)
        catalog = ends.enter_context(LocalIcebergCatalog(f"s3://{BUCKET}", minio))
        described = {}
        with tarfile.open(FOLDER / f"{version}.tar.xz", "w:xz") as archive:
            for name, write in (*TABLES.items(), ("iceberg", stopped)):
                scenario = ends.enter_context(closing(Scenario(kafka, folder / name, java=True)))
                others = ICEBERG | s3_store(minio, BUCKET) | {"CATALOG_URL": catalog.url} if name == "iceberg" else {}
                table = Former(scenario, others, tree=tree)
                write(table)
                described[name] = _described(table)
                lake = folder / name / "lake"
                if name == "iceberg":
                    copy(S3Store(minio.target(BUCKET), max_workers=1), "", lake)
                archive.add(lake, name)
            body = json.dumps(described).encode()
            entry = tarfile.TarInfo("former.json")
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))


if __name__ == "__main__":
    main(*sys.argv[1:])
