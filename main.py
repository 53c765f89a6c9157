"""Parses arguments, reads settings from the environment, and runs the connector or a command."""

# ruff: noqa: E402 - the handlers come first
import os
import shlex
import signal
import sys

# A process with pid 1 ignores SIGTERM until a handler is set, and loading quixstreams and PySpark needs a second.
# If a signal arrives meanwhile, a command has failed. The connector has not consumed records yet.
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: os._exit(130 if sys.argv[1:] or os.environ.get("COMMAND", "").strip() else 0))

import logging
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name

# Deprecation warnings of libraries are only for the libraries' developers, so the log omits these warnings.
logging.captureWarnings(capture=True)
logging.getLogger("py.warnings").setLevel(logging.ERROR)

_MISUSED = 2


def main(arguments: Sequence[str]) -> int:
    """Run the connector, or the command in the arguments. Return the exit code."""
    if sys.version_info < (3, 11):  # noqa: UP036 - for users who start it without pip's check of requires-python
        return _not_installed(f"Python 3.11 or newer is needed, and {sys.executable} is {sys.version.split()[0]}")

    from app.parts import NEW_PARSER  # noqa: PLC0415 - after the handler, see above

    options = resolve_name(NEW_PARSER)().parse_args(arguments)
    try:
        return _run(options)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "app":
            raise
        return _not_installed(f"the package {error.name.partition('.')[0]!r} is not installed for {sys.executable}")


def _run(options: Namespace) -> int:
    """Load the packages, read the settings, and run the command. If no command is set, run the connector."""
    from dotenv import load_dotenv  # noqa: PLC0415

    from app import logs  # noqa: PLC0415
    from app.config.environment import load_settings, remarks  # noqa: PLC0415
    from app.errors import ConfigError  # noqa: PLC0415
    from app.parts import RUN_COMMAND  # noqa: PLC0415
    from app.redaction import add_secrets  # noqa: PLC0415

    dotenv = Path(__file__).with_name(".env")
    try:
        try:
            load_dotenv(dotenv, encoding="utf-8-sig")  # for local runs; the environment has priority
        except (ValueError, OSError) as error:  # in PowerShell, > writes UTF-16
            raise ConfigError(f"reading {dotenv}", str(error), "Save it as UTF-8") from None
        if not options.command:  # some platforms cannot pass arguments
            options = _command_of_environment()
        needs_broker = options.needs_broker or bool(vars(options).get("topic"))  # try --topic reads the topic
        settings = load_settings(needs_broker=needs_broker, needs_store=options.needs_store)
    except ConfigError as error:
        logs.announce_failure(error)
        return error.exit_code
    add_secrets(*settings.secrets)
    logs.set_up_logging(settings.loglevel, settings.log_format)
    for line in remarks():
        logging.getLogger("app.config").warning("%s", line)
    if options.command:
        return int(resolve_name(RUN_COMMAND)(settings, options))
    from app.service.run import run  # noqa: PLC0415

    return run(settings)


def _command_of_environment() -> Namespace:
    """Parse the command and options in the variable COMMAND, which may be empty."""
    from app.errors import ConfigError  # noqa: PLC0415
    from app.parts import NEW_PARSER  # noqa: PLC0415

    try:
        arguments = shlex.split(os.environ.get("COMMAND", ""))
    except ValueError as error:
        raise ConfigError("reading COMMAND", str(error), "Quote it as in a shell") from None
    options: Namespace = resolve_name(NEW_PARSER)().parse_args(arguments)
    return options


def _not_installed(cause: str) -> int:
    """Print how to install the missing packages, and return the exit code."""
    print(  # noqa: T201
        f"ERROR! starting: {cause}. Run `python3 -m venv .venv`, `.venv/bin/pip install -r requirements.txt`, "
        "and then `.venv/bin/python main.py`",
        file=sys.stderr,
    )
    return _MISUSED


if __name__ == "__main__":
    code = main(sys.argv[1:])
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    # The work is complete. A normal exit could wait for minutes, until all threads of libraries have ended.
    os._exit(code)
