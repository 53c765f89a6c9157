"""What tests of the journal share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.journal.journal_bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A store, in which no version of a document has another's ETag at the end."""
    bench = Bench(tmp_path)
    yield bench
    bench.stop()
    bench.check_versions()
