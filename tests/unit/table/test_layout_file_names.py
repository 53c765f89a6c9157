"""File names: literal ones, that all can be read back, and that no other name is taken for one."""

from string import ascii_letters, digits

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.model import BatchPart, OffsetRange, TopicPartition
from app.table.layout import file_name, part_of, shared_file_of, topic_in_names
from tests.support.batches import part

TOKEN = "0a1b2c3d4e5f607100000003"
NAME = f"data_sensor.data-3_0000000000000001000-2999_{TOKEN}-7.parquet"
SHARED_NAME = f"data_sensor.data_batch_{TOKEN}-7.parquet"
OFFSETS = st.integers(0, 2**63 - 1)
PARTS = st.builds(
    lambda topic, partition, offsets, owner, number: BatchPart(
        OffsetRange(TopicPartition(topic, partition), min(offsets), max(offsets)), owner, number
    ),
    st.text(ascii_letters + digits + "._-", min_size=1, max_size=249),
    st.integers(0, 2**31 - 1),
    st.tuples(OFFSETS, OFFSETS),
    st.integers(0, 2**96 - 1).map(lambda owner: f"{owner:024x}"),
    st.integers(0, 2**63 - 1),
)


def test_a_file_is_named_after_its_topic_and_its_partition_with_offsets_or_its_batch() -> None:
    parts = [part(TopicPartition("sensor.data", number), 1_000, 2_999, TOKEN, 7) for number in (3, 4)]
    assert file_name(parts[:1]) == NAME
    assert file_name(parts) == SHARED_NAME


def test_long_topics_that_begin_alike_have_different_names() -> None:
    names = {file_name([part(TopicPartition("t" * 200 + end, 0))]) for end in ("a", "b", "ab", "")}
    assert len(names) == 4


@given(PARTS)
@example(part(TopicPartition(f"a-5_0000000000000000001-1_{TOKEN}-1.parquet", 2)))  # a topic may look like all the rest
@example(part(TopicPartition("t" * 120, 0)))
@example(part(TopicPartition("t" * 121, 0)))
@example(part(TopicPartition("t" * 249, 2**31 - 1), 2**63 - 2, 2**63 - 1, TOKEN, 2**63 - 1))
def test_every_name_is_read_back(wanted: BatchPart) -> None:
    name = file_name([wanted])
    assert len(name.encode()) <= 255, "which file systems take"
    found = part_of(name)
    offsets = wanted.offsets
    topic = topic_in_names(offsets.tp.topic)
    assert found == BatchPart(
        OffsetRange(TopicPartition(topic, offsets.tp.partition), offsets.first, offsets.last),
        wanted.owner,
        wanted.number,
    )
    assert (topic == offsets.tp.topic) is (len(offsets.tp.topic) <= 120)


@given(PARTS)
@example(part(TopicPartition("a_batch_" + TOKEN + "-1.parquet", 2), owner=TOKEN))
@example(part(TopicPartition("t" * 121, 0), owner=TOKEN))
def test_every_name_of_a_file_of_several_partitions_is_read_back(one: BatchPart) -> None:
    name = file_name([one, one])
    assert shared_file_of(name) == (one.owner, one.number)
    assert part_of(name) is None
    assert shared_file_of(file_name([one])) is None
    assert len(name) <= len(file_name([one])), "so that it fits wherever the other would"


@pytest.mark.parametrize(
    "name",
    [
        "part-00000-2f0c.snappy.parquet",
        "x" + NAME,
        NAME + ".parquet",
        NAME + "\n",
        NAME.replace("sensor.data", ""),
        NAME.replace("sensor.data", "~0a1b2c3d"),
        NAME.replace("-3_", "-03_"),
        NAME.replace("-3_", "-2147483648_"),
        NAME.replace("0000000000000001000", "1000"),
        NAME.replace("-2999", "-999"),  # would end before it begins
        NAME.replace("-2999", "-9223372036854775808"),
        NAME.replace(TOKEN, TOKEN.upper()),
        NAME.replace(TOKEN, TOKEN[:-1]),
        NAME.replace("-7.", "-07."),
        NAME.replace("-7.", "-\N{ARABIC-INDIC DIGIT SEVEN}."),
        NAME.replace("-7.", "-9223372036854775808."),
        "x" + SHARED_NAME,
        SHARED_NAME + "\n",
        SHARED_NAME.replace("sensor.data", ""),
        SHARED_NAME.replace("_batch_", "-batch_"),
    ],
)
def test_names_of_others_are_not_taken_for_ours(name: str) -> None:
    assert part_of(NAME) is not None
    assert shared_file_of(SHARED_NAME) is not None
    assert name not in (NAME, SHARED_NAME)
    assert part_of(name) is None
    assert shared_file_of(name) is None
