"""A private server that speaks the API of AWS Glue: moto's, which keeps everything in memory."""

import sys
from collections.abc import Mapping, Sequence
from typing import ClassVar

from dev.other_packages import other_packages
from dev.server import NativeServer, answers_ok, free_ports

VERSION = "5.2.5"


class LocalGlue(NativeServer):
    """On a free port of 127.0.0.1; any key of AWS will do."""

    name: ClassVar[str] = "glue"

    def __init__(self) -> None:
        super().__init__()
        self._port = free_ports(1)[0]
        self.endpoint_url = f"http://127.0.0.1:{self._port}"

    def _command(self) -> Sequence[str]:
        return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self._port)]

    def _environment(self) -> Mapping[str, str]:
        packages = other_packages(f"moto-{VERSION}", [f"moto[server]=={VERSION}"], "fetching moto once, 60 MB")
        return {"PYTHONPATH": str(packages)}

    def _is_ready(self) -> bool:
        return answers_ok(f"{self.endpoint_url}/moto-api/", timeout=2.0)
