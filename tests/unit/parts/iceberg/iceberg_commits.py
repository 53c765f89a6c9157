"""What happens before or after a commit to the catalog of ``IcebergBench``."""

from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog


def commits(monkeypatch: pytest.MonkeyPatch, *, before: Any = None, after: Any = None) -> list[int]:
    """Let these happen before or after each commit that the catalog carries out; returns a count of commits."""
    commit, count = SqlCatalog.commit_table, [0]

    def committed(*args: Any) -> Any:
        count[0] += 1
        if before:
            before(count[0])
        answer = commit(*args)
        if after:
            after(count[0])
        return answer

    monkeypatch.setattr(SqlCatalog, "commit_table", committed)
    return count
