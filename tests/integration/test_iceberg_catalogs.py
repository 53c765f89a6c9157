"""Kinds of catalogs that pyiceberg's own variables name: each batch is in the table once."""

import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dev.glue import LocalGlue
from dev.other_packages import other_packages
from tests.unit.parts.iceberg.iceberg_bench import P0, P1, IcebergBench, marks

POSTGRESQL = ("pgserver==0.1.4", "psycopg2-binary==2.9.13")
BATCHES = 6

Properties = Mapping[str, str]


@pytest.fixture
def glue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Properties]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "local")
    with LocalGlue() as server:
        yield {"type": "glue", "glue.endpoint": server.endpoint_url, "glue.region": "eu-west-1"}


@pytest.fixture
def postgresql(monkeypatch: pytest.MonkeyPatch) -> Iterator[Properties]:
    monkeypatch.syspath_prepend(str(other_packages("postgresql-16", POSTGRESQL, "fetching PostgreSQL once, 16 MB")))
    with warnings.catch_warnings(action="ignore"):  # of classes that only this process has
        import pgserver  # noqa: PLC0415 - fetched above

        # The name of a socket takes 107 bytes.
        with TemporaryDirectory(prefix="pg-") as folder, pgserver.get_server(folder) as server:
            yield {"type": "sql", "uri": server.get_uri().replace("postgresql:", "postgresql+psycopg2:")}


@pytest.mark.parametrize("kind", ["glue", "postgresql"])
def test_two_members_add_each_batch_once(tmp_path: Path, request: pytest.FixtureRequest, kind: str) -> None:
    (tmp_path / "lake").mkdir()
    bench = IcebergBench(tmp_path / "lake", request.getfixturevalue(kind))
    bench.member()

    def write(tp: int) -> None:
        member = bench.member()
        for number in range(BATCHES):
            files = [bench.file(f"{tp}-{number}", {"n": [number], f"of_{tp}": [number]})]
            for _ in range(2):  # as after a lost answer
                member.add_files(files, "readings", marks(number, tps=[(P0, P1)[tp]]))

    with ThreadPoolExecutor(1 if kind == "glue" else 2) as threads:  # moto does not compare the versions of a table
        list(threads.map(write, (0, 1)))
    assert sorted(row["n"] for row in bench.rows("n")) == sorted([*range(BATCHES)] * 2)
    assert [field.name for field in bench.table.spec().fields] == ["place"]
