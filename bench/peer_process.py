"""The dependency's own sink as a child process, to be used as ``dev.connector.Connector`` is."""

import os
from collections.abc import Mapping
from pathlib import Path

from bench.environment import peer_python
from dev.child import Child

FOLDER = Path(__file__).parent


class Peer(Child):
    """``bench/peer/main.py`` in its own environment; killed at the end of the block, for it has committed by then.

    Args:
        settings: variables to set.
        log: file that gets what it prints.
    """

    def __init__(self, settings: Mapping[str, str], log: Path) -> None:
        standin = {"PYTHONPATH": str(FOLDER / "standin")}  # for its private package, and for this process alone
        super().__init__(
            "the dependency's sink",
            [peer_python(), str(FOLDER / "peer" / "main.py")],
            folder=log.parent,
            environment={**os.environ, **settings, **standin},
            log=log,
        )
