"""Which topic has a table where a catalog has one for several of them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.config.settings import Settings
from app.delivery.runtime import Runtime
from app.errors import ConnectorError
from app.journal.entry import claim_key
from app.model import TopicPartition
from app.monitoring.metrics import Metrics
from app.service.formats import new_batch_limits
from app.service.lake import Lake, new_store
from app.service.tables import Tables
from app.timings import Timings
from tests.fakes.catalog_contract import Table
from tests.fakes.catalog_server import CatalogServer
from tests.support.environment import load


class Bench:
    """Opens tables as a process does; ``start`` begins another one on the same store and catalog."""

    def __init__(self, tmp_path: Path, catalog: CatalogServer, topics: str) -> None:
        self.catalog = catalog
        self.scratch = tmp_path / "scratch"
        self.scratch.mkdir()
        self.settings: Settings = load(
            input=topics,
            STORAGE_URL=(tmp_path / "lake").as_uri(),
            S3_BUCKET="",
            CREATE_BUCKET="true",
            CATALOG_URL=catalog.url,
            CATALOG_AUTH_TOKEN=catalog.token,
        )
        self.store = new_store(self.settings)
        self.start()

    def start(self) -> None:
        timings = Timings(start_patience_seconds=0.0)
        connector: Any = SimpleNamespace(
            settings=self.settings,
            runtime=Runtime(self.scratch, Metrics(timings=timings), timings),
            records=SimpleNamespace(limits=new_batch_limits(self.settings, timings, self.scratch)),
            store=self.store,
        )
        group: Any = SimpleNamespace(name="group")
        self.tables = Tables(connector, group, "", self._new_member)

    def _new_member(self, _: Settings, lake: Lake, *__: object) -> Any:
        return SimpleNamespace(lake=lake, stop=lambda: None)

    def opened(self, topic: str) -> Lake | str:
        found: Any = self.tables.open(topic, False).result()
        return found if isinstance(found, str) else found.member.lake

    def written(self, topic: str) -> str | None:
        """Open the table and register it as for its first batch; returns its folder, or ``None`` if it is left out."""
        lake = self.opened(topic)
        if isinstance(lake, str):
            return None
        lake.registrar.prepare()
        return lake.location.root


NewBench = Callable[..., Bench]


@pytest.fixture
def new_bench(tmp_path: Path) -> Iterator[NewBench]:
    with ExitStack() as ends:

        def new(topics: str = "Orders,orders", *, folds: bool = True) -> Bench:
            catalog = ends.enter_context(CatalogServer(folds=folds))
            return Bench(tmp_path, catalog, topics)

        yield new


@pytest.mark.parametrize(("first", "second"), [("Orders", "orders"), ("orders", "Orders")])
def test_the_topic_that_came_first_keeps_the_table_over_restarts(new_bench: NewBench, first: str, second: str) -> None:
    bench = new_bench()
    assert bench.written(first) == f"data/{first}"
    for topics in ((second, first), (first, second)):
        bench.start()
        assert {topic: bench.written(topic) for topic in topics} == {first: f"data/{first}", second: None}
    left_out = bench.opened(second)
    assert isinstance(left_out, str)
    assert f"belongs to topic {first}" in left_out


def test_of_two_that_are_opened_at_once_the_second_to_write_is_left_out(new_bench: NewBench) -> None:
    bench = new_bench()
    lakes = [bench.opened(topic) for topic in ("orders", "Orders")]
    assert all(isinstance(lake, Lake) for lake in lakes)
    first, second = (lake for lake in lakes if isinstance(lake, Lake))
    second.registrar.prepare()
    with pytest.raises(ConnectorError, match="meanwhile another writer has registered it at"):
        first.registrar.prepare()
    assert [bench.written(topic) for topic in ("orders", "Orders")] == [None, "data/Orders"]


@pytest.mark.parametrize("opened", ["Orders", "orders"])
def test_a_table_of_an_earlier_release_stays_that_of_the_topic_with_its_name(new_bench: NewBench, opened: str) -> None:
    bench = new_bench()
    lake = bench.opened("Orders")
    assert isinstance(lake, Lake)
    lake.registrar.prepare()
    for topic in ("Orders", "orders"):  # both were written into it
        bench.store.overwrite(claim_key("data/Orders", "group", TopicPartition(topic, 0)), b"{}")
    bench.store.delete("data/Orders/_journal/group/first-topics.json")
    bench.start()
    assert (bench.written(opened) is None) == (opened == "orders")
    assert [bench.written(topic) for topic in ("orders", "Orders")] == [None, "data/Orders"]


@pytest.mark.parametrize(("topics", "folds"), [("Orders,orders", False), ("a.b,a_b", True)])
def test_names_that_the_catalog_tells_apart_have_tables_of_their_own(
    new_bench: NewBench,
    topics: str,
    folds: bool,
) -> None:
    bench, names = new_bench(topics, folds=folds), topics.split(",")
    for _ in range(2):
        assert [bench.written(topic) for topic in names] == [f"data/{topic}" for topic in names]
        bench.start()


def test_a_table_that_the_catalog_has_elsewhere_is_that_of_its_topic(new_bench: NewBench) -> None:
    bench = new_bench("orders,payments")
    bench.catalog.tables["default.orders"] = Table(f"{bench.store.uri}/data/sales", [], {})
    for _ in range(2):
        assert [bench.written(topic) for topic in ("payments", "orders")] == ["data/payments", "data/sales"]
        bench.start()
