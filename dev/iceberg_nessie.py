"""A private server of Project Nessie, an Iceberg REST catalog with branches. It keeps its tables in memory.

Newer releases are not on Maven Central as one jar. A gate in front of the server does what two of them have brought:
0.100.3 accepts properties in several updates of one commit, and 0.105.3 a schema without ``last-column-id``, which
PyIceberg no longer sends.
"""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Final

from dev.iceberg_catalog import IcebergServer
from dev.java import find_java
from dev.maven_jars import Jars, maven_jars
from dev.minio import LocalMinio
from dev.server import free_ports

VERSION: Final = "0.99.0"
_SECRET: Final = "nessie.catalog.secrets.minio"


class LocalNessie(IcebergServer):
    """All tables lie in the bucket ``nessie``, at addresses that the server chooses; ``url`` is that of the gate."""

    name: ClassVar[str] = "nessie"

    def __init__(self, minio: LocalMinio) -> None:
        super().__init__("s3://nessie", minio, "/iceberg")
        self._minio = minio
        self._own_port, self._management_port = free_ports(2)
        self._gate: ThreadingHTTPServer | None = None
        self.seconds_of_keys: float | None = None  # as clients are told; this release tells them nothing

    def start(self) -> None:
        super().start()
        self._gate = ThreadingHTTPServer(("127.0.0.1", self._port), _Gate)
        vars(self._gate)["nessie"] = self
        threading.Thread(target=self._gate.serve_forever, daemon=True).start()

    def stop(self) -> None:
        if self._gate:
            self._gate.shutdown()
            self._gate.server_close()
            self._gate = None
        super().stop()

    @property
    def own_url(self) -> str:
        """The address behind the gate."""
        return f"http://127.0.0.1:{self._own_port}"

    def _command(self) -> Sequence[str]:
        module = f"org.projectnessie.nessie:nessie-quarkus:{VERSION}:runner"
        (jar,) = maven_jars(Jars(name=f"nessie-{VERSION}", alone=[module], megabytes=234)).glob("*-runner.jar")
        return [find_java(), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-jar", str(jar)]

    def _environment(self) -> Mapping[str, str]:
        s3 = "nessie.catalog.service.s3.default-options"
        return {
            "QUARKUS_HTTP_HOST": "127.0.0.1",
            "QUARKUS_HTTP_PORT": str(self._own_port),
            "QUARKUS_MANAGEMENT_HOST": "127.0.0.1",
            "QUARKUS_MANAGEMENT_PORT": str(self._management_port),
            "nessie.version.store.type": "IN_MEMORY",
            "nessie.catalog.default-warehouse": "lake",
            "nessie.catalog.warehouses.lake.location": self.warehouse,
            f"{s3}.endpoint": self._minio.endpoint_url,
            f"{s3}.path-style-access": "true",
            f"{s3}.region": self._minio.region,
            f"{s3}.access-key": f"urn:nessie-secret:quarkus:{_SECRET}",
            f"{_SECRET}.name": self._minio.access_key,
            f"{_SECRET}.secret": self._minio.secret_key,
            # Credentials for clients, of MinIO's token service and for the folder of the table.
            f"{s3}.sts-endpoint": self._minio.endpoint_url,
            f"{s3}.client-iam.enabled": "true",
            f"{s3}.client-iam.assume-role": "arn:minio:iam:::role/any",
        }

    def _is_ready(self) -> bool:
        return self._is_answering(self._own_port)


class _Gate(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name: value for name, value in self.headers.items() if name not in ("Connection", "Accept-Encoding")}
        nessie: LocalNessie = vars(self.server)["nessie"]
        address = f"{nessie.own_url}{self.path}"
        request = urllib.request.Request(address, _as_it_was(body) or None, headers, method=self.command)  # noqa: S310
        request.remove_header("Content-length")  # is counted again
        try:
            with urllib.request.urlopen(request) as answer:  # noqa: S310
                self._answer(answer.status, _with_end_of_keys(answer.read(), nessie.seconds_of_keys))
        except urllib.error.HTTPError as refused:
            self._answer(refused.code, refused.read())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    do_GET = do_POST = do_DELETE = do_HEAD = _forward  # noqa: N815 - the names are the base class's


def _as_it_was(body: bytes) -> bytes:
    """A commit with a single update of properties, and with the highest id of each schema."""
    if not body.startswith(b"{") or "updates" not in (commit := json.loads(body)):
        return body
    updates, properties = [], None
    for update in commit["updates"]:
        if update["action"] == "add-schema":
            update["last-column-id"] = max(_ids(update["schema"]), default=0)
        if update["action"] == "set-properties" and properties is not None:
            properties.update(update["updates"])
            continue
        if update["action"] == "set-properties":
            properties = update["updates"]
        updates.append(update)
    return json.dumps({**commit, "updates": updates}).encode()


def _with_end_of_keys(body: bytes, seconds: float | None) -> bytes:
    if seconds is None or b'"s3.session-token"' not in body:
        return body
    answer = json.loads(body)
    answer["config"]["s3.session-token-expires-at-ms"] = str(int((time.time() + seconds) * 1_000))
    return json.dumps(answer).encode()


def _ids(value: Any) -> Iterator[int]:
    """All ids of fields in a schema, also of elements, keys and values."""
    for name, each in value.items() if isinstance(value, dict) else enumerate(value):
        if name in ("id", "element-id", "key-id", "value-id"):
            yield each
        elif isinstance(each, dict | list):
            yield from _ids(each)
