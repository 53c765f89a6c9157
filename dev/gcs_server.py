"""A private server that speaks the API of Google Cloud Storage: fake-gcs-server, which asks for no credentials."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client

from dev.go_program import GoProgram
from dev.server import NativeServer, answers_ok, free_ports

PROGRAM = GoProgram(
    title="fake-gcs-server",
    command="fake-gcs-server",
    module="github.com/fsouza/fake-gcs-server",
    version="v1.56.1",
    oldest_go=(1, 26),
    variable="FAKE_GCS_SERVER_BINARY",
    any_version=False,  # older ones forget the conditions of big uploads
    duration="one or two minutes",
)


class LocalGcsServer(NativeServer):
    """On a free port of 127.0.0.1.

    Its data is in memory and gone after ``stop()``: in files it would cut the names of objects to 255 bytes.
    """

    name: ClassVar[str] = "fake-gcs-server"

    def __init__(self) -> None:
        super().__init__()
        self._port = free_ports(1)[0]
        self.endpoint_url = f"http://127.0.0.1:{self._port}"

    def client(self) -> Client:
        """A client of this server, whatever the environment says."""
        options = {"api_endpoint": self.endpoint_url}
        return Client(project="local", credentials=AnonymousCredentials(), client_options=options)

    def _command(self) -> Sequence[str]:
        address = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(self._port)]
        return [PROGRAM.path(), *address, "-backend", "memory", "-log-level", "warn"]

    def _environment(self) -> Mapping[str, str]:
        return {}

    def _is_ready(self) -> bool:
        return answers_ok(f"{self.endpoint_url}/_internal/healthcheck", timeout=2.0)
