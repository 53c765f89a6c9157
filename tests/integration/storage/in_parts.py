"""Files that are large enough to go in parts, where parts are as small as S3 allows."""

import random

import pytest

PART = 5 << 20
LARGE = random.Random(7).randbytes(2 * PART + 100)  # noqa: S311 - two whole parts and a rest


def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send files in parts from the size of one on."""
    monkeypatch.setattr("app.storage.s3.upload.PART_BYTES", PART)
    monkeypatch.setattr("app.storage.s3.upload._LARGEST_SINGLE", PART)
