"""Defines the claim of a topic-partition: which generation writes it."""

from typing import Literal

from pydantic import Field

from app.journal.entry import Stored, parse


class PartitionClaim(Stored):
    """One version of the document.

    Attributes:
        seq: counts the versions.
        owner: token of the generation whose log has the partition.
        cluster_id: of the Kafka cluster of the topic; empty if the broker does not give it.
    """

    version: Literal[1] = 1
    seq: int = Field(ge=1)
    owner: str
    cluster_id: str = ""

    def to_body(self) -> bytes:
        """The JSON to store."""
        return self.model_dump_json().encode()


def parse_claim(body: bytes, roots: tuple[str, ...]) -> PartitionClaim:  # noqa: ARG001 - it names no keys
    """Read a claim; ``roots`` as for every document of the journal.

    Raises:
        ValueError: it is damaged or of a newer release; the message says which.
    """
    return parse(PartitionClaim, body)
