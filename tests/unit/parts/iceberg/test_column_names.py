"""Rows under the names that engines have given to the columns of the table."""

from typing import Any

import pyarrow as pa
import pytest

from app.errors import ConfigError
from app.parts.iceberg.column_names import KnownColumns

TEMP = pa.field("temp", pa.float64())
FIELDS = {"temp": TEMP, "temperature": TEMP, "secret": None, "town": pa.field("place", pa.string())}


@pytest.mark.parametrize(
    ("rows", "stored", "left_out"),
    [
        ({"n": [1, 2], "temp": [1.5, None]}, {"n": [1, 2], "temp": [1.5, None]}, []),
        ({"temperature": pa.array([1, None])}, {"temp": [1.0, None]}, []),
        ({"temp": [1.5, None, None], "temperature": [None, 2.5, None]}, {"temp": [1.5, 2.5, None]}, []),
        (
            {"temperature": [1, None, 3], "temp": [None, 2.5, 4.5]},
            {"temp": [1.0, 2.5, 3.0]},
            ["1 value dropped from column 'temp'"],
        ),
        ({"temperature": [1.0, None], "temp": [None, 2]}, {"temp": [1.0, 2.0]}, []),
        ({"temperature": ["hot", None], "n": [1, 2]}, {"n": [1, 2]}, ["1 value dropped from column 'temperature'"]),
        ({"secret": ["a", None], "n": [1, 2]}, {"n": [1, 2]}, ["1 value dropped from column 'secret'"]),
    ],
)
def test_columns_have_one_name_in_files_and_dropped_ones_none(
    caplog: pytest.LogCaptureFixture, rows: dict[str, Any], stored: dict[str, Any], left_out: list[str]
) -> None:
    known = KnownColumns()
    known.fields = FIELDS
    for _ in range(2):
        assert known.as_known(pa.table(rows), ["place"]).to_pydict() == stored
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [warning.partition(":")[0] for warning in warnings] == left_out


def test_values_under_another_name_of_a_partition_column_are_not_left_out() -> None:
    """The folder has the value of the first name alone."""
    known = KnownColumns()
    known.fields = FIELDS
    rows = pa.table({"town": pa.array([None], pa.string()), "n": [1]})
    assert known.as_known(rows, ["place"]).to_pydict() == {"n": [1]}
    with pytest.raises(ConfigError, match=r"'town': it is another name of the partition column place"):
        known.as_known(pa.table({"town": ["Rome"], "n": [1]}), ["place"])
