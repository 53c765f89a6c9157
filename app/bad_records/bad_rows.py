"""Rows of a batch that cannot be written, whatever found them."""

from collections.abc import Mapping


class BadRowsError(ValueError):
    """Some rows cannot be used; the others can.

    Args:
        reasons: why, by position of the row in what was given. One step names all that it finds, at once.
    """

    def __init__(self, reasons: Mapping[int, str]) -> None:
        self.reasons = dict(reasons)
        row, reason = next(iter(self.reasons.items()))
        super().__init__(f"row {row}: {reason}" + (f", and {len(self.reasons) - 1} more" if len(reasons) > 1 else ""))
