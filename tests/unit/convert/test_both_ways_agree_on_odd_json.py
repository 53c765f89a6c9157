"""The odder the JSON, the more it matters that both ways from messages to rows see the same in it."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.kafka_message import KafkaMessage
from tests.support import odd_json
from tests.support.batches import NOON
from tests.support.both_ways import Table, assert_both_agree

TABLES = st.builds(
    Table,
    hive=st.lists(
        st.sampled_from(["year", "hour", "p", "a", "s", "ts_ms", "__key", "~s", "~a", "q"]),
        max_size=2,
        unique_by=lambda name: name.removeprefix("~"),
    ).map(tuple),
    timestamp=st.sampled_from(["ts_ms", "ts_ms", "ts_ms", "a", "t"]),
    types=st.sampled_from(
        ["", "", "", "a:double", "a:string", "a:timestamp", "a:timestamp_ntz", "a:date", "a:bigint", "a:int",
         "a:boolean", "a:binary", "a:decimal(38,18)", "a:decimal(20,0)", "a:array<timestamp>,b:array<double>",
         "a:array<string>", "a:struct<a:timestamp,b:double>", "a:struct<a:struct<a:date>>", "ts_ms:timestamp",
         "ts_ms:date,s:timestamp", "ts_ms:boolean", "__key:bigint,s:double",
         "__kafka_key:bigint,__offset:string", "ts_ms:double,b:timestamp_ntz"]
    ),
    metadata=st.sampled_from([(), (), ("__offset",), ("__timestamp", "__headers")]),
)  # fmt: skip


def _messages(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[list[list[KafkaMessage]]]:
    one = st.tuples(
        values,
        st.sampled_from([b"k", b"", None, b"7", b"\xff"]),
        st.sampled_from([NOON, NOON, 0, -1, 253_402_300_799_999]),
    )
    batches = st.lists(st.lists(one, min_size=1, max_size=8), min_size=1, max_size=3)
    return batches.map(_numbered)


def _numbered(batches: list[list[tuple[bytes, bytes | None, int]]]) -> list[list[KafkaMessage]]:
    offsets = iter(range(10**6))
    return [
        [KafkaMessage(value, key, next(offsets), timestamp_ms=timestamp) for value, key, timestamp in batch]
        for batch in batches
    ]


def _both_agree(table: Table, batches: list[list[KafkaMessage]], few: int) -> None:
    assert_both_agree(table, batches, few=few)


@settings(suppress_health_check=list(HealthCheck))
@given(TABLES, _messages(odd_json.RECORDS), st.integers(1, 3))
def test_odd_records(table: Table, batches: list[list[KafkaMessage]], few: int) -> None:
    _both_agree(table, batches, few)


@settings(suppress_health_check=list(HealthCheck))
@given(TABLES, _messages(odd_json.ALIKE), st.integers(1, 3))
def test_odd_values_in_columns_that_are_there(table: Table, batches: list[list[KafkaMessage]], few: int) -> None:
    _both_agree(table, batches, few)
