"""A clock that moves only when a test says so."""


class Clock:
    """Stands in for ``time.monotonic``; in seconds."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
