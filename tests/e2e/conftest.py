"""What the scenarios share: the way to set one up, and a quick start for Java."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from dev.broker import Broker
from tests.e2e.scenario import Scenario

NewScenario = Callable[..., Scenario]


@pytest.fixture
def scenario(new_scenario: NewScenario) -> Scenario:
    return new_scenario()


@pytest.fixture
def new_scenario(request: pytest.FixtureRequest, kafka: Broker, tmp_path: Path) -> Iterator[NewScenario]:
    """Makes scenarios: ``new_scenario(partitions=3)``; with Java for tests that are marked so."""
    java = request.node.get_closest_marker("java") is not None
    if java:
        request.getfixturevalue("parsed_classes")
    with ExitStack() as ends:

        def new(partitions: int = 1) -> Scenario:
            made = Scenario(kafka, tmp_path, partitions, java=java)
            return ends.enter_context(closing(made))

        yield new
