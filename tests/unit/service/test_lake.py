"""What is told of a table as it is opened."""

from pathlib import Path

import pytest

from app.service.lake import new_lake, new_location, new_store
from tests.support.environment import load


@pytest.mark.parametrize(("columns", "told"), [("__key,_x,year", "__key, _x"), ("location,year", None)])
def test_folders_that_some_engines_skip_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, columns: str, told: str | None
) -> None:
    settings = load(S3_BUCKET="", STORAGE_URL=f"file://{tmp_path}", HIVE_COLUMNS=columns)
    store = new_store(settings)
    new_lake(settings, store, new_location(settings, store, None))
    warnings = [message for message in caplog.messages if "HIVE_COLUMNS" in message]
    assert len(warnings) == bool(told)
    assert told is None or told in warnings[0]
