"""Where a token gets the keys of its role, each time others."""

from datetime import UTC, datetime, timedelta
from itertools import count
from urllib.parse import parse_qs

from tests.fakes.canned_server import Answer, CannedServer, Request


class RoleServer(CannedServer):
    """Gives keys ``ROLEKEY1``, ``ROLEKEY2`` … for web identity ``tokens``, as the token service of AWS."""

    def __init__(self, lifetime: timedelta) -> None:
        super().__init__(Answer())
        self._lifetime = lifetime
        self._numbers = count(1)
        self.tokens: list[str] = []

    def next_answer(self, request: Request) -> Answer:
        self.requests.append(request)
        self.tokens += parse_qs(request.body.decode())["WebIdentityToken"]
        number, expires = next(self._numbers), datetime.now(UTC) + self._lifetime
        body = f"""<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ROLEKEY{number}</AccessKeyId>
<SecretAccessKey>role-secret</SecretAccessKey><SessionToken>role-token-{number}</SessionToken>
<Expiration>{expires:%Y-%m-%dT%H:%M:%SZ}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>"""
        return Answer(body=body.encode(), headers={"Content-Type": "text/xml"})
