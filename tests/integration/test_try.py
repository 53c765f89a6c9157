"""``python main.py try``: what it needs, what it tells, and how mistakes in ``app/transform.py`` look."""

import io
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import fastavro
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

import app
from dev.broker import ADMIN_TIMEOUT, Broker
from dev.connector import REPO, customised, environment
from tests.services.main_process import run_main
from tests.support.commands import run_command
from tests.support.environment import load

GOOD = '{"ts_ms": 1704067200000, "n": 1}\n'


def run(
    tree: Path, *arguments: str, records: str | bytes = GOOD, **settings: str
) -> "subprocess.CompletedProcess[str]":
    """Nothing of the connector's is set but this."""
    main = [str(tree / "main.py")]
    return run_main(*arguments, environment=environment(settings), main=main, records=records, folder=tree)


Here = Callable[..., tuple[int, str, str]]


@pytest.fixture
def try_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Here]:
    """``try`` in this process: its exit code, what it prints and its errors. ``text`` is that of app/transform.py."""
    before = signal.getsignal(signal.SIGTERM)

    def run_it(*arguments: str, text: str = "", records: str | bytes = GOOD, **settings: str) -> tuple[int, str, str]:
        if text:
            (tmp_path / "transform.py").write_text(text)
            monkeypatch.setattr(app, "__path__", [str(tmp_path), *app.__path__])
            monkeypatch.setattr("app.consumer.errors.ROOT", tmp_path)
        monkeypatch.delitem(sys.modules, "app.transform", raising=False)
        monkeypatch.delattr(app, "transform", raising=False)
        given = io.BytesIO(records if isinstance(records, bytes) else records.encode())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(given))
        code = run_command(load(**settings), "try", *arguments)
        told = capsys.readouterr()
        return code, told.out, told.err

    yield run_it
    signal.signal(signal.SIGTERM, before)
    sys.modules.pop("app.transform", None)
    vars(app).pop("transform", None)  # else later tests would have this one


# A wrong app/transform.py, and the line of the one message.
MISTAKES = {
    "no return": ("def transform(sdf):\n    sdf = sdf[['n']]\n", r"it returned None\. End it with"),
    "a condition": (
        "def transform(sdf):\n    return sdf['n'] > 1\n",
        r"it returned <.*StreamingSeries.*a filter is `sdf = sdf\[condition\]`",
    ),
    "raises": (
        "def transform(sdf):\n    return sdf['a'] + UNITS\n",
        r"NameError: name 'UNITS' is not .*transform\.py:2",
    ),
    "exits": ("def transform(sdf):\n    raise SystemExit(3)\n", r"SystemExit: 3 at transform\.py:2"),
    "a wrong use": (
        "def transform(sdf):\n    return sdf[3]\n",
        r"TypeError: Unsupported key type .* at transform\.py:2",
    ),
    "syntax": ("def transform(sdf):\n    return sdf[\n", r"SyntaxError: .* \(transform\.py, line 2\)"),
    "import": ("import pandaz\n\n\ndef transform(sdf):\n    return sdf\n", r"ModuleNotFoundError: .*pandaz' at tr.*:1"),
    "no function": (
        "def transfrom(sdf):\n    return sdf\n",
        r"it has no function transform\. Define it as transform\(sdf\)",
    ),
    "arguments": ("def transform():\n    return 1\n", r"TypeError: transform\(\) takes 0 positional arguments"),
    "more arguments": ("def transform(sdf, app, more):\n    return sdf\n", r"missing 1 required .* argument: 'more'"),
    "a hook that is none": (
        "def transform(sdf):\n    return sdf\n\n\non_stream_timeout = 'alerts'\n",
        r"on_stream_timeout is 'alerts'\. Make it a function of one argument",
    ),
    "another stream": (
        "def transform(sdf, app):\n    return app.dataframe(app.topic('others'))\n",
        r"no record of topic sensor-data reaches",
    ),
    "runs it": ("def transform(sdf, app):\n    app.run()\n    return sdf\n", r"it calls app\.run\(\)"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_message_with_its_line(name: str, try_here: Here) -> None:
    text, message = MISTAKES[name]
    code, printed, errors = try_here(text=text)
    assert code == 2, errors
    [line] = errors.splitlines()
    assert line.startswith("ERROR! ")
    assert re.search(message, line), line
    assert printed == ""


@pytest.mark.night
def test_commands_that_need_no_transform_do_not_load_it(tmp_path: Path) -> None:
    tree = customised(tmp_path / "tree", "syntax error")
    table = tmp_path / "lake/data/sensor-data"
    table.mkdir(parents=True)
    (table / "x.json").touch()
    done = run(tree, "audit", STORAGE_URL=(tmp_path / "lake").as_uri(), KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:9")
    assert "SyntaxError" not in done.stdout + done.stderr
    assert done.returncode == 0, done.stderr


def test_records_are_taken_as_the_settings_say() -> None:
    """Rows with their folders, what is rescued, what is refused, before the conversion and in it."""
    records = [
        {"t": "2024-03-04T05:06:07Z", "place": "a/b", "n": 1, "v": 5, "m": {"k": 1}},
        {"t": "2024-03-04T05:06:07Z", "place": None, "n": "one", "v": 6},
        {"t": "long ago", "place": "x", "n": 2, "v": 7},
        ["no object"],
        {"place": "y" * 300, "n": 3},
    ]
    done = run(
        REPO,
        "try",
        records="".join(json.dumps(record) + "\n" for record in records) + '{"cut": ',
        HIVE_COLUMNS="year,place,~n,__topic",
        TIMESTAMP_COLUMN="t",
        METADATA_COLUMNS="__topic,__offset",
        COLUMN_TYPES="m:map<string,double>",
        input="r",
    )
    assert done.returncode == 1
    told = done.stdout.splitlines()
    assert told[0] == (
        "row   line 1  year=2024/place=a%2Fb/__topic=r  "
        '{"t":"2024-03-04T05:06:07Z","n":1,"v":5,"m":{"k":1.0},"__offset":0}'
    )
    assert told[1].startswith('row   line 2  year=2024/place=__HIVE_DEFAULT_PARTITION__/__topic=r  {"t":')
    assert '"_rescued_data":"{\\"n\\":\\"one\\"}"' in told[1]
    reasons = [(line[:4], line[6:12], line[14:]) for line in told[2:6]]
    assert [reason[:2] for reason in reasons] == [("bad ", f"line {number}") for number in (3, 4, 5, 6)]
    assert "its value is of type list" in reasons[1][2]
    assert "it does not deserialize" in reasons[3][2]
    assert told[6] == (
        "6 records: 2 rows, 1 of them with values in _rescued_data; 4 bad, 0 without a row, 0 sent elsewhere"
    )


def test_a_function_that_ends_the_process_is_told_with_its_line(try_here: Here) -> None:
    text = "import sys\n\ndef check(value):\n    if value['n'] == 2: sys.exit(3)\n    return value\n\n"
    text += "def transform(sdf):\n    return sdf.apply(check)\n"
    code, _, errors = try_here(text=text, records='{"n": 1}\n{"n": 2}\n{"n": 3}\n')
    assert code == 1, errors
    assert "ERROR! running transform(): it called sys.exit(3) at transform.py:4" in errors


def test_a_function_that_returns_nothing_is_no_tombstone(try_here: Here) -> None:
    text = "def transform(sdf):\n    return sdf.apply(lambda value: value.update(room='attic'))\n"
    code, printed, errors = try_here(text=text, records='{"n": 1}\nnull\n')
    assert code == 1, errors
    first, second, *_ = printed.splitlines()
    assert "transform() returned null for it, like a function without a return statement" in first
    assert "transform() raised AttributeError" in second


def test_other_deserializers_and_an_envelope(try_here: Here, tmp_path: Path) -> None:
    text = "def transform(sdf):\n    return sdf.apply(lambda v, k, t, h: {'v': v, 'k': k}, metadata=True)\n"
    line = {"value": "plain text", "key": "7", "timestamp": 1704067200000, "headers": {"trace": "x"}}
    samples = tmp_path / "samples"
    samples.write_text(json.dumps(line) + "\n\n")
    settings = {"KAFKA_VALUE_DESERIALIZER": "str", "METADATA_COLUMNS": "__timestamp,__headers"}
    code, printed, errors = try_here("--envelope", str(samples), text=text, **settings)
    assert code == 0, printed + errors
    first = printed.splitlines()[0]
    assert first.startswith('row   line 1  .  {"v":"plain text","k":"7","ts_ms":1704067200000,"__key":"7"')
    assert '"__headers":[{"key":"trace","value":"eA=="}]' in first


AVRO = {"KAFKA_VALUE_DESERIALIZER": "avro", "SCHEMA_REGISTRY_URL": "http://127.0.0.1:9", "TIMESTAMP_COLUMN": "at"}
CUT = b"Obj\x01cut"


@pytest.mark.parametrize(
    ("arguments", "records", "settings", "message"),
    [
        (["missing.jsonl"], "", {}, "reading missing.jsonl: No such file or directory"),
        (
            ["--envelope"],
            '{"value": 1, "keys": 2}\n',
            {},
            "reading line 1: it is not an object of headers, key, timestamp, value",
        ),
        (["--envelope"], "\n{\n", {}, "reading line 2: "),
        (["--envelope"], '{"value": 1, "timestamp": "2024"}', {}, 'its timestamp is "2024", not a whole number'),
        (["--envelope"], '{"value": 1, "timestamp": 1e999}', {}, "its timestamp is Infinity, not a whole number"),
        (["--envelope"], '{"value": 1, "headers": ["x"]}', {}, 'its headers are ["x"], not an object'),
        (["--envelope"], '{"value": 1, "key": "\\ud800"}', {}, "reading line 1: 'utf-8' codec can't encode"),
        (["--envelope"], "[" * 100_000, {}, "reading line 1: maximum recursion depth"),
        ([], CUT, AVRO, "reading standard input: it is not a complete Avro file"),
        (["--envelope"], CUT, AVRO, "it is an Avro file. Set KAFKA_VALUE_DESERIALIZER=avro, and omit --envelope"),
        ([], CUT, {}, "it is an Avro file. Set KAFKA_VALUE_DESERIALIZER=avro"),
    ],
)
def test_what_is_no_record_is_told(
    arguments: list[str], records: str | bytes, settings: dict[str, str], message: str, try_here: Here
) -> None:
    code, printed, errors = try_here(*arguments, records=records, **settings)
    assert (code, printed) == (2, "")
    assert message in errors
    assert errors.startswith("ERROR! ")
    assert "report this as a bug" not in errors


def test_lines_have_the_numbers_of_the_file_and_whole_numbers_all_their_digits(try_here: Here) -> None:
    """A blank line is no record, but an editor counts it."""
    long = 2**64 + 7
    _, printed, _ = try_here(records=f'\n{{"n": 1, "ts_ms": 1}}\n\n{{"n": {long}, "ts_ms": 1}}\n')
    assert printed.splitlines()[:2] == [
        'row   line 2  .  {"n":1,"ts_ms":1}',
        f'row   line 4  .  {{"ts_ms":1,"_rescued_data":"{{\\"n\\":{long}}}"}}',
    ]


def test_a_record_may_be_as_long_as_one_of_the_topic(try_here: Here) -> None:
    records = "".join(json.dumps({"ts_ms": 1, "text": "x" * size}) + "\n" for size in (4_100_000, 9_000_000))
    _, printed, _ = try_here(records=records, MAX_BUFFER_MB="32")
    first, second, _ = printed.splitlines()
    assert first.startswith('row   line 1  .  {"ts_ms":1,"text":"xxx')
    assert second.startswith("bad   line 2  its message has 9,000,024 bytes")


STATELESS = "def transform(sdf):\n    return sdf[sdf['n'] > 0].apply(lambda value: {**value, 'more': True})\n"


@pytest.mark.parametrize("text", ["", STATELESS])
def test_functions_of_single_records_need_no_broker_even_in_this_process(
    text: str, try_here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.parts.try_out.offline.Producer", lambda *_: pytest.fail("a broker was made"))
    code, printed, errors = try_here(text=text)
    assert code == 0, errors
    assert printed.startswith('row   line 1  .  {"ts_ms":1704067200000,"n":1')


BESIDE = """
def send(app, topic):
    with app.get_producer() as producer:
        producer.produce(topic.name, b"hello")


def transform(sdf, app):
    notes = app.topic("notes", value_serializer="str")
    sdf = sdf.update(lambda value: send(app, notes)).group_by("n")
    sdf[sdf["n"] == 2].to_topic(notes)
    others = app.dataframe(app.topic("others"))
    return sdf.join_asof(others, how="left")
"""


def test_keys_clients_and_joined_topics_of_transform(try_here: Here) -> None:
    code, printed, errors = try_here(text=BESIDE, records='{"n": 1, "ts_ms": 1}\n{"n": 2, "ts_ms": 1}\n')
    assert code == 1, errors
    first, second, *_ = printed.splitlines()
    assert first == 'row   line 1  .  {"n":1,"ts_ms":1,"__key":1}'
    assert second.startswith("bad   line 2  transform() raised SerializationError")
    assert " at app/" not in second, "no line of the user's code"


def test_a_message_of_several_records_gives_a_row_of_each(try_here: Here) -> None:
    data = {"Timestamps": [1_000_000, 2_000_000], "NumericValues": {"n": [1, 2]}}
    headers = {"__Q_ModelKey": "TimeseriesData", "__Q_CodecId": "JT"}
    line = {"value": json.dumps(data), "headers": headers}
    records = json.dumps(line) + "\n" + json.dumps({"value": None})
    code, printed, _ = try_here("--envelope", records=records, KAFKA_VALUE_DESERIALIZER="quix")
    assert code == 1
    first, second, third, _ = printed.splitlines()
    assert (first[:14], second[:14]) == ("row   line 1  ", "row   line 1  ")
    assert third.startswith("bad   line 2  its value is null (a tombstone)")


@pytest.mark.night
def test_the_first_lines_are_enough(tmp_path: Path) -> None:
    """As with `| head -1`: a reader that goes away is no failure."""
    (tmp_path / "samples").write_text(GOOD * 5000)
    command = f"{sys.executable} {REPO}/main.py try {tmp_path}/samples | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=REPO, env=environment({}), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.splitlines()[1] == "0"
    assert "Error" not in done.stderr


@pytest.mark.night
@pytest.mark.parametrize("text", ["return sdf", "return sdf.group_by('n')"])
def test_many_records_and_large_ones_are_all_shown(text: str, tmp_path: Path) -> None:
    tree = customised(tmp_path / "tree", f"def transform(sdf):\n    {text}\n")
    lines = [json.dumps({"n": n, "ts_ms": 1, "text": "x" * (3_900_000 if n == 7 else 1_000)}) for n in range(8_000)]
    done = run(tree, "try", records="\n".join(lines), SPARK_DRIVER_MEMORY="2g")
    assert done.stdout.splitlines()[-1].startswith("8,000 records: 8,000 rows"), done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("codec", ["deflate", pytest.param("null", marks=pytest.mark.night)])
def test_an_avro_file_needs_no_registry(codec: str, tmp_path: Path, try_here: Here) -> None:
    at = {"type": "long", "logicalType": "timestamp-millis"}
    fields = [{"name": "at", "type": at}, {"name": "n", "type": ["null", "int"]}]
    schema = fastavro.parse_schema({"type": "record", "name": "Reading", "fields": fields})
    records = [{"at": 1704067200000 + n, "n": n or None} for n in range(3)]
    with (tmp_path / "readings.avro").open("wb") as file:
        fastavro.writer(file, schema, records, codec=codec, sync_interval=1)
    code, printed, errors = try_here(str(tmp_path / "readings.avro"), HIVE_COLUMNS="year", **AVRO)
    assert code == 0, printed + errors
    assert printed.splitlines()[:3] == [
        'row   line 1  year=2024  {"at":"2024-01-01T00:00:00+00:00"}',
        'row   line 2  year=2024  {"at":"2024-01-01T00:00:00.001000+00:00","n":1}',
        'row   line 3  year=2024  {"at":"2024-01-01T00:00:00.002000+00:00","n":2}',
    ]


# --- a plan by the newest records of a topic ------------------------------------------------------------------------


def test_a_plan_tells_the_columns_the_folders_and_what_to_change(kafka: Broker, tmp_path: Path) -> None:
    topic, now = f"readings-{uuid4().hex[:8]}", int(time.time() * 1000)
    kafka.create_topic(topic, partitions=3)
    values = [{"ts_ms": now, "n": n, "device": f"d{n % 50}", "location": "Oslo"} for n in range(400)]
    records = [(None, json.dumps(value), now, n % 2) for n, value in enumerate(values)]
    kafka.produce(topic, [*records, (None, "{broken", now, 0)])
    settings = {
        "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "input": topic,
        "S3_BUCKET": "lake-bucket",
        "CONSUMER_GROUP": f"{topic}-group",
        "HIVE_COLUMNS": "locaton,device,hour",
    }
    told = run(REPO, "try", "--topic", "300", "--json", **settings)
    plan = json.loads(told.stdout)
    assert told.returncode == 1, "a record is bad"
    assert (plan["records"], plan["rows"], plan["bad"]) == (300, 299, 1)
    assert plan["columns"] == {"ts_ms": "bigint", "n": "bigint", "location": "string"}
    assert (plan["folders_a_day"], plan["folders_a_batch"]) == (50 * 24, 3), "of 401 records an hour 3 in 30 s"
    misspelled, advice = plan["advice"]
    assert "Did you mean location?" in misspelled
    assert "device has 50 values: remove device, or make it ~device" in advice
    [(reason, count)] = plan["bad_reasons"].items()
    assert reason.startswith("it does not deserialize")
    assert count == 1
    people = run(REPO, "try", "--topic", "--gb-price", "0", **settings)
    assert "401 of the newest: 400 rows, 1 bad" in people.stdout
    assert "1: it does not deserialize" in people.stdout
    assert (people.stdout + people.stderr).count("Did you mean location?") == 1
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    assert f"{topic}-group" not in {each.group_id for each in admin.list_consumer_groups().result().valid}


def test_a_plan_of_an_empty_topic(kafka: Broker) -> None:
    topic = f"readings-{uuid4().hex[:8]}"
    kafka.create_topic(topic)
    settings = {"KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers, "input": topic, "S3_BUCKET": "lake-bucket"}
    told = run(REPO, "try", "--topic", **settings)
    assert (told.returncode, told.stderr) == (0, "")
    assert "0 of the newest: 0 rows" in told.stdout


def test_a_plan_looks_behind_offsets_that_have_no_record(kafka: Broker) -> None:
    topic = f"readings-{uuid4().hex[:8]}"
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, GOOD, None, 0)] * 20)
    aborted = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic})
    aborted.init_transactions(ADMIN_TIMEOUT)
    aborted.begin_transaction()
    for _ in range(3_000):
        aborted.produce(topic, GOOD)
    aborted.flush(ADMIN_TIMEOUT)
    aborted.abort_transaction(ADMIN_TIMEOUT)
    settings = {"KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers, "input": topic, "S3_BUCKET": "lake-bucket"}
    assert "20 of the newest: 20 rows" in run(REPO, "try", "--topic", **settings).stdout


def test_a_plan_needs_a_broker() -> None:
    told = run(REPO, "try", "--topic", input="readings", S3_BUCKET="lake-bucket")
    assert told.returncode == 2
    assert "KAFKA_BOOTSTRAP_SERVERS" in told.stdout + told.stderr
