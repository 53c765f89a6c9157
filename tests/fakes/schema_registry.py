"""A schema registry in memory, over HTTP, with as much of Confluent's API as serializers and the connector use."""

import json
import re
import ssl
from http import HTTPStatus
from typing import Any

from tests.fakes.http_fake import FakeHandler, HttpFake


class FakeSchemaRegistry(HttpFake):
    """Keeps what serializers register; ``status``, if set, answers each request, and ``denied`` those for some ids.

    It knows no GUIDs, as registries of some years ago.
    """

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.status: HTTPStatus | None = None
        self.denied: set[int] = set()
        self.asked: list[str] = []
        self._schemas: list[dict[str, Any]] = []

    def speak_tls(self, context: ssl.SSLContext) -> None:
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True)

    def register(self, subject: str, schema: dict[str, Any]) -> dict[str, Any]:
        for known in self._schemas:
            if (known["subject"], known["schema"]) == (subject, schema["schema"]):
                return known
        number = len(self._schemas) + 1
        version = 1 + sum(known["subject"] == subject for known in self._schemas)
        self._schemas.append({"subject": subject, "id": number, "version": version} | schema)
        return self._schemas[-1]

    def find(self, path: str) -> dict[str, Any] | list[str] | None:
        if path.startswith("/subjects?"):
            return [known["subject"] for known in self._schemas]
        if found := re.match(r"/schemas/ids/(\d+)", path):
            number = int(found[1])
            return self._schemas[number - 1] if 0 < number <= len(self._schemas) else None
        if found := re.match(r"/subjects/([^/]+)/versions/(\w+)", path):
            versions = [known for known in self._schemas if known["subject"] == found[1]]
            return next((each for each in versions[::-1] if found[2] in ("latest", str(each["version"]))), None)
        return None


class _Handler(FakeHandler):
    def do_GET(self) -> None:  # noqa: N802 - the name is the base class's
        self._send(self.fake.find(self.path))

    def do_POST(self) -> None:  # noqa: N802
        schema = json.loads(self.read_body())
        self._send(self.fake.register(self.path.split("/")[2], schema))

    def _send(self, found: Any) -> None:
        registry: FakeSchemaRegistry = self.fake
        registry.asked.append(self.path)
        status = registry.status or (HTTPStatus.NOT_FOUND if found is None else HTTPStatus.OK)
        if self.path in (f"/schemas/ids/{number}" for number in registry.denied):
            status = HTTPStatus.FORBIDDEN
        code = status if self.path.startswith("/schemas/guids/") else status * 100 + 3
        document = found if status is HTTPStatus.OK else {"error_code": code, "message": status.phrase}
        self.reply(status, json.dumps(document).encode(), {"Content-Type": "application/vnd.schemaregistry.v1+json"})
