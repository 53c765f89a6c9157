"""What a user may do with records on their way: deserialize, filter, change and split them."""

import json
import struct
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq

from tests.e2e.records import records
from tests.e2e.scenario import Scenario, customised

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


def test_keys_of_any_type_and_records_of_any_shape(scenario: Scenario, tmp_path: Path) -> None:
    values = [
        {"ts_ms": FIRST_MS, "a": 1, "A": "x", "nested": {"list": [1, 2], "empty": {}}, "temp (C)": 1.5},
        {"a": 2, "nested": None, "late": True, "year": "no number", "": "nameless"},
        {"ts_ms": None, "a": None},
        {},
    ]
    keys = [7, -1, 2**31 - 1, 0]
    stamps = [FIRST_MS + n * 86_400_000 for n in range(4)]
    scenario.produce(
        (struct.pack(">i", key), json.dumps(value), stamp, 0)
        for key, value, stamp in zip(keys, values, stamps, strict=True)
    )
    connector = scenario.connector(KAFKA_KEY_DESERIALIZER="int", HIVE_COLUMNS="year,day,late", BATCH_SIZE="4")
    scenario.wait_until_committed(4, by=connector)
    assert connector.stop() == 0

    files = scenario.lake.files()
    folders = {str(file.parent.relative_to(scenario.lake.folder)) for file in files}
    null = "__HIVE_DEFAULT_PARTITION__"
    assert folders == {
        f"year=2024/day=01/late={null}",
        "year=2024/day=02/late=True",  # by the Kafka timestamp, for it has none of its own
        f"year={null}/day={null}/late={null}",
        f"year=2024/day=04/late={null}",
    }
    rows = {row["__key"]: row for file in files for row in pq.ParquetFile(file).read().to_pylist()}
    assert set(rows) == set(keys)
    assert rows[7]["ts_ms"] == FIRST_MS
    assert rows[-1]["ts_ms"] == stamps[1]
    assert rows[2**31 - 1]["ts_ms"] is None
    assert rows[0]["ts_ms"] == stamps[3]
    assert rows[7]["nested"] == {"list": [1, 2]}
    assert (rows[7]["a"], rows[7]["temp (C)"]) == (1, 1.5)
    assert json.loads(rows[-1]["_rescued_data"])[""] == "nameless"
    assert json.loads(rows[7]["_rescued_data"]) == {"A": "x"}  # most readers take it for the column "a"
    assert all("year" not in row for row in rows.values())
