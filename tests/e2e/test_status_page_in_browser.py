"""The status page of a connector at work, as Chromium shows it."""

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from dev.browser import Browser, Seen
from tests.e2e.conftest import NewScenario
from tests.e2e.connector import ConnectorProcess
from tests.e2e.records import records
from tests.e2e.scenario import Scenario

pytestmark = pytest.mark.java  # whose memory the page shows

BACKGROUND = "getComputedStyle(document.body).backgroundColor"
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def metrics(connector: ConnectorProcess) -> dict[str, float]:
    """The metrics without labels, and those with labels added up."""
    text = requests.get(f"http://127.0.0.1:{connector.http_port}/metrics", timeout=20).text
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


def shown(seen: Seen, name: str) -> str:
    match = re.search(rf'id="{name}">([^<]*)<', seen.html)
    assert match, f"{name} is not on the page"
    return unescape(match[1])


@pytest.fixture
def consumed(new_scenario: NewScenario) -> tuple[Scenario, ConnectorProcess]:
    """A connector that has brought 3,000 records of two partitions into the lake, and one into the dead letter."""
    scenario = new_scenario(partitions=2)
    scenario.produce(records(3_000, partitions=2))
    scenario.produce([(None, b"no JSON", None, 0)])
    connector = scenario.connector()
    scenario.wait_until_committed(3_001, by=connector)

    def is_told() -> bool:
        told = metrics(connector)
        return told["lake_sink_rows_total"] == 3_000 and told.get("lake_sink_lag_messages") == 0

    connector.wait_until(is_told, "all rows and no lag in the metrics")
    return scenario, connector


def test_the_page_of_a_running_connector(
    consumed: tuple[Scenario, ConnectorProcess], browser: Browser, tmp_path: Path
) -> None:
    scenario, connector = consumed
    url = f"http://127.0.0.1:{connector.http_port}/"
    look: Callable[..., Seen] = lambda **how: browser.look(url, BACKGROUND, TOO_WIDE, **how)  # noqa: E731
    light, dark, phone = look(), look(dark=True), look(width=390, height=844)
    told = metrics(connector)

    for name, seen in {"light": light, "dark": dark, "phone": phone}.items():
        (tmp_path / f"{name}.png").write_bytes(seen.picture)
        assert seen.complaints == []
        assert seen.answers[TOO_WIDE] == 0
        assert {address for address in seen.requested if not address.startswith("data:")} == {url}
        assert shown(seen, "state") == "Consuming"
        assert shown(seen, "rows") == f"{told['lake_sink_rows_total']:,.0f}" == "3,000"
        assert shown(seen, "files") == f"{told['lake_sink_files_total']:,.0f}"
        assert shown(seen, "lag") == f"{told['lake_sink_lag_messages']:,.0f}" == "0"
        assert shown(seen, "dead-letters") == f"{told['lake_sink_dead_letters_total']:,.0f}" == "1"
        assert scenario.topic in seen.html
        assert f"{scenario.topic}[1]" in seen.html
        assert "goes to the dead letter" in seen.html
        assert seen.picture.startswith(b"\x89PNG")
    assert light.answers[BACKGROUND] != dark.answers[BACKGROUND]
    assert told["lake_sink_files_total"] == len(scenario.lake.files())
    assert told["lake_sink_bytes_total"] == sum(path.stat().st_size for path in scenario.lake.files())
