"""A store together with a look at it from outside."""

from collections.abc import Callable
from dataclasses import dataclass

from app.storage.base import ObjectStore


@dataclass(frozen=True)
class Place:
    """``read`` gives an object's bytes as another reader sees them, ``remove`` takes the bucket or folder away."""

    store: ObjectStore
    read: Callable[[str], bytes]
    remove: Callable[[], None]
