"""What the connector writes beside each offset that it commits: by whom an offset in Kafka was put there. Pure.

Kafka keeps a text beside each committed offset. A tool or another program that commits for the group leaves it empty,
or copies it to another offset: so it names the offset that it belongs to.
"""

from dataclasses import dataclass

_WRITER = "ts-datalake-sink"


@dataclass(frozen=True, slots=True)
class CommitMark:
    """The mark of a committed offset.

    Args:
        topic_id: of the topic's life whose offset it is; empty where the broker did not tell.
    """

    topic_id: str


def mark_of(offset: int, topic_id: str) -> str:
    """The text to commit beside this offset."""
    return f"{_WRITER} {offset} {topic_id}".rstrip()


def read_mark(offset: int, metadata: str | None) -> CommitMark | None:
    """What the text beside a committed offset says; ``None`` where the connector did not commit this very offset."""
    words = (metadata or "").split(" ")
    if words[:2] != [_WRITER, str(offset)]:
        return None
    return CommitMark(words[2] if len(words) > 2 else "")  # noqa: PLR2004 - the third word


def is_of_another(mark: CommitMark | None, topic_id: str) -> bool:
    """Whether the mark's offset is surely of another life of the topic than the one with this id."""
    return bool(mark and mark.topic_id and topic_id and mark.topic_id != topic_id)
