"""How heavy the code may be: a feature that needs more brings its own deletions."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

APP, TESTS = (Path(__file__).parents[2] / name for name in ("app", "tests"))
CORE = ("consumer", "delivery", "journal", "kafka", "service")
# They fall with what the code loses. A new feature may add the lines that were agreed before it was built.
GRANTED = {"maps": 110, "complete and batch events": 150, "newest rows": 240, "keys of a catalog": 160, "tests": 535}
MOST_LINES = 32_723
MOST_LINES_OF_PARTS = {
    "audit": 692,
    "avro": 627,
    "azure": 329,
    "batch_topic": 139,
    "check": 473,
    "commands": 230,
    "complete": 119,
    "console": 1_210,
    "gcs": 278,
    "http": 228,
    "iceberg": 1_741,
    "lineage": 167,
    "maintenance": 2_365,
    "msk_iam": 48,
    "protobuf": 385,
    "quix": 579,
    "registry": 585,
    "replay": 250,
    "schema": 383,
    "stream_timeouts": 336,
    "try_out": 607,
    "until": 255,
}
MOST_LINES_WITHOUT_PARTS = 20_614
MOST_LINES_OF_CORE = 9_084
MOST_LINES_OF_TESTS = 51_865
MOST_ARGUMENTS, MOST_ATTRIBUTES = 8, 12


def modules(*folders: str, of: Path = APP) -> list[Path]:
    return [path for folder in folders for path in (of / folder).rglob("*.py")]


def lines_of(*folders: str, of: Path = APP) -> int:
    return sum(len(path.read_text().splitlines()) for path in modules(*folders, of=of))


def classes() -> Iterator[ast.ClassDef]:
    for path in modules(*CORE):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and "Stored" not in map(ast.unparse, node.bases):  # a document
                yield node


def arguments_of(node: ast.ClassDef) -> int:
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            return len(method.args.args) + len(method.args.kwonlyargs) - 1
    return len(fields)


def attributes_of(node: ast.ClassDef) -> set[str]:
    fields = {
        each.target.id for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    return fields | {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Store)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
    }


def test_the_code_is_not_heavier_than_it_may_be() -> None:
    assert lines_of("") <= MOST_LINES
    assert lines_of("") - lines_of("parts") <= MOST_LINES_WITHOUT_PARTS
    parts = {path.name: lines_of(f"parts/{path.name}") for path in APP.glob("parts/[a-z]*")}
    assert parts.keys() == MOST_LINES_OF_PARTS.keys()
    assert not {name: lines for name, lines in parts.items() if lines > MOST_LINES_OF_PARTS[name]}
    assert lines_of(*CORE) <= MOST_LINES_OF_CORE
    assert lines_of("", of=TESTS) <= MOST_LINES_OF_TESTS


def test_a_bound_rises_only_where_another_falls_by_as_much() -> None:
    """Compares with the last commit and the one before it, as far as this checkout has them."""
    for commit in ("HEAD", "HEAD^"):
        command = ["git", "show", f"{commit}:tests/unit/test_budget.py"]
        former = subprocess.run(command, cwd=APP, capture_output=True, text=True, check=False).stdout
        bounds = re.findall(r"^MOST_LINES(?:_OF_TESTS)? = ([\d_]+)$", former, re.MULTILINE)
        [granted] = re.findall(r"^GRANTED = (.*)$", former, re.MULTILINE) or ["{}"]
        more = sum(GRANTED.values()) - sum(ast.literal_eval(granted).values())
        assert not bounds or sum(map(int, bounds)) + more >= MOST_LINES + MOST_LINES_OF_TESTS
    assert sum(MOST_LINES_OF_PARTS.values()) + MOST_LINES_WITHOUT_PARTS <= MOST_LINES


def test_no_class_of_the_core_is_large() -> None:
    assert not [
        node.name
        for node in classes()
        if arguments_of(node) > MOST_ARGUMENTS or len(attributes_of(node)) > MOST_ATTRIBUTES
    ]
