"""What commands say on standard output, whatever LOGLEVEL is."""


def tell(line: str) -> None:
    """Say a line at once, also where the output is a pipe."""
    print(line, flush=True)  # noqa: T201


def counted(count: int, noun: str) -> str:
    """``1 file``, ``2,000 files``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
