"""The commands of ``python main.py``; without one it runs the connector."""

import logging
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from app.commands.audit.command import audit
from app.commands.check.command import check
from app.commands.replay.command import replay
from app.commands.rewrite.command import rewrite
from app.commands.try_out.command import try_out
from app.config.settings import Settings
from app.errors import ConfigError, ConnectorError, FatalError

logger = logging.getLogger(__name__)

COMMANDS: Final[Mapping[str, Callable[[Settings, Sequence[str]], int]]] = {
    "audit": audit,
    "check": check,
    "replay": replay,
    "rewrite": rewrite,
    "try": try_out,
}
OFFLINE: Final = frozenset({"try"})  # needs neither a broker nor a store
INTERRUPTED: Final = 130  # what shells report after Ctrl-C


def require(name: str) -> None:
    """Check that the command exists.

    Raises:
        ConfigError: it does not exist.
    """
    if name not in COMMANDS:
        choices = ", ".join(COMMANDS)
        raise ConfigError("reading the arguments", f"there is no command {name!r}", f"Use none to run, or: {choices}")


def run(name: str, settings: Settings, arguments: Sequence[str]) -> int:
    """Run a command; an error is one line on standard error.

    Returns:
        The exit code: 0 done, else that of the error as in ``app.errors``, or 130 after a signal.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return COMMANDS[name](settings, arguments)
    except KeyboardInterrupt:
        return _failed(f"{name} was stopped before its end", INTERRUPTED)
    except ConnectorError as error:
        return _failed(str(error), error.exit_code)
    except Exception as error:
        logger.debug("unexpected", exc_info=True)
        unexpected = FatalError(
            f"running {name}", repr(error), "Please report this as a bug; LOGLEVEL=DEBUG shows where it was"
        )
        return _failed(str(unexpected), unexpected.exit_code)


def _failed(message: str, code: int) -> int:
    print(f"ERROR! {message}", file=sys.stderr, flush=True)  # noqa: T201 - printed whatever LOGLEVEL is
    return code
