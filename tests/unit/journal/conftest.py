"""What tests of the journal share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A store, in which no version of a document has another's ETag at the end."""
    world = World(tmp_path)
    yield world
    world.stop()
    world.check_versions()
