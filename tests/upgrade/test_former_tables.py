"""A table of a former version is continued: each record is a row once, and no step of that version is left undone.

``dev/former_tables.py`` made the archives. Kafka receives the same records again. Their documents receive its new ids.
"""

import json
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from dev.broker import QUIET, Broker
from dev.connector import environment
from dev.former_tables import ARCHIVES, BAD, BUCKET, ICEBERG, NAMESPACE, Former, ids_of, version_of
from dev.iceberg_catalog import LocalIcebergCatalog
from dev.minio import LocalMinio
from tests.e2e.lake import Lake
from tests.e2e.scenario import Scenario, s3_store
from tests.services.main_process import run_main
from tests.support.iceberg_readers import pyiceberg_catalog

MORE = 50

pytestmark = pytest.mark.parametrize("archive", ARCHIVES, ids=version_of)


@pytest.fixture
def former(archive: Path, kafka: Broker, tmp_path: Path) -> Iterator[Callable[..., Former]]:
    """Brings the table of this name back, as the version left it."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, **QUIET})
    made: list[Former] = []

    def bring(name: str, **settings: str) -> Former:
        with tarfile.open(archive) as objects:
            described = json.loads(objects.extractfile("former.json").read())[name]  # type: ignore[union-attr]
            entries = [entry for entry in objects.getmembers() if entry.name.startswith(f"{name}/")]
            objects.extractall(tmp_path, entries, filter="data")
        (tmp_path / name).rename(tmp_path / "lake")
        scenario = Scenario(kafka, tmp_path, topic=described["topic"], group=described["group"])
        kafka.produce(scenario.topic, ((None, text, None, 0) for text in described["values"]))
        ids = [*zip(described["ids"], ids_of(scenario), strict=True)]
        for path in (tmp_path / "lake" / "data").glob(f"*/_journal/{scenario.group}/**/*.json"):
            body = path.read_text()
            for former_id, id_now in ids:
                body = body.replace(former_id, id_now)
            path.write_text(body)
        for record in (tmp_path / "lake" / "data").glob("*/_journal/compact-*.json"):
            os.utime(record, (0, 0))  # the run that was killed may not go on any more
        committed = [TopicPartition(scenario.topic, number, end) for number, end in enumerate(described["committed"])]
        request = ConsumerGroupTopicPartitions(scenario.group, committed)
        admin.alter_consumer_group_offsets([request])[scenario.group].result()
        made.append(Former(scenario, settings, described["values"]))
        return made[-1]

    yield bring
    for table in made:
        table.scenario.close()
        admin.delete_topics([table.scenario.topic])[table.scenario.topic].result()


def continued(table: Former) -> None:
    connector = table.start()
    table.write(connector, sites=4, count=MORE, bad=1)
    assert connector.stop() == 0
    assert not [line for line in connector.complaints() if "the dead letter" not in line]


def numbers(values: list[str]) -> list[int]:
    return [json.loads(text)["n"] for text in values if text != BAD]


def audited(table: Former) -> dict[str, Any]:
    command = run_main("audit", "--json", environment=environment({**table.settings, "input": table.scenario.topic}))
    assert command.returncode == 0, command.stderr
    report: dict[str, Any] = json.loads(command.stdout)
    assert [(each["doubled"], each["missing"]) for each in report["partitions"]] == [([], [])]
    return report


@pytest.mark.parametrize("name", ["stopped", "killed"])
def test_a_folder_of_files_is_continued(former: Callable[..., Former], name: str) -> None:
    table = former(name)
    continued(table)
    assert table.scenario.lake.numbers() == numbers(table.values)
    dead_letters = Lake(table.scenario.folder / "lake" / "data" / "_dead_letter" / table.scenario.topic)
    assert sum(pq.read_metadata(path).num_rows for path in dead_letters.files()) == table.values.count(BAD)
    assert audited(table)["folders_in_compaction"] == 0


@pytest.mark.java
def test_a_merge_that_was_cut_off_is_finished(former: Callable[..., Former]) -> None:
    table = former("merging")
    continued(table)
    assert audited(table)["folders_in_compaction"] == 1
    variables = environment({**table.settings, "input": table.scenario.topic})
    compact = run_main("compact", "--when-cold", "0h", environment=variables)
    assert compact.returncode == 0, compact.stderr
    assert any("data_merged_" in path.name for path in table.scenario.lake.files())
    assert table.scenario.lake.numbers() == numbers(table.values)
    assert audited(table)["folders_in_compaction"] == 0


@pytest.mark.parametrize("document", ["schema.json", "group-*/*/0.json", "group-*/generations.d/*.json"])
def test_a_document_of_a_later_version_ends_the_start_and_nothing_is_written(
    former: Callable[..., Former], document: str
) -> None:
    table = former("stopped")
    (path,) = (table.scenario.lake.folder / "_journal").glob(document)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 9, "new": True}))
    table.produce(sites=4, count=MORE)
    objects = {each: each.read_bytes() for each in filter(Path.is_file, table.scenario.lake.folder.rglob("*"))}
    connector = table.scenario.connector(table.settings)
    assert connector.wait() == 2
    refusal = "it has version 9, and this release of the connector reads up to "
    assert refusal in connector.log
    if document.endswith("*.json"):
        kafka = {
            "KAFKA_BOOTSTRAP_SERVERS": table.scenario.kafka.bootstrap_servers,
            "CONSUMER_GROUP": table.scenario.group,
        }
        variables = environment({**table.settings, **kafka, "input": table.scenario.topic})
        assert refusal in run_main("check", "--without", "spark", environment=variables).stdout
    assert {each: each.read_bytes() for each in filter(Path.is_file, table.scenario.lake.folder.rglob("*"))} == objects


def test_an_iceberg_table_is_continued(
    former: Callable[..., Former], iceberg_catalog: LocalIcebergCatalog, s3_server: LocalMinio
) -> None:
    table = former("iceberg", **ICEBERG, **s3_store(s3_server, BUCKET), CATALOG_URL=iceberg_catalog.url)
    lake = table.scenario.folder / "lake"
    client = s3_server.client()
    if BUCKET not in {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}:
        client.create_bucket(Bucket=BUCKET)
    for path in filter(Path.is_file, lake.rglob("*")):
        client.upload_file(str(path), BUCKET, path.relative_to(lake).as_posix())
    catalog = pyiceberg_catalog(iceberg_catalog)
    catalog.create_namespace_if_not_exists(NAMESPACE)
    newest = max((lake / "data" / table.scenario.topic / "metadata").glob("*.metadata.json"))
    uri = f"s3://{BUCKET}/{newest.relative_to(lake).as_posix()}"
    known = catalog.register_table((NAMESPACE, table.scenario.topic), uri)
    continued(table)
    rows = known.refresh().scan(selected_fields=("n",)).to_arrow()["n"].to_pylist()
    assert sorted(rows) == numbers(table.values)
    audited(table)
