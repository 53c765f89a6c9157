"""The page for who customises keeps its word: each example is put through what it says, and gives what it says."""

import ast
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import quixstreams

from app.config.settings import VARIABLES
from dev.connector import REPO, customised, environment
from tests.services.main_process import run_main

PAGE = (REPO / "docs/customise.md").read_text()
DEBEZIUM = (REPO / "docs/debezium.md").read_text()
_BLOCK = re.compile(r"^```(python|json|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\S+\.py)\n")


@dataclass
class Example:
    """A section of the page: files by their names, records and the answer of ``try``."""

    title: str
    files: dict[str, str] = field(default_factory=dict)
    records: str = ""
    answer: str = ""

    @property
    def takes_keys(self) -> bool:
        """Whether its records come with their keys."""
        return '"value":' in self.records

    def tree(self, folder: Path) -> Path:
        tree = customised(folder, self.files["app/transform.py"])
        for name, text in self.files.items():
            (tree / name).write_text(text)
        with sqlite3.connect(tree / "app" / "devices.db") as devices:
            devices.execute("CREATE TABLE devices (id TEXT, place TEXT, floor INTEGER)")
            devices.executemany("INSERT INTO devices VALUES (?, ?, ?)", [("a", "kitchen", 0), ("b", "cellar", -1)])
        return tree


def examples() -> Iterator[Example]:
    """All sections that have any code."""
    for section in (*PAGE.split("\n## ")[1:], *DEBEZIUM.split("\n## ")[1:]):
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


ALL = {example.title: example for example in examples()}
TRIED = {title: example for title, example in ALL.items() if example.answer}


SINK = "core/quix_ts_datalake_sink.py"


def test_the_page_has_an_example_of_each_kind() -> None:
    assert len(TRIED) == 7


@pytest.mark.parametrize("example", TRIED.values(), ids=TRIED)
def test_an_example_gives_what_the_page_says(example: Example, tmp_path: Path) -> None:
    arguments = ["--envelope"] if example.takes_keys else []
    settings = {"HIVE_COLUMNS": "room"} if "room=" in example.answer else {}
    tree = example.tree(tmp_path / "tree")
    main, variables = [str(tree / "main.py")], environment(settings)
    done = run_main("try", *arguments, main=main, environment=variables, records=example.records, folder=tree)
    lines = example.answer.splitlines()
    told = done.stdout.splitlines()
    assert told[: len(lines)] == lines
    # the page shows once how they are counted
    assert not [line for line in told[len(lines) :] if line.startswith(("row ", "bad ", "none ", "sent "))]
    [way] = done.stderr.splitlines()  # through which loop it goes
    assert way.startswith("transform() ")
    assert done.returncode == (1 if "\nbad " in example.answer else 0)


def test_the_test_of_the_page_passes(tmp_path: Path) -> None:
    tree = ALL["Modules of your own"].tree(tmp_path / "tree")
    (tree / "test_transform.py").write_text(ALL["Tests"].files["test_transform.py"])
    pytest_quietly = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
    variables = environment({"PYTEST_ADDOPTS": ""})
    done = run_main("test_transform.py", main=pytest_quietly, environment=variables, folder=tree)
    assert done.returncode == 0, done.stdout + done.stderr


# --- who knows the dependency's sink --------------------------------------------------------------------------------


def test_the_table_of_parameters_is_that_of_the_sink() -> None:
    """Its class can be imported with a private package alone, so its source is read."""
    source = ast.parse(Path(quixstreams.__file__).with_name("sinks").joinpath(SINK).read_text())
    [sink] = [node for node in ast.walk(source) if isinstance(node, ast.ClassDef) and node.name == "QuixTSDataLakeSink"]
    [made] = [node for node in sink.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    parameters = [each.arg for each in made.args.args if each.arg != "self" and not each.arg.startswith("_")]
    page = (REPO / "docs/coming-from-another-sink.md").read_text()
    section = page.partition("\n## QuixTSDataLakeSink\n")[2].partition("\n##")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row[0])) == sorted(parameters)
    named = {name for row in rows for name in re.findall(r"`([A-Z][A-Z0-9_]+|Quix__\w+)`", row[1])}
    assert named <= set(VARIABLES) | {"LOGLEVEL"}
