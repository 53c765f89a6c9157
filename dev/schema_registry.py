"""A private schema registry that keeps its schemas in memory: Apicurio, which has the API of Confluent's too."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from dev.java import find_java
from dev.maven_jars import Jars, maven_jars
from dev.server import NativeServer, answers_ok, free_ports

VERSION = "3.3.3"


class LocalSchemaRegistry(NativeServer):
    """On a free port of 127.0.0.1; ``url`` is the address for clients of Confluent's registry."""

    name: ClassVar[str] = "apicurio"

    def __init__(self) -> None:
        super().__init__()
        self._port, self._management_port = free_ports(2)
        self.url = f"http://127.0.0.1:{self._port}/apis/ccompat/v7"

    def _command(self) -> Sequence[str]:
        folder = maven_jars(
            Jars(
                name=f"apicurio-{VERSION}",
                unpacked=[f"io.apicurio:apicurio-registry-app:{VERSION}:all"],
                megabytes=159,
            )
        )
        return [find_java(), "-Xmx512m", "-jar", str(folder / "quarkus-run.jar")]

    def _environment(self) -> Mapping[str, str]:
        return {
            "QUARKUS_HTTP_HOST": "127.0.0.1",
            "QUARKUS_HTTP_PORT": str(self._port),
            "QUARKUS_MANAGEMENT_PORT": str(self._management_port),
        }

    def _is_ready(self) -> bool:
        return answers_ok(f"{self.url}/subjects", timeout=5.0)
