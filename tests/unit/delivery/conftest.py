"""Pipelines that end with their test."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.unit.delivery.pipeline_line import Line, NewLine


@pytest.fixture
def new_line(tmp_path: Path) -> Iterator[NewLine]:
    with ExitStack() as ends:

        def new(**arguments: Any) -> Line:
            line = Line(tmp_path, **arguments)
            ends.callback(line.stop)
            return line

        yield new


@pytest.fixture
def line(new_line: NewLine) -> Line:
    return new_line()
