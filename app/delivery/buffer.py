"""The memory and the disk that the records of all tables of this process share on their way."""

from app.delivery.limits import BatchLimits
from app.delivery.runtime import Threads


class Buffer:
    """Thread-safe.

    Attributes:
        changed: a batch has come a step further, or something is waited for.
        converting: held by the one table that converts: parsers are for one thread, and take memory beside the records.
        held_bytes: of the records that wait for their conversion.
        under_way: the number of batches that have begun and are not in the lake yet.
    """

    def __init__(self, limits: BatchLimits, threads: Threads = Threads()) -> None:  # noqa: B008 - it is frozen
        self.limits = limits
        self.changed = threads.new_condition()
        self.converting = threads.new_lock()
        self.held_bytes = 0
        self.under_way = 0
        self._staged: dict[str, int] = {}  # by table

    @property
    def room(self) -> int:
        """Bytes of records that may be taken before it is full."""
        return self.limits.max_buffer_bytes - self.held_bytes

    @property
    def is_full(self) -> bool:
        return self.limits.is_full(self.held_bytes)

    @property
    def flush_reason(self) -> str:
        return self.limits.at_flush(self.held_bytes)

    def hold(self, size: int) -> None:
        """Count so many bytes more of records that wait, or fewer."""
        with self.changed:
            self.held_bytes += size
            self.changed.notify_all()

    def began(self, batches: int) -> None:
        """Count so many batches more that are under way, or fewer."""
        with self.changed:
            self.under_way += batches
            self.changed.notify_all()

    def staged(self, table: str, size: int) -> int:
        """Note the size of a table's open batch; returns that of all, if this one has its share of it at least.

        Else returns its own: the larger ones end first where the disk is for all.
        """
        with self.changed:
            self._staged[table] = size
            of_all = sum(self._staged.values())
            return of_all if size * len(self._staged) >= of_all else size

    def wait(self, seconds: float) -> None:
        with self.changed:
            self.changed.wait(seconds)
