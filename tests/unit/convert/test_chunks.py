"""How many messages are converted at once."""

from itertools import chain

from app.convert.chunks import chunks
from app.model import Batch, Message
from tests.fakes.kafka_message import KafkaMessage
from tests.support.batches import part, row


def test_a_stretch_holds_no_more_bytes_than_are_to_be_copied_at_once() -> None:
    megabyte = 2**20
    sizes = [100] * 50 + [megabyte] * 20 + [9 * megabyte] * 2 + [100] * 50
    messages: list[Message] = [KafkaMessage(b"x" * size, at=at) for at, size in enumerate(sizes)]
    rows = [row({})] * 3
    found = list(chunks(Batch((part(),), (rows,), (messages,))))
    for chunk in found:
        of_stretch = [len(message) for message in chunk.messages]
        assert sum(of_stretch) <= 8 * megabyte or len(of_stretch) == 1
    assert len(found) == 6
    places = list(chain.from_iterable(chunk.places for chunk in found))
    assert places == list(range(3, 3 + len(sizes))), "each once, in order, behind the rows"
