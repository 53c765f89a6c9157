"""JSON messages parsed many at once: either as a JSON library reads each of them, or not at all."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from app.convert.json_columns import has_field, parse

ROOT = Path(__file__).parents[3]
COLUMNS = {
    "i": pa.int64(),
    "d": pa.float64(),
    "s": pa.string(),
    "b": pa.bool_(),
    "o": pa.struct([("a", pa.int64()), ("d", pa.float64())]),
    "l": pa.list_(pa.int64()),
    "m": pa.list_(pa.float64()),
}


def parsed(*messages: bytes) -> list[Any] | None:
    """The records without their nulls; ``None`` where they are left to the other way."""
    arrays = parse(messages, COLUMNS)
    if arrays is None:
        return None
    return [_bare({name: array[row].as_py() for name, array in arrays.items()}) or {} for row in range(len(messages))]


def _bare(value: Any) -> Any:
    """A value in which null, a missing field and an object without any value are the same."""
    if isinstance(value, dict):
        return {name: bare for name, each in value.items() if (bare := _bare(each)) is not None} or None
    return [_bare(each) for each in value] if isinstance(value, list) else value


# --- what is parsed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "record"),
    [
        ('{"i":1,"d":1.5,"s":"x","b":true,"o":{"a":1},"l":[1,2]}', {"i": 1, "d": 1.5, "s": "x", "b": True, "o": {"a": 1}, "l": [1, 2]}),  # noqa: E501
        ('{"i":9223372036854775807}', {"i": 2**63 - 1}),
        ('{"i":-9223372036854775808}', {"i": -(2**63)}),
        ('{"i":-0}', {"i": 0}),
        ('{"d":9007199254740991,"i":9007199254740993}', {"i": 2**53 + 1, "d": 9007199254740991.0}),
        ('{"d":-0.0}', {"d": -0.0}),
        ('{"d":1E+5}', {"d": 100000.0}),
        ('{"d":1e-400}', {"d": 0.0}),
        ('{"d":0.30000000000000004}', {"d": 0.1 + 0.2}),
        ('{"s":"\\u0000\\ud83d\\ude00\\/"}', {"s": "\0😀/"}),
        ('{"s":"{}[]\\"\\\\"}', {"s": '{}[]"\\'}),
        ('{ "i" :\t1 }', {"i": 1}),
        ('{"i":null,"o":{},"l":null}', {}),
        ('{"o":{"a":null,"z":{}}}', {}),
        ("{}", {}),
    ],
)  # fmt: skip
def test_what_is_parsed(text: str, record: dict[str, Any]) -> None:
    assert repr(parsed(b'{"i":7}', text.encode())) == repr([{"i": 7}, record])


# --- what is left to the other way ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        b"", b" ", b"null", b"1", b"[]", b'"x"', b"{", b"}", b'{"i":1', b'"i":1}', b'{"i":1}}', b'{{"i":1}',
        b'{"i":1,}',
        b'{"i":1}{"i":2}', b'{"i":1} {"i":2}', b'{"i":1},{"i":2}', b'{"i":1}null{}', b'{"i":1}[]{}', b'{"i":1} x}',
        b' {"i":1}', b'{"i":1}\n', b'{"i":1}\r', b'{\r"i":1}', b'{"s":"a\nb"}', b'{"s":"\t"}', b'\xef\xbb\xbf{"i":1}',
        b'{"i":1}\x00}', b'\x00{"i":1}', b'{"s":"\x00"}', b'{"i":1\x0b}', b'{"i":1\xc2\xa0}', b'{/**/"i":1}',
        b'{"s":"\xff"}', b'{"s":"\xed\xa0\x80"}', b'{"s":"\xc0\x80"}', b'{"\xff":1}', b'{"s":"\\ud800"}',
        b'{"s":"\\x"}', b'{"s":"\\u12G4"}', b"{'i':1}", b"{i:1}", b'{"b":True}', b'{"b":tru}', b'{"i":nul}',
    ],
)  # fmt: skip
def test_what_is_no_single_object_of_json(text: bytes) -> None:
    for messages in ([text], [text, b'{"i":7}'], [b'{"i":7}', text], [b'{"i":7}', text, b'{"i":7}']):
        assert parsed(*messages) is None


@pytest.mark.parametrize(
    "messages",
    [
        [b'{"i":1', b'"d":1}'],
        [b'{"o":{"a":1}', b'{"i":1}}'],
        [b'{"l":[{}', b"{}]}"],
        [b'{"s":"}', b'{"}'],
        [b'{"i":1}{"i":2}', b'{"i":3'],
        [b'{"i":1}{"i":2}', b'\x00{"i":3}'],
        [b'{"i":1}\n{"i":2}', b'{"i":3}'],
    ],
)
def test_objects_that_do_not_end_with_their_message(messages: list[bytes]) -> None:
    assert parsed(*messages) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"i":1,"i":2}', '{"i":null,"i":2}', '{"i":2,"i":null}', '{"i":1,"\\u0069":2}', '{"s":"a","s":null}',
        '{"o":{"a":1,"a":2}}', '{"o":{"a":1},"o":{"d":2}}', '{"o":{"a":1},"o":null}', '{"l":[1],"l":[2]}',
        # Values of another kind than their column
        '{"i":1.0}', '{"i":1e2}', '{"i":9223372036854775808}', '{"i":"1"}', '{"i":true}', '{"i":{}}', '{"s":1}',
        '{"s":{}}', '{"s":true}', '{"b":1}', '{"b":"true"}', '{"l":1}', '{"l":{}}', '{"l":["1"]}', '{"o":[]}',
        '{"o":1}', '{"o":{"new":1}}', '{"o":{"new":[1]}}', '{"o":{"a":"1"}}',
    ],
)  # fmt: skip
def test_a_field_that_comes_twice_or_has_a_value_of_another_kind_than_its_column(text: str) -> None:
    assert parsed(b'{"i":7}', text.encode()) is None


@pytest.mark.parametrize(
    "number",
    [
        "-0", "-0 ", "9007199254740993", "-9007199254740993", "12345678901234567890", "18446744073709551616", "9" * 400,
        "1e400", "-1e400", "NaN", "-NaN", "nan", "Inf", "Infinity", "-Infinity", "01", "-01", "1.", ".5", "+1", "-",
        "1e", "1e+", "0x10", "1_000", "--1", "1.5.5", "1e5.5", '"1"', "true", "{}", "[]",
    ],
)  # fmt: skip
def test_numbers_that_a_double_does_not_hold_as_they_are(number: str) -> None:
    assert parsed(b'{"d":7}', f'{{"d":{number}}}'.encode()) is None
    assert parsed(b'{"d":7}', f'{{"m":[1.5, {number}]}}'.encode()) is None
    assert parsed(b'{"d":7}', f'{{"o":{{"d":{number}}}}}'.encode()) is None


# --- nesting --------------------------------------------------------------------------------------------------------

DEEP = {
    "lists": '{"x":' + "[" * 100_000 + "]" * 100_000 + "}",
    "objects": '{"x":' * 100_000 + "1" + "}" * 100_000,
    "behind brackets in strings": '{"x":' + '["]",' * 50_000 + "1" + ',"["]' * 50_000 + "}",
    "behind escapes": '{"x":' + '["\\"]",' * 50_000 + "1" + ',"\\"["]' * 50_000 + "}",
}


@pytest.mark.parametrize("name", DEEP)
def test_nesting_beyond_the_stack_does_not_end_the_process(name: str, tmp_path: Path) -> None:
    (tmp_path / "message").write_text(DEEP[name])
    code = (
        "import pathlib, sys, pyarrow as pa; from app.convert.json_columns import parse; "
        "message = pathlib.Path(sys.argv[1]).read_bytes(); "
        "print(parse([b'{\"i\":1}', message], {'i': pa.int64()}))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "message")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "None\n"), ended.stderr


def test_levels_that_no_column_has_are_left_to_the_other_way() -> None:
    void = b'{"x":' * 33 + b"{}" + b"}" * 33
    assert parsed(b'{"i":1}', void) is None
    assert parsed(b'{"i":1}', void.removeprefix(b'{"x":').removesuffix(b"}")) == [{"i": 1}, {}]


@pytest.mark.parametrize("text", ["plain", "[{]}", 'quote " and \\'])
def test_many_brackets_are_not_deep(text: str) -> None:
    many = json.dumps({"i": 1, "x": [{"s": text, "y": [{}, None]} for _ in range(500)]}).encode()
    assert parse([many], {"i": pa.int64()}) is not None


# --- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ts_ms", "ü", 'a"b', "a\\b", "a/b", "\n", "😀", ""])
@pytest.mark.parametrize("upper", [False, True])
def test_a_field_is_found_however_its_name_is_written(name: str, upper: bool) -> None:
    units = memoryview(name.encode("utf-16-le")).cast("H")
    escaped = "".join(f"\\u{unit:04X}" if upper else f"\\u{unit:04x}" for unit in units)
    for written in (
        json.dumps(name),
        json.dumps(name, ensure_ascii=False),
        f'"{escaped}"',
        json.dumps(name).replace("/", "\\/"),
    ):
        message = f"{{{written}:1}}".encode()
        assert json.loads(message) == {name: 1}
        assert has_field([b"{}", message], name)
    assert has_field([b'{"ts\\u005fms":1}'], "ts_ms"), "one escaped character is enough"


def test_messages_with_names_of_their_own_are_not_parsed_together() -> None:
    """Each name is a column as long as all messages: 40,000 of these would take 17 GB."""
    messages = [f'{{"id-{number}":1}}'.encode() for number in range(40_000)]
    begin = pa.total_allocated_bytes()
    assert parse(messages, {"id-0": pa.int64()}) is None
    assert parse(messages[:1_024], {"id-0": pa.int64()}) is not None
    assert pa.total_allocated_bytes() - begin < 2**20


@pytest.mark.parametrize("are_nested", [True, False])
def test_names_that_are_ids_are_not_parsed_together_and_names_that_come_again_are(are_nested: bool) -> None:
    """2,000 messages with 20 names of their own each took 1.2 GB."""

    def messages(names: Callable[[int], Iterable[int]]) -> list[bytes]:
        fields = [{f"id{name}": 1.5 for name in names(number)} for number in range(2_000)]
        return [json.dumps({"by": each} if are_nested else each).encode() for each in fields]

    assert parse(messages(lambda number: range(number * 20, number * 20 + 20)), {}) is None
    assert parse(messages(lambda number: range(number * 20, number * 20 + 20) if number > 64 else range(1)), {}) is None
    assert parse(messages(lambda number: range(20_000 if number == 1_999 else 1)), {}) is None
    assert parse(messages(lambda _: range(300)), {}) is not None


def test_sparse_messages_of_many_columns_are_not_parsed_together() -> None:
    columns = {f"c{number}": pa.float64() for number in range(4_000)}
    messages = [b'{"c1":1.5}'] * 10_000
    assert parse(messages, columns) is None
    assert parse(messages[:1_000], columns) is not None
