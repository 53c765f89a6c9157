"""Header names that are not UTF-8, on a real broker: they end nothing, and cost no row."""

from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.faults.connector_thread import Place
from tests.services.raw_headers import produce_with_header


@pytest.mark.usefixtures("each_lane")
@pytest.mark.parametrize("metadata", [pytest.param("", marks=pytest.mark.night), "__headers"])
def test_a_header_name_that_is_not_utf8_is_replaced(place: Place, metadata: str) -> None:
    place.produce(100)  # Python then calls the client in a way that does not see the error
    for value in (b'{"n":100,"ts_ms":5}', b"{", b'{"n":101,"ts_ms":5}'):
        produce_with_header(place.kafka.bootstrap_servers, place.topic, value, b"\xff\xfe")
    place.produced += 2
    connector = place.connector(METADATA_COLUMNS=metadata)
    place.finish(connector, 103)

    place.assert_whole()
    replaced = [{"key": "\ufffd", "value": b"v"}]
    if metadata:
        rows: list[dict[str, Any]] = [row for path in place.files() for row in pq.ParquetFile(path).read().to_pylist()]
        assert [row["__headers"] for row in rows if row["n"] >= 100] == [replaced] * 2
    [letter] = pq.read_table(place.store_folder / "data/_dead_letter/readings").to_pylist()
    assert (letter["value"], letter["headers"]) == (b"{", replaced)
