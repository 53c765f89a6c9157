"""Build the container image, and run it the way a careful platform does.

``python -m dev.image build`` and ``python -m dev.image run --env-file .env`` work with Docker and with Podman.
"""

import argparse
import os
import sys

from dev.connector import REPO
from dev.container_engine import Engine, find_engine
from dev.machine import ServiceError, announce

DEFAULT_TAG = "quix-ts-datalake-sink"

# The least a platform may grant, beside a /tmp that can be written.
HARDENED = (
    "--read-only",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--memory=2g",
)
# Nothing in it can be executed, which is how Docker mounts a tmpfs by default.
IN_MEMORY = "--tmpfs=/tmp:rw,noexec,nosuid,nodev"


def build_image(engine: Engine, tag: str, *options: str) -> None:
    """Build the image of this checkout, with options of the engine's ``build``.

    Raises:
        ServiceError: the build failed.
    """
    announce(f"building {tag} with {engine}")
    engine.build(REPO, tag, *options)
    announce(f"{tag}: {int(engine.call('image', 'inspect', '--format', '{{.Size}}', tag)) / 1e6:,.0f} MB")


def run_command(engine: Engine, tag: str, *options: str, network: str = "host", scratch: str = IN_MEMORY) -> list[str]:
    """The command line that runs the image with as few rights as it needs; ``scratch`` mounts its /tmp."""
    return engine.command("run", f"--network={network}", *HARDENED, scratch, *engine.run_options, *options, tag)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m dev.image", description=__doc__)
    parser.add_argument("command", nargs="?", choices=("build", "run"), default="build")
    parser.add_argument("--tag", default=DEFAULT_TAG, help="name of the image (%(default)s)")
    chosen, options = parser.parse_known_args(arguments)
    if chosen.command == "build" and options:
        parser.error(f"build takes no {' '.join(options)}")
    try:
        engine = find_engine()
        if chosen.command == "build":
            build_image(engine, chosen.tag)
        else:
            # in our place, so that Ctrl-C and SIGTERM reach the engine, which hands them on
            command = run_command(engine, chosen.tag, "--rm", *options)
            os.execvpe(command[0], command, engine.environment())  # noqa: S606
    except ServiceError as error:
        sys.exit(f"ERROR: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
