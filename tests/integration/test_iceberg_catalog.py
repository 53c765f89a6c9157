"""What members ask of a real REST catalog: at the same time, behind a login, and for tables that are not theirs."""

import multiprocessing
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import TypeVar

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType
from pyiceberg.utils.config import Config

from app.errors import ConfigError, FatalError, RetryableError
from app.model import DataFile, Mark
from dev.iceberg_catalog import LocalIcebergCatalog
from tests.fakes.oauth_gate import CLIENT, OTHER_TOKENS, SECRET, TOKENS, OAuthGate
from tests.support.environment import load
from tests.support.waiting import PATIENCE, wait_until
from tests.unit.catalog.iceberg_bench import ROOT, IcebergBench, marks

MEMBERS, BATCHES = 8, 30
T = TypeVar("T")


@pytest.fixture
def namespace() -> str:
    return f"n{uuid.uuid4().hex[:8]}"


@pytest.fixture
def bench(tmp_path: Path, iceberg_catalog: LocalIcebergCatalog, namespace: str) -> IcebergBench:
    return IcebergBench(tmp_path, {"uri": iceberg_catalog.url}, namespace)


@pytest.fixture
def gate(iceberg_catalog: LocalIcebergCatalog) -> Iterator[OAuthGate]:
    with OAuthGate(iceberg_catalog.url) as running:
        yield running


def behind(gate: OAuthGate, secret: str) -> Mapping[str, str]:
    """The properties that the connector makes of its settings."""
    target = load(
        CATALOG_TYPE="iceberg", CATALOG_URL=gate.url, CATALOG_CLIENT_ID=CLIENT, CATALOG_CLIENT_SECRET=secret
    ).iceberg
    assert target is not None
    return target.properties


@pytest.mark.night  # loads pyiceberg eight times; threads in tests/unit/catalog are for every day
def test_processes_that_register_the_same_batches_at_once_register_each_once(
    bench: IcebergBench, tmp_path: Path, namespace: str
) -> None:
    batches = [([bench.file(f"batch-{n}", {"n": [n]})], marks(n)) for n in range(BATCHES)]
    spawn = multiprocessing.get_context("spawn")
    all_ready = spawn.Barrier(MEMBERS)
    members = [
        spawn.Process(target=register, args=(tmp_path, bench.properties, namespace, batches, all_ready))
        for _ in range(MEMBERS)
    ]
    for member in members:
        member.start()
    wait_until(lambda: all(member.exitcode is not None for member in members), "the end of all members")
    assert [member.exitcode for member in members] == [0] * MEMBERS
    assert sorted(row["n"] for row in bench.rows("n")) == list(range(BATCHES))
    assert bench.table.inspect.files().num_rows == BATCHES


def register(
    folder: Path,
    properties: Mapping[str, str],
    namespace: str,
    batches: Sequence[tuple[Sequence[DataFile], Sequence[Mark]]],
    all_ready: Barrier,
) -> None:
    """Work as one member; the table is created by the quickest of them."""
    all_ready.wait(PATIENCE)
    member = patiently(IcebergBench(folder, properties, namespace).member)
    for files, of_batch in batches:
        patiently(partial(member.add_files, files, "readings", of_batch))


def patiently(ask: Callable[[], T]) -> T:
    """The answer, however often the catalog is to be asked; the connector tries again too."""
    answers: list[T] = []

    def has_answered() -> bool:
        with suppress(RetryableError):
            answers.append(ask())
        return bool(answers)

    wait_until(has_answered, "an answer of the catalog", pause=0)
    return answers[0]


@pytest.mark.parametrize("address", [TOKENS, pytest.param(OTHER_TOKENS, marks=pytest.mark.night)])
def test_a_login_is_a_token_that_is_fetched_again_when_it_has_run_out(
    tmp_path: Path, gate: OAuthGate, namespace: str, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    named = {}
    if address != TOKENS:
        with monkeypatch.context() as variables:  # pyiceberg has read its variables when it was imported
            variables.setenv("PYICEBERG_CATALOG__DEFAULT__OAUTH2_SERVER_URI", f"{gate.url}{address}")
            read = Config().get_catalog_config("default") or {}
        named = {name: str(value) for name, value in read.items()}
    bench = IcebergBench(tmp_path, {**behind(gate, SECRET), **named}, namespace)
    member = bench.member()
    member.add_files([bench.file("one", {"n": [1]})], "readings", marks(0))
    issued = gate.issued  # pyiceberg asks twice when it begins
    assert (issued > 0, gate.refused) == (True, 0)
    gate.expire()
    member.add_files([bench.file("two", {"n": [2]})], "readings", marks(1))
    assert (gate.issued, gate.refused, gate.asked) == (issued + 1, 1, {address})
    assert [row["n"] for row in bench.rows("n")] == [1, 2]


@pytest.mark.night
def test_a_wrong_login_is_named_without_its_secret(tmp_path: Path, gate: OAuthGate, namespace: str) -> None:
    with pytest.raises(FatalError, match=r"invalid_client.*CATALOG_CLIENT_ID") as caught:
        IcebergBench(tmp_path, behind(gate, "wrong-secret"), namespace).member()
    assert "wrong-secret" not in str(caught.value)


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
