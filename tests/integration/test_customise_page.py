"""The page for who customises keeps its word: each example is put through what it says, and gives what it says."""

import ast
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import quixstreams

from app.variables import Variables
from tests.e2e.connector import REPO
from tests.e2e.scenario import customised

SINK = "core/quix_ts_datalake_sink.py"
PAGE = (REPO / "docs/customise.md").read_text()
_BLOCK = re.compile(r"^```(python|json|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\S+\.py)\n")


@dataclass
class Example:
    """A section of the page: files by their names, records and the answer of ``try``."""

    title: str
    files: dict[str, str] = field(default_factory=dict)
    records: str = ""
    answer: str = ""

    def tree(self, folder: Path) -> Path:
        """A copy of the connector with its files."""
        tree = customised(folder, self.files["app/transform.py"])
        for name, text in self.files.items():
            (tree / name).write_text(text)
        with sqlite3.connect(tree / "app" / "devices.db") as devices:
            devices.execute("CREATE TABLE devices (id TEXT, place TEXT, floor INTEGER)")
            devices.executemany("INSERT INTO devices VALUES (?, ?, ?)", [("a", "kitchen", 0), ("b", "cellar", -1)])
        return tree


def examples() -> Iterator[Example]:
    """All sections that have any code."""
    for section in PAGE.split("\n## ")[1:]:
        example = Example(section.split("\n")[0])
        for kind, text in _BLOCK.findall(section):
            named = _FILE.match(text)
            if kind == "python":
                example.files[named[1] if named else "app/transform.py"] = text
            elif kind == "json":
                example.records = text
            else:
                example.answer = text
        if example.files:
            yield example


TRIED = {example.title: example for example in examples() if example.answer}
TESTS = next(example for example in examples() if "test_transform.py" in example.files)


def environment(**settings: str) -> dict[str, str]:
    """Nothing of the connector's is set but this."""
    return {**os.environ, **{str(each.validation_alias): "" for each in Variables.model_fields.values()}, **settings}


def tried(tree: Path, records: str, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "main.py", "try", *arguments],
        cwd=tree,
        env=environment(**settings),
        input=records,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_page_has_an_example_of_each_kind() -> None:
    assert list(TRIED) == [
        "Filter, and add fields",
        "One record into several",
        "State",
        "Windows",
        "Another topic beside the table",
        "A second sink",
        "Look something up",
        "Modules of your own",
    ]


@pytest.mark.parametrize("example", TRIED.values(), ids=TRIED)
def test_an_example_gives_what_the_page_says(example: Example, tmp_path: Path) -> None:
    arguments = ["--envelope"] if '"value":' in example.records else []
    settings = {"HIVE_COLUMNS": "room"} if "room=" in example.answer else {}
    done = tried(example.tree(tmp_path / "tree"), example.records, *arguments, **settings)
    assert (done.stdout, done.stderr) == (example.answer, "")
    assert done.returncode == (1 if "\nbad " in example.answer else 0)


def test_the_test_of_the_page_passes(tmp_path: Path) -> None:
    tree = TRIED["Modules of your own"].tree(tmp_path / "tree")
    (tree / "test_transform.py").write_text(TESTS.files["test_transform.py"])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_transform.py"],
        cwd=tree,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_installs_what_requirements_txt_says() -> None:
    dockerfile = (REPO / "Dockerfile").read_text()
    assert re.search(r"^COPY requirements\.txt ", dockerfile, re.MULTILINE)
    assert re.search(r"install .*--requirement \S*/requirements\.txt", dockerfile)


# --- who knows the dependency's sink --------------------------------------------------------------------------------


def test_the_table_of_parameters_is_that_of_the_sink() -> None:
    """Its class can be imported with a private package alone, so its source is read."""
    source = ast.parse(Path(quixstreams.__file__).with_name("sinks").joinpath(SINK).read_text())
    [sink] = [node for node in ast.walk(source) if isinstance(node, ast.ClassDef) and node.name == "QuixTSDataLakeSink"]
    [made] = [node for node in sink.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    parameters = [each.arg for each in made.args.args if each.arg != "self" and not each.arg.startswith("_")]
    section = PAGE.split("\n## If you know QuixTSDataLakeSink")[1]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row[0])) == sorted(parameters)
    named = {name for row in rows for name in re.findall(r"`([A-Z][A-Z0-9_]+|Quix__\w+)`", row[1])}
    assert named <= {str(each.validation_alias) for each in Variables.model_fields.values()} | {"LOGLEVEL"}
