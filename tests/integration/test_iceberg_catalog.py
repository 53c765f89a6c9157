"""What a member asks of a real REST catalog, for tables of any kind."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from app.errors import ConfigError
from app.parts.iceberg.rewrite import Rewrite
from dev.iceberg_catalog import LocalIcebergCatalog
from tests.unit.parts.iceberg.iceberg_bench import ROOT, IcebergBench, marks


@pytest.fixture
def namespace() -> str:
    return f"n{uuid.uuid4().hex[:8]}"


@pytest.fixture
def bench(tmp_path: Path, iceberg_catalog: LocalIcebergCatalog, namespace: str) -> IcebergBench:
    return IcebergBench(tmp_path, {"uri": iceberg_catalog.url}, namespace)


def test_old_partitions_go_by_one_commit_while_a_member_commits(
    tmp_path: Path, iceberg_catalog: LocalIcebergCatalog, namespace: str
) -> None:
    bench = IcebergBench(tmp_path, {"uri": iceberg_catalog.url}, namespace, "year")
    member = bench.member()
    for n, year in enumerate(("2019", "2020", "2999", None)):
        member.add_files([bench.file(f"first {n}", {"n": [n]}, year)], "readings", marks(n))
    rewrite = Rewrite(bench.member(), bench.store, None, 0)
    old = [file for file in rewrite.files() if any((values["year"] or "") < "2021" for _, values in file.times)]

    def write() -> None:
        for n in range(10, 30):
            member.add_files([bench.file(str(n), {"n": [n]}, "2999")], "readings", marks(n))

    with ThreadPoolExecutor(1) as thread:
        writing = thread.submit(write)
        rewrite.commit([], old)
        writing.result()
    assert sorted(row["n"] for row in bench.rows("n")) == [2, 3, *range(10, 30)]
    operations = [its.summary.operation.value for its in bench.table.snapshots() if its.summary]
    assert operations.count("delete") == 1


@pytest.mark.night
def test_a_namespace_of_levels_is_created_level_by_level(
    tmp_path: Path, iceberg_catalog: LocalIcebergCatalog, namespace: str
) -> None:
    bench = IcebergBench(tmp_path, {"uri": iceberg_catalog.url}, f"{namespace}.b")
    bench.member().add_files([bench.file("one", {"n": [1]})], "readings", marks(0))
    bench.member().add_files([bench.file("two", {"n": [2]})], "readings", marks(1))
    assert bench.table.name() == (namespace, "b", "readings")
    assert [row["n"] for row in bench.rows("n")] == [1, 2]


@pytest.mark.night
def test_a_table_of_format_version_3_is_refused(bench: IcebergBench, namespace: str) -> None:
    catalog = load_catalog("default", **bench.properties)
    catalog.create_namespace(namespace)
    schema = Schema(NestedField(1, "place", StringType(), required=False))
    place = f"{bench.store.uri}/{ROOT}"
    catalog.create_table((namespace, "readings"), schema, place, properties={"format-version": "3"})
    with pytest.raises(ConfigError, match=r"readings: it has format version 3.*TABLE_NAME"):
        bench.member()
