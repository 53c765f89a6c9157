"""Defines the claim of a topic-partition: which generation writes it."""

from functools import partial
from typing import Literal

from pydantic import Field

from app.journal.entry import Stored, form_of, parse


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


CLAIM = form_of(partial(parse, PartitionClaim), lambda claim: claim.model_dump_json().encode())
