"""Where a machine, a container or a token gets the keys of its role, each time others."""

import json
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from itertools import count
from urllib.parse import parse_qs

from tests.fakes.canned_server import Answer, CannedServer, Request

_ROLE = "lake-writer"
_MACHINE_TOKEN = "machine-token"
_KEYS_OF_MACHINE = "/latest/meta-data/iam/security-credentials/"


class RoleServer(CannedServer):
    """Gives keys ``ROLEKEY1``, ``ROLEKEY2`` … for ``lifetime``, in the ways that AWS knows.

    As the metadata service of a machine (version 2 alone: without a token it gives nothing), as the credentials
    endpoint of a container, for which ``authorization`` is needed, and as the token service.

    Attributes:
        tokens: the web identity tokens that keys were given for.
    """

    def __init__(self, lifetime: timedelta, authorization: str = "container-token") -> None:
        super().__init__(Answer())
        self._lifetime = lifetime
        self._authorization = authorization
        self._numbers = count(1)
        self.tokens: list[str] = []

    def next_answer(self, request: Request) -> Answer:
        self.requests.append(request)
        if request.method == "PUT" and request.path == "/latest/api/token":
            return Answer(body=_MACHINE_TOKEN.encode())
        if request.path.startswith("/latest/"):
            return self._for_a_machine(request)
        if request.path == "/container":
            allowed = request.headers.get("authorization") == self._authorization
            return Answer(body=self._keys()) if allowed else Answer(HTTPStatus.FORBIDDEN)
        return self._for_a_token(parse_qs(request.body.decode()))

    def _for_a_machine(self, request: Request) -> Answer:
        if request.headers.get("x-aws-ec2-metadata-token") != _MACHINE_TOKEN:
            return Answer(HTTPStatus.UNAUTHORIZED)
        if request.path == _KEYS_OF_MACHINE:
            return Answer(body=_ROLE.encode())
        return Answer(body=self._keys())

    def _for_a_token(self, asked: dict[str, list[str]]) -> Answer:
        self.tokens += asked["WebIdentityToken"]
        keys = json.loads(self._keys())
        body = f"""<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{keys["AccessKeyId"]}</AccessKeyId>
<SecretAccessKey>{keys["SecretAccessKey"]}</SecretAccessKey><SessionToken>{keys["Token"]}</SessionToken>
<Expiration>{keys["Expiration"]}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>"""
        return Answer(body=body.encode(), headers={"Content-Type": "text/xml"})

    def _keys(self) -> bytes:
        number = next(self._numbers)
        return json.dumps(
            {
                "Code": "Success",
                "AccessKeyId": f"ROLEKEY{number}",
                "SecretAccessKey": "role-secret",
                "Token": f"role-token-{number}",
                "Expiration": (datetime.now(UTC) + self._lifetime).strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
        ).encode()
