"""The examples of the page for who customises: code, sample records, and what becomes of them."""

import json
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dev.connector import REPO, customised

PAGE = (REPO / "docs/customise.md").read_text()
DEBEZIUM = (REPO / "docs/debezium.md").read_text()
_BLOCK = re.compile(r"^```(python|json|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\S+\.py)\n")


@dataclass
class Example:
    """A section of the page: files by their names, records and the rows of the answer of ``try``."""

    title: str
    files: dict[str, str] = field(default_factory=dict)
    records: str = ""
    answer: str = ""

    @property
    def rows(self) -> list[dict[str, Any]]:
        lines = (line for line in self.answer.splitlines() if line.startswith("row "))
        return [json.loads(line[line.index("{") :]) for line in lines]

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
