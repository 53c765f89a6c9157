"""What a test needs and cannot have: skipped for a person, a failure where ``CI`` is set."""

import os
from typing import NoReturn

import pytest


def cannot_run(reason: str) -> NoReturn:
    """End the test; no test passes by being skipped where ``CI`` is set."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
