"""``python main.py try`` as a process: what it needs, what it tells, and how mistakes in ``app/transform.py`` look."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import fastavro
import pytest

import app
from app.config.variables import Variables
from tests.e2e.scenario import customised
from tests.services.main_process import REPO, run_main
from tests.support.commands import run_command
from tests.support.environment import load

GOOD = '{"ts_ms": 1704067200000, "n": 1}\n'
_BLANK = {str(each.validation_alias): "" for each in Variables.model_fields.values()}


def run(
    tree: Path, *arguments: str, records: str | bytes = GOOD, **settings: str
) -> "subprocess.CompletedProcess[str]":
    """Nothing of the connector's is set but this."""
    environment = {**os.environ, **_BLANK, **settings}
    return run_main(*arguments, environment=environment, main=[str(tree / "main.py")], records=records, folder=tree)


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
    "import": (
        "import pandaz\n\n\ndef transform(sdf):\n    return sdf\n",
        r"ModuleNotFoundError: .*pandaz' at tr.*:1",
    ),
    "no function": (
        "def transfrom(sdf):\n    return sdf\n",
        r"it has no function transform\. Define it as transform\(sdf\)",
    ),
    "arguments": (
        "def transform():\n    return 1\n",
        r"TypeError: transform\(\) takes 0 positional arguments",
    ),
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
AT_IMPORT = ["syntax", "import", "a hook that is none"]


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_message_with_its_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, message = MISTAKES[name]
    (tmp_path / "transform.py").write_text(text)
    monkeypatch.setattr(app, "__path__", [str(tmp_path), *app.__path__])
    monkeypatch.delitem(sys.modules, "app.transform", raising=False)
    monkeypatch.delattr(app, "transform", raising=False)
    monkeypatch.setattr("app.consumer.user_code.ROOT", tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))
    before = signal.getsignal(signal.SIGTERM)
    try:
        code = run_command(load(), "try")
    finally:
        signal.signal(signal.SIGTERM, before)
        sys.modules.pop("app.transform", None)
        vars(app).pop("transform", None)  # else later tests would have this one
    told = capsys.readouterr()
    assert code == 2, told.err
    [line] = told.err.splitlines()
    assert line.startswith("ERROR! ")
    assert re.search(message, line), line
    assert told.out == ""


@pytest.mark.parametrize("name", AT_IMPORT)
def test_the_connector_itself_tells_it_before_it_asks_anybody(name: str, tmp_path: Path) -> None:
    text, message = MISTAKES[name]
    tree = customised(tmp_path / "tree", text)
    done = run(tree, S3_BUCKET="nowhere", KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:9", HTTP_PORT="0")
    assert done.returncode == 2
    told = done.stdout + done.stderr
    [line] = [line for line in told.splitlines() if line.startswith("ERROR! ")]
    assert re.search(message, line.replace("at app/transform", "at transform")), line  # its place in a whole tree
    assert "Traceback" not in told
    assert "report this as a bug" not in told


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
        {"t": "2024-03-04T05:06:07Z", "place": "a/b", "n": 1, "v": 5},
        {"t": "2024-03-04T05:06:07Z", "place": None, "n": "one", "v": 6},
        {"t": "long ago", "place": "x", "n": 2, "v": 7},
        ["no object"],
        {"place": "y" * 300, "n": 3},
    ]
    done = run(
        REPO,
        "try",
        records="".join(json.dumps(record) + "\n" for record in records) + '{"cut": ',
        HIVE_COLUMNS="year,place,~n",
        TIMESTAMP_COLUMN="t",
        METADATA_COLUMNS="__topic,__offset",
        input="r",
    )
    assert done.returncode == 1
    told = done.stdout.splitlines()
    assert told[0] == (
        'row   line 1  year=2024/place=a%2Fb  {"t":"2024-03-04T05:06:07Z","n":1,"v":5,"__topic":"r","__offset":0}'
    )
    assert told[1].startswith('row   line 2  year=2024/place=__HIVE_DEFAULT_PARTITION__  {"t":')
    assert '"_rescued_data":"{\\"n\\":\\"one\\"}"' in told[1]
    reasons = [(line[:4], line[6:12], line[14:]) for line in told[2:6]]
    assert [reason[:2] for reason in reasons] == [("bad ", f"line {number}") for number in (3, 4, 5, 6)]
    assert "its value is of type list" in reasons[1][2]
    assert "it does not deserialize" in reasons[3][2]
    assert told[6] == (
        "6 records: 2 rows, 1 of them with values in _rescued_data; 4 bad, 0 without a row, 0 sent elsewhere"
    )


@pytest.mark.parametrize(
    ("column", "hint"), [("Year", "Did you mean year?"), ("meta.region", 'sdf["region"] = sdf["meta"]["region"]')]
)
def test_a_partition_column_that_no_record_has_is_told_with_a_remedy(column: str, hint: str) -> None:
    done = run(REPO, "try", records='{"ts_ms": 1704067200000, "meta": {"region": "eu"}}\n', HIVE_COLUMNS=column)
    assert done.returncode == 0, done.stderr
    (told,) = done.stderr.splitlines()
    assert hint in told


def test_a_function_that_ends_the_process_is_told_with_its_line(tmp_path: Path) -> None:
    text = "import sys\n\ndef check(value):\n    if value['n'] == 2: sys.exit(3)\n    return value\n\n"
    tree = customised(tmp_path / "tree", text + "def transform(sdf):\n    return sdf.apply(check)\n")
    done = run(tree, "try", records='{"n": 1}\n{"n": 2}\n{"n": 3}\n')
    assert done.returncode == 1, done.stderr
    assert "ERROR! running transform(): it called sys.exit(3) at app/transform.py:4" in done.stderr


def test_a_function_that_returns_nothing_is_no_tombstone(tmp_path: Path) -> None:
    text = "def transform(sdf):\n    return sdf.apply(lambda value: value.update(room='attic'))\n"
    done = run(customised(tmp_path / "tree", text), "try", records='{"n": 1}\nnull\n')
    assert done.returncode == 1, done.stderr
    first, second, *_ = done.stdout.splitlines()
    assert "transform() made null of it, as a function does that returns nothing" in first
    assert "transform() raised AttributeError" in second


def test_other_deserializers_and_an_envelope(tmp_path: Path) -> None:
    text = "def transform(sdf):\n    return sdf.apply(lambda v, k, t, h: {'v': v, 'k': k}, metadata=True)\n"
    tree = customised(tmp_path / "tree", text)
    line = {"value": "plain text", "key": "7", "timestamp": 1704067200000, "headers": {"trace": "x"}}
    (tree / "samples").write_text(json.dumps(line) + "\n\n")
    done = run(
        tree, "try", "--envelope", "samples", KAFKA_VALUE_DESERIALIZER="str", METADATA_COLUMNS="__timestamp,__headers"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    first = done.stdout.splitlines()[0]
    assert first.startswith('row   line 1  .  {"v":"plain text","k":"7","ts_ms":1704067200000,"__key":"7"')
    assert '"__headers":[{"key":"trace","value":"eA=="}]' in first


@pytest.mark.parametrize(
    ("arguments", "records", "message"),
    [
        (["missing.jsonl"], "", "reading missing.jsonl: No such file or directory"),
        (
            ["--envelope"],
            '{"value": 1, "keys": 2}\n',
            "reading line 1: it is no object of headers, key, timestamp, value",
        ),
        (["--envelope"], "\n{\n", "reading line 2: "),
        (["--envelope"], '{"value": 1, "timestamp": "2024-01-01"}', 'its timestamp is "2024-01-01", no whole number'),
        (["--envelope"], '{"value": 1, "timestamp": 1e999}', "its timestamp is Infinity, no whole number"),
        (["--envelope"], '{"value": 1, "headers": ["x"]}', 'its headers are ["x"], no object'),
        (["--envelope"], '{"value": 1, "key": "\\ud800"}', "reading line 1: 'utf-8' codec can't encode"),
        ([], "[" * 4_000_001, "reading line 1: it has 4,000,001 bytes, and `try` takes 4,000,000"),
        (["--envelope"], "[" * 100_000, "reading line 1: maximum recursion depth"),
    ],
)
def test_what_is_no_record_is_told(arguments: list[str], records: str, message: str) -> None:
    done = run(REPO, "try", *arguments, records=records)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{message}" in done.stderr
    assert done.stderr.startswith("ERROR! ")
    assert "report this as a bug" not in done.stderr


def test_lines_have_the_numbers_of_the_file_and_whole_numbers_all_their_digits() -> None:
    """A blank line is no record, but an editor counts it."""
    long = 2**64 + 7
    done = run(REPO, "try", records=f'\n{{"n": 1, "ts_ms": 1}}\n\n{{"n": {long}, "ts_ms": 1}}\n')
    assert done.stdout.splitlines()[:2] == [
        'row   line 2  .  {"n":1,"ts_ms":1}',
        f'row   line 4  .  {{"ts_ms":1,"_rescued_data":"{{\\"n\\":{long}}}"}}',
    ]


def test_the_first_lines_are_enough(tmp_path: Path) -> None:
    """As with `| head -1`: a reader that goes away is no failure."""
    (tmp_path / "samples").write_text(GOOD * 5000)
    command = f"{sys.executable} {REPO}/main.py try {tmp_path}/samples | head -1; echo ${{PIPESTATUS[0]}}"
    environment = {**os.environ, **_BLANK}
    done = subprocess.run(
        ["bash", "-c", command], cwd=REPO, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.stdout.splitlines()[1], done.stderr) == ("0", "")


@pytest.mark.parametrize("text", ["return sdf", "return sdf.group_by('n')"])
def test_many_records_and_large_ones_are_all_shown(text: str, tmp_path: Path) -> None:
    tree = customised(tmp_path / "tree", f"def transform(sdf):\n    {text}\n")
    lines = [json.dumps({"n": n, "ts_ms": 1, "text": "x" * (3_900_000 if n == 7 else 1_000)}) for n in range(8_000)]
    done = run(tree, "try", records="\n".join(lines), SPARK_DRIVER_MEMORY="2g")
    assert done.stdout.splitlines()[-2 if text == "return sdf" else -1].startswith("8,000 records: 8,000 rows"), (
        done.stderr
    )
    assert done.returncode == 0


def test_settings_that_are_wrong_are_told_and_a_broker_is_none_of_them() -> None:
    done = run(REPO, "try", HIVE_COLUMNS="a,a", BATCH_SIZE="many")
    assert done.returncode == 2
    assert "HIVE_COLUMNS" in done.stdout + done.stderr
    assert "BATCH_SIZE" in done.stdout + done.stderr
    assert "KAFKA_BOOTSTRAP_SERVERS" not in done.stdout + done.stderr
    assert "S3_BUCKET" not in done.stdout + done.stderr


AVRO = {"KAFKA_VALUE_DESERIALIZER": "avro", "SCHEMA_REGISTRY_URL": "http://127.0.0.1:9", "TIMESTAMP_COLUMN": "at"}


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_an_avro_file_needs_no_registry(codec: str, tmp_path: Path) -> None:
    at = {"type": "long", "logicalType": "timestamp-millis"}
    fields = [{"name": "at", "type": at}, {"name": "n", "type": ["null", "int"]}]
    schema = fastavro.parse_schema({"type": "record", "name": "Reading", "fields": fields})
    records = [{"at": 1704067200000 + n, "n": n or None} for n in range(3)]
    with (tmp_path / "readings.avro").open("wb") as file:
        fastavro.writer(file, schema, records, codec=codec, sync_interval=1)
    done = run(REPO, "try", str(tmp_path / "readings.avro"), HIVE_COLUMNS="year", **AVRO)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[:3] == [
        'row   line 1  year=2024  {"at":"2024-01-01T00:00:00+00:00"}',
        'row   line 2  year=2024  {"at":"2024-01-01T00:00:00.001000+00:00","n":1}',
        'row   line 3  year=2024  {"at":"2024-01-01T00:00:00.002000+00:00","n":2}',
    ]


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        ([], AVRO, "reading standard input: it is no whole Avro file"),
        (["--envelope"], AVRO, "it is an Avro file. Set KAFKA_VALUE_DESERIALIZER=avro, and leave out --envelope"),
        ([], {}, "it is an Avro file. Set KAFKA_VALUE_DESERIALIZER=avro"),
    ],
)
def test_an_avro_file_that_cannot_be_read_is_told(arguments: list[str], settings: dict[str, str], message: str) -> None:
    done = run(REPO, "try", *arguments, records=b"Obj\x01cut", **settings)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "report this as a bug" not in done.stderr
