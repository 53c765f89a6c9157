"""Defines the claim of a topic-partition: which generation writes it."""

from functools import partial
from typing import Literal

from pydantic import Field

from app.journal.entry import Stored, form_of, parse


class PartitionClaim(Stored):
    """One version of the document."""

    version: Literal[1] = 1
    seq: int = Field(ge=1)  # counts the versions
    owner: str  # token of the generation whose log has the partition
    cluster_id: str = ""  # of the topic; empty if the broker does not give it


CLAIM = form_of(partial(parse, PartitionClaim), lambda claim: claim.model_dump_json().encode())
