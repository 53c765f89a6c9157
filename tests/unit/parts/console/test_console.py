"""Since when the page says that the state is what it is, and which pages are served."""

import re

import pytest
import requests

from app.errors import RetryableError
from app.monitoring.status import Live
from app.parts.console.console import Console
from dev.server import free_ports
from tests.unit.monitoring import test_monitor
from tests.unit.monitoring.test_monitor import TP


class Bench(test_monitor.Bench):
    """Its console."""

    def __init__(self, *, has_tables: bool = False) -> None:
        super().__init__(has_tables=has_tables)
        self.end = 0

    def live_for(self, seconds: int, *, commits: bool) -> None:
        """Records come all the time. The monitor samples before each commit."""
        for _ in range(0, seconds, 5):
            self.clock.advance(5)
            self.end += 50
            self.metrics.reaches({TP: self.end})
            self.monitor.sample()
            if commits:
                self.metrics.committed({TP: self.end})

    @property
    def page(self) -> str:
        [console] = self.monitor.consoles
        assert isinstance(console, Console)
        return bytes(console.page().body).decode()

    def shown(self, id: str) -> str:  # noqa: A002 - HTML's own name
        found = re.search(rf'id="{id}">(.*?)<', self.page)
        assert found
        return found[1]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_the_page_says_since_when_the_state_is_what_it_is(bench: Bench) -> None:
    bench.clock.advance(5)
    bench.monitor.sample()
    bench.clock.advance(125)
    assert bench.shown("since").startswith("for 2 min 5 s,")
    bench.live = Live("stopping")
    assert bench.shown("since").startswith("for 0 s,")


def test_a_lag_that_does_not_shrink_is_told_since_the_last_commit_of_all(bench: Bench) -> None:
    bench.live_for(60, commits=True)
    bench.live_for(120, commits=False)
    assert bench.shown("headline") == "Running, but the lag does not shrink"
    assert bench.shown("since").startswith("for 1 min 55 s,"), "the records that wait came 5 s after the last commit"
    bench.live_for(60, commits=False)
    assert bench.shown("since").startswith("for 2 min 55 s,")


def test_what_an_outage_left_behind_is_no_lag_that_does_not_shrink(bench: Bench) -> None:
    bench.live_for(60, commits=True)
    bench.metrics.waits.failed(RetryableError("uploading", "503").of("store"))
    bench.live_for(120, commits=False)
    assert bench.shown("headline") == "The store is not available"
    bench.metrics.waits.over()
    bench.live_for(5, commits=False)
    assert bench.shown("headline") == "Running: catching up"


def test_the_page_of_each_of_several_tables_is_served() -> None:
    [port] = free_ports(1)
    Bench(has_tables=True).monitor.serve("127.0.0.1", port, [])

    def answer(path: str) -> requests.Response:
        return requests.get(f"http://127.0.0.1:{port}/{path}", timeout=20)

    titles = re.findall(r"<h\d>(?:<a[^>]*>Quix TS Datalake Sink</a>: )?([^<]*)", answer("table-sensors").text)
    assert "sensors" in titles
    assert answer("table-gone").status_code == 404, "another replica may have it now"
