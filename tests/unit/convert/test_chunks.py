"""Which messages are converted at once, and how many are tried."""

from itertools import chain

from app.convert import chunks
from app.convert.chunks import FEW, Chunk, Pace
from app.model import Batch, Message, TopicPartition
from tests.fakes.kafka_message import KafkaMessage
from tests.support.batches import part, row

PARTS = tuple(part(TopicPartition("sensors", number)) for number in range(3))


def batch(*sizes: list[int], rows: int = 0) -> Batch:
    """Messages of these sizes by their parts, behind so many rows of the first part."""
    given: list[list[Message]] = [[KafkaMessage(b"x" * size, at=at) for at, size in enumerate(some)] for some in sizes]
    return Batch(1, "test", PARTS[: len(sizes)], ([row({})] * rows, *([] for _ in sizes[1:])), 100, (), tuple(given))


def cut(some: Batch) -> list[Chunk]:
    found = list(chunks.chunks(some))
    places = list(chain.from_iterable(chunk.places for chunk in found))
    rows = sum(map(len, some.rows))
    assert places == list(range(rows, rows + sum(map(len, some.messages)))), "each once, in order, behind the rows"
    return found


def test_small_messages_stay_together_of_whichever_parts() -> None:
    (chunk,) = cut(batch([100] * 5_000, [], [10] * 3, rows=2))
    assert chunk.parts.to_pylist() == [0] * 5_000 + [2] * 3
    assert [len(message) for message in chunk.messages[4_999:]] == [100, 10, 10, 10]
    assert cut(batch([], rows=3)) == []


def test_a_stretch_holds_no_more_bytes_than_are_to_be_copied_at_once() -> None:
    megabyte = 2**20
    sizes = [100] * 50 + [megabyte] * 20 + [9 * megabyte] * 2 + [100] * 50
    found = cut(batch(sizes))
    for chunk in found:
        of_stretch = sizes[chunk.start : chunk.stop]
        assert sum(of_stretch) <= 8 * megabyte or len(of_stretch) == 1
    assert len(found) == 6


def test_a_stretch_is_split_in_two() -> None:
    (some,) = cut(batch([1] * 6, [2] * 4, rows=5))
    few, rest = some.split(4)
    assert [*few.places, *rest.places] == [*some.places]
    assert (len(few), len(rest)) == (4, 6)
    assert (few.parts.to_pylist(), rest.parts.to_pylist()) == ([0] * 4, [0] * 2 + [1] * 4)
    assert [len(each) for each in some.split(40)] == [10, 0]


def test_less_are_tried_after_a_failure_and_none_is_read_one_by_one_while_less_can_be_tried() -> None:
    pace = Pace(100 * FEW)
    assert pace.failed(100 * FEW) == 0
    assert pace.size == 25 * FEW
    assert pace.failed(3 * FEW) == 0
    assert pace.size == FEW
    assert pace.failed(FEW) == FEW


def test_where_one_failure_follows_another_ever_more_are_read_one_by_one() -> None:
    pace = Pace(FEW)
    assert [pace.failed(FEW) for _ in range(4)] == [FEW, 2 * FEW, 4 * FEW, 8 * FEW]
    assert pace.size == FEW
    pace.succeeded()
    assert pace.size == 2 * FEW
    pace.succeeded()
    assert pace.size == 4 * FEW
    pace.failed(4 * FEW)
    assert pace.failed(FEW) == FEW
