"""Scan a container image for known vulnerabilities: ``make scan``, or ``python -m dev.scan NAME``.

Grype finds Debian's packages, Python packages and jars, also jars inside jars. It compares them with a database, which
it downloads. The exit code is not 0 if a vulnerability of severity high or critical has a fixed version, and if the
database is unavailable or older than five days. ``.grype.yaml`` lists accepted vulnerabilities.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from dev.connector import REPO
from dev.container_engine import find_engine
from dev.go_program import GoProgram
from dev.image import DEFAULT_TAG
from dev.machine import ServiceError

GRYPE = GoProgram(
    title="Grype",
    command="grype",
    module="github.com/anchore/grype/cmd/grype",
    version="v0.121.2",
    oldest_go=(1, 27),
    variable="GRYPE",
    any_version=False,  # another version may find less
    duration="five to ten minutes",
)


def main(arguments: list[str]) -> None:
    [tag] = arguments or [DEFAULT_TAG]
    try:
        engine, program = find_engine(), GRYPE.path()
        with tempfile.TemporaryDirectory(prefix="image-scan-") as folder:
            archive = Path(folder) / "image.tar"
            engine.call("save", f"--output={archive}", tag)
            command = [program, f"docker-archive:{archive}", "--only-fixed", "--fail-on=high"]
            environment = {**os.environ, "GRYPE_CHECK_FOR_APP_UPDATE": "false"}
            code = subprocess.run(command, cwd=REPO, env=environment, check=False).returncode
    except ServiceError as error:
        sys.exit(f"ERROR: {error}")
    sys.exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
