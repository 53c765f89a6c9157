"""How the connector is at this moment, as the metrics and the status page tell it."""

from dataclasses import dataclass
from typing import Literal, get_args

StateName = Literal["starting", "waiting", "consuming", "paused", "failing", "stopping"]
STATES: tuple[StateName, ...] = get_args(StateName)


@dataclass(frozen=True, slots=True)
class Identity:
    """Which connector this is: what it reads, where it writes, and what it is made of.

    ``table`` is the table's address, ``root`` the key of its folder in the store.
    """

    topic: str
    group: str
    table: str
    root: str
    versions: dict[str, str]


@dataclass(frozen=True, slots=True)
class Live:
    """A look at the parts that run. Sizes are in bytes; ``detail`` says why the state is what it is."""

    state: StateName = "starting"
    detail: str = "Java, the store, the catalog and Kafka are being reached"
    buffered: int = 0
    buffer_limit: int = 0
    under_way: int = 0
    skipped: int = 0
    java_pid: int | None = None
