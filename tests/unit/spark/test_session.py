"""The advice for errors of Spark that come from the temporary folder."""

import os
from types import SimpleNamespace

import pytest

from app.spark.session import hint_of


@pytest.mark.parametrize(
    ("error", "flags", "hint"),
    [
        ("java.lang.UnsatisfiedLinkError: /tmp/x.so: failed to map segment", os.ST_NOEXEC, "which is mounted noexec"),
        ("java.lang.UnsatisfiedLinkError: /tmp/x.so: wrong ELF class", 0, ""),
        ("java.io.IOException: No space left on device", os.ST_NOEXEC, "The temporary folder is full"),
        ("java.lang.IllegalStateException: no", os.ST_NOEXEC, ""),
    ],
)
def test_the_cause_is_named(monkeypatch: pytest.MonkeyPatch, error: str, flags: int, hint: str) -> None:
    monkeypatch.setattr("os.statvfs", lambda _: SimpleNamespace(f_flag=flags))
    found = hint_of(RuntimeError(error))
    assert hint in found
    assert bool(found) == bool(hint)
