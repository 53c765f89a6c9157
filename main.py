"""Environment → settings → logging → the connector, or a command of another kind → exit code."""

import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

# Loading quixstreams and PySpark takes a second, and a process with pid 1 ignores SIGTERM until it has a handler.
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
# Deprecations inside the libraries are for their developers; they would be the first lines a user sees.
logging.captureWarnings(capture=True)
logging.getLogger("py.warnings").setLevel(logging.ERROR)


def main(arguments: Sequence[str]) -> int:
    """Run the connector as the environment says, or the command that is named, and return the exit code."""
    from dotenv import load_dotenv  # noqa: PLC0415 - see above: the handler comes first

    from app import commands, logs  # noqa: PLC0415
    from app.config.settings import load_settings  # noqa: PLC0415
    from app.errors import ConfigError  # noqa: PLC0415
    from app.service.run import run  # noqa: PLC0415

    load_dotenv(Path(__file__).with_name(".env"))  # for local runs; the environment wins
    try:
        if arguments:
            commands.require(arguments[0])
        settings = load_settings(offline=bool(arguments) and arguments[0] in commands.OFFLINE)
    except ConfigError as error:
        logs.announce_failure(error)
        return error.exit_code
    logs.set_up_logging(settings.loglevel, settings.log_format)
    if arguments:
        return commands.run(arguments[0], settings, arguments[1:])
    return run(settings)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of libraries may hang in a call for minutes; nothing that matters is left to do.
    os._exit(code)
