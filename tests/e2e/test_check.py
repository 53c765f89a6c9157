"""``python main.py check`` against real services: when nothing is wrong, and with each of them wrong in turn."""

import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient

from app.table.schema import TableSchema
from dev.connector import REPO, customised, environment
from dev.minio import LocalMinio
from dev.server import free_ports
from tests.e2e.scenario import Scenario, s3_store
from tests.fakes.catalog_server import CatalogServer
from tests.services.main_process import run_main

SECRET = "do-not-show-me"
WITHOUT_SPARK = ("--without", "spark")
_LINE = re.compile(r"^(ok|FAIL|--) +(\w+) +(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Checked:
    """What was told: by name, the state and the rest of the line."""

    code: int
    output: str

    @property
    def told(self) -> dict[str, tuple[str, str]]:
        return {match[2]: (match[1], match[3]) for match in _LINE.finditer(self.output)}

    def failures(self, *names: str) -> dict[str, str]:
        """The messages of those that failed, which are these and no others; they made the code 1."""
        failed = {name: rest for name, (state, rest) in self.told.items() if state == "FAIL"}
        assert failed.keys() == {*names}, self.output
        assert self.code == 1
        assert "Traceback" not in self.output
        return failed


class Checker:
    """Runs the command with settings under which all is well, but for what a test changes."""

    def __init__(self, settings: dict[str, str], folder: Path) -> None:
        self.settings = settings
        self._folder = folder

    def __call__(self, *arguments: str, root: Path = REPO, **changed: str) -> Checked:
        scratch = self._folder / f"tmp-{uuid.uuid4().hex[:8]}"
        scratch.mkdir()
        variables = environment({**self.settings, "TMPDIR": str(scratch), **changed})
        done = run_main("check", *arguments, environment=variables, main=[str(root / "main.py")], folder=root)
        checked = Checked(done.returncode, done.stdout + done.stderr)
        assert SECRET not in checked.output
        assert [path.name for path in scratch.glob("quix-*")] == [], "its scratch folder is gone"
        return checked


@pytest.fixture
def catalog() -> Iterator[CatalogServer]:
    with CatalogServer() as server:
        yield server


@pytest.fixture
def check(scenario: Scenario, s3_server: LocalMinio, bucket: str, catalog: CatalogServer, tmp_path: Path) -> Checker:
    settings = {
        "input": scenario.topic,
        "KAFKA_BOOTSTRAP_SERVERS": scenario.kafka.bootstrap_servers,
        "CONSUMER_GROUP": scenario.group,
        "SPARK_DRIVER_MEMORY": "512m",
        "HTTP_PORT": str(free_ports(1)[0]),
        "CATALOG_URL": catalog.url,
        "CATALOG_AUTH_TOKEN": catalog.token,
        **s3_store(s3_server, bucket),
    }
    return Checker(settings, tmp_path)


def test_what_transform_builds_is_tried_and_no_topic_of_it_created(
    check: Checker, scenario: Scenario, s3_server: LocalMinio, bucket: str, tmp_path: Path
) -> None:
    schema = json.dumps(TableSchema({"timeStamp": pa.int64()}).to_document())
    s3_server.client().put_object(Bucket=bucket, Key=f"data/{scenario.topic}/_journal/schema.json", Body=schema)
    text = "def transform(sdf):\n    sdf = sdf.apply(lambda v, state: v, stateful=True)\n    return sdf.aply(print)\n"
    names = {"HIVE_COLUMNS": "Year", "TIMESTAMP_COLUMN": "timestamp"}
    checked = check(*WITHOUT_SPARK, root=customised(tmp_path / "tree", text), **names)
    assert "HIVE_COLUMNS: rows without the field Year" in checked.output
    assert re.search(r"TIMESTAMP_COLUMN: .*field timestamp.* Did you mean timeStamp\?", checked.output)
    failures = checked.failures("transform")
    assert (
        "AttributeError: 'StreamingDataFrame' object has no attribute 'aply' at app/transform.py:3"
        in (failures["transform"])
    )
    admin = AdminClient({"bootstrap.servers": scenario.kafka.bootstrap_servers})
    assert not [
        name for name in admin.list_topics(timeout=30).topics if name.startswith(f"changelog__{scenario.group}")
    ]


def test_all_is_well_and_nothing_is_left_behind(
    check: Checker, scenario: Scenario, s3_server: LocalMinio, bucket: str, catalog: CatalogServer
) -> None:
    events = f"events-{scenario.topic}"
    scenario.kafka.create_topic(events, 1)
    scenario.produce([("key", '{"ts_ms": 1, "place": "a"}', None, 0), ("key", "{", None, 0)])
    checked = check(HIVE_COLUMNS="year,place", STREAM_TIMEOUT_MS="1000", STREAM_TIMEOUT_TOPIC=events)

    assert checked.code == 0, checked.output
    assert {name: state for name, (state, _) in checked.told.items()} == dict.fromkeys(
        ["broker", "topic", "group", "silence", "transform", "plan", "catalog", "store", "table", "port", "spark"], "ok"
    )
    told = {name: re.sub(r"\d+\.\d\d s$", "… s", rest) for name, (_, rest) in checked.told.items()}
    assert told["topic"] == f"{scenario.topic}  1 partition  … s"
    assert re.match("by the newest records  records 2 of the newest: 1 row, 1 bad, 0 with values in ", told["plan"])
    assert told["store"] == f"s3://{bucket}  a test object was written, read, replaced, listed and deleted  … s"
    assert told["table"] == (
        f"{scenario.topic}  at s3://{bucket}/data/{scenario.topic}, partitioned by year, place  … s"
    )
    assert re.match(r"local\[\*\], heap 512 MB  Spark 4\.\S+ in Java \d+\S*; a small table was written", told["spark"])
    assert list(checked.told)[-1] == "spark"
    assert re.search(r"^nothing failed, in \d+\.\d s$", checked.output, re.MULTILINE)
    assert s3_server.secret_key not in checked.output
    assert catalog.token not in checked.output

    assert "Contents" not in s3_server.client().list_objects_v2(Bucket=bucket)
    assert [request.method for request in catalog.requests] == ["GET", "GET"]
    assert scenario.committed() == [0]


def test_of_several_topics_each_line_names_the_table_that_it_is_of(
    check: Checker, scenario: Scenario, s3_server: LocalMinio, bucket: str
) -> None:
    orders, payments = topics = scenario.topic, f"{scenario.topic}.payments"
    scenario.kafka.create_topic(payments, 2)
    scenario.produce([("key", '{"ts_ms": 1, "speed": 1.5}', None, 0)])
    scenario.kafka.produce(payments, [("key", "{", None, 0)])
    schema = json.dumps(TableSchema({"speed": pa.string()}).to_document())
    s3_server.client().put_object(Bucket=bucket, Key=f"data/raw_{payments}/_journal/schema.json", Body=schema)
    variables = {"input": ",".join([*topics, "typo"]), "TABLE_NAME": "raw_{topic}", "COLUMN_TYPES": "speed:double"}
    check.settings |= variables
    checked = check("--json", *WITHOUT_SPARK)
    told = [json.loads(line) for line in checked.output.splitlines()]
    states = {(each["check"], each.get("table")): each["state"] for each in told}
    named = [(name, f"raw_{topic}") for topic in topics for name in ("topic", "catalog", "plan", "table")]
    whole = [(name, None) for name in ("port", "broker", "topics", "group", "transform", "store")]
    assert states == dict.fromkeys([*whole, *named], "ok") | {
        (name, f"raw_{payments}"): "failed" for name in ("plan", "table")
    }
    (warning,) = (warning for each in told for warning in each["warnings"])
    assert warning.startswith("finding the input topic 'typo': it does not exist")
    assert warning.endswith("The connector reads the topic once it exists")
    details = {(each["check"], each.get("table")): each["detail"] for each in told}
    assert details["group", None].endswith("no offset is committed yet")
    assert details["plan", f"raw_{orders}"].startswith("records 1 of the newest: 1 row, 0 bad, ")
    assert "0 rows, 1 bad, " in details["plan", f"raw_{payments}"]
    assert checked.code == 1
