"""What a user may do with records on their way: deserialize, filter, change and split them."""

from datetime import UTC, datetime
from pathlib import Path

from dev.connector import customised
from tests.e2e.records import records
from tests.e2e.scenario import Scenario

FIRST_MS = 1_704_067_200_000

TRANSFORM = """
from datetime import datetime, timedelta, timezone


def transform(sdf):
    sdf = sdf[sdf["n"] % 10 != 3]
    sdf["fahrenheit"] = sdf["temperature"] * 1.8 + 32
    sdf["seen"] = sdf.apply(lambda value: datetime(2024, 1, 1, 12, tzinfo=timezone(timedelta(hours=2))))
    sdf = sdf.apply(lambda value: [dict(value, part=part) for part in range(value["n"] % 3)], expand=True)
    return sdf
"""


def test_a_transform_that_filters_adds_and_splits(scenario: Scenario, tmp_path: Path) -> None:
    scenario.produce(records(3_000))
    connector = scenario.connector(root=customised(tmp_path / "app tree", TRANSFORM), BATCH_SIZE="100")
    # The last two records leave no row: one is split into none. Their offsets are committed all the same.
    scenario.wait_until_committed(3_000, by=connector)
    assert connector.stop() == 0

    rows = scenario.lake.query(
        "SELECT n, part, temperature, fahrenheit, epoch_ms(seen), __key FROM {source} ORDER BY n, part"
    )
    assert [row[:2] for row in rows] == [(n, part) for n in range(3_000) if n % 10 != 3 for part in range(n % 3)]
    assert all(fahrenheit == temperature * 1.8 + 32 for _, _, temperature, fahrenheit, _, _ in rows)
    assert {seen for *_, seen, _ in rows} == {datetime(2024, 1, 1, 10, tzinfo=UTC).timestamp() * 1000}
    assert all(key == f"device-{n % 10}" for n, *_, key in rows)
    assert not connector.complaints()
