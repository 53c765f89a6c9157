"""The topics with which a group of several topics began: a topic that appears later is read from its first record.

Else ``latest`` would skip what came before the group learns of the topic. The first member writes them, before anything
is claimed; the store lets only one member create the object. It lies beside the tables, for it is of all of them.
"""

from collections.abc import Collection
from typing import Literal

from app.journal.entry import Stored, form_of, group_folder
from app.storage.base import ObjectStore
from app.storage.document import Document


class _FirstTopics(Stored):
    version: Literal[1] = 1
    topics: list[str]


_FORM = form_of(
    _FirstTopics,
    "the group's first topics",
    "If a newer release wrote it, update this one. Else delete it: the topics that are there then count as the first",
)


def first_topics(store: ObjectStore, root: str, group: str, topics: Collection[str]) -> frozenset[str]:
    """The first topics of this group, ``topics`` if it is new; ``root`` is the folder of the tables."""
    document = Document(store, f"{group_folder(root, group)}first-topics.json", _FORM)
    first = document.read() or document.write_first(_FirstTopics(topics=sorted(topics)))
    return frozenset(first.topics)


def noted_topics(root: str, group: str) -> str:
    """The folder with an object for each topic of which the group has had a table: others beside it are not ours."""
    return f"{group_folder(root, group)}topics/"
