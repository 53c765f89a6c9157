"""Messages that are small in Kafka and huge in memory: the rows around them arrive, of them the beginning is kept."""

from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from app.bad_records.refusals import KEPT_BYTES
from tests.faults.connector_thread import Place
from tests.support.waiting import PATIENCE

MB = 1_000_000
LIMIT = 2 * 2**20  # a quarter of the buffer
# Of what is compressed with zstd the client takes no more than it would take in one answer.
CLIENT = {"fetch.max.bytes": 1 * MB, "receive.message.max.bytes": 3 * MB}


def produce(place: Place, codec: str, *values: bytes, key: bytes = b"key") -> None:
    """Produce these into partition 0, compressed together."""
    producer = Producer(
        {
            "bootstrap.servers": place.kafka.bootstrap_servers,
            "compression.type": codec,
            "message.max.bytes": 1_000 * MB,
            "batch.size": 1_000 * MB,
            "linger.ms": 60_000,  # until the flush: with less, a slow machine sends the first one by itself
        }
    )
    producer.list_topics(place.topic, PATIENCE)  # without the partition's leader, a flush may send the first few alone
    for value in values:
        producer.produce(place.topic, value, key, 0, headers=[("trace", b"1")])
    assert not producer.flush(PATIENCE)


def dead_letters(place: Place) -> list[dict[str, Any]]:
    folder = place.store_folder / "data/_dead_letter/readings"
    found = [letter for path in folder.glob("*.parquet") for letter in pq.read_table(path).to_pylist()]
    return sorted(found, key=lambda letter: letter["offset"])


@pytest.mark.night
@pytest.mark.usefixtures("each_lane")
def test_a_huge_message_leaves_its_beginning_and_its_size(place: Place) -> None:
    place.produce(10)
    produce(place, "gzip", b'{"sender":"me' + b" " * 60 * MB)
    place.produce(10)
    produce(place, "gzip", b"{}", key=b"k" * 3 * MB)
    place.produce(10)
    connector = place.connector()
    place.finish(connector, 32)

    place.assert_whole()
    value, key = dead_letters(place)
    assert (value["offset"], value["truncated"], value["value_size"]) == (10, True, 60 * MB + 13)
    assert (value["key"], value["headers"]) == (b"key", [{"key": "trace", "value": b"1"}])
    assert value["value"].startswith(b'{"sender":"me  ')
    assert len(value["value"]) == KEPT_BYTES
    assert f"60,000,022 bytes, and the limit with this memory is {LIMIT:,} bytes" in value["reason"]
    assert (key["offset"], key["truncated"], key["value_size"], len(key["key"])) == (21, True, 2, KEPT_BYTES)


def test_what_the_client_cannot_decompress_is_passed_over_message_by_message(place: Place) -> None:
    place.produce(10)
    produce(place, "zstd", b" " * 8 * MB)
    place.produce(10)
    produce(place, "zstd", *[b'{"n":1}' + b" " * MB] * 6)
    place.produce(10)
    connector = place.connector(kafka=CLIENT)
    place.finish(connector, 37)

    place.assert_whole()
    letters = dead_letters(place)
    assert [letter["offset"] for letter in letters] == [10, *range(21, 27)]
    for letter in letters:
        assert (letter["truncated"], letter["value"], letter["value_size"]) == (True, None, None)
        assert "cannot decompress" in letter["reason"]
