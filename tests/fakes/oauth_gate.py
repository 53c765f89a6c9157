"""A REST catalog behind OAuth's client credentials: issues tokens, and lets requests with the newest one pass."""

import urllib.error
import urllib.request
from http import HTTPStatus
from urllib.parse import parse_qs

from tests.fakes.http_fake import FakeHandler, HttpFake

CLIENT, SECRET = "connector", "right-secret"
TOKENS, OTHER_TOKENS = "/v1/oauth/tokens", "/realms/lake/token"  # the catalog's own address for logins, and another


class OAuthGate(HttpFake):
    """In front of a real catalog at ``url``; ``refused`` counts requests without the newest token."""

    def __init__(self, url: str) -> None:
        super().__init__(_Handler)
        self.catalog = url
        self.asked: set[str] = set()
        self.issued = self.refused = 0
        self.token: str | None = None

    def expire(self) -> None:
        self.token = None


class _Handler(FakeHandler):
    def _pass(self) -> None:
        body = self.read_body()
        gate: OAuthGate = self.fake
        if self.path in (TOKENS, OTHER_TOKENS):
            self._issue(gate, {name: value for name, [value] in parse_qs(body.decode()).items()})
        elif gate.token and self.headers["Authorization"] == f"Bearer {gate.token}":
            self._forward(gate, body)
        else:
            gate.refused += 1
            self._answer(
                HTTPStatus.UNAUTHORIZED,
                b'{"error": {"message": "The token expired", "type": "NotAuthorizedException", "code": 401}}',
            )

    def _issue(self, gate: OAuthGate, form: dict[str, str]) -> None:
        gate.asked.add(self.path)
        wanted = {"grant_type": "client_credentials", "client_id": CLIENT, "client_secret": SECRET}
        if {name: form.get(name) for name in wanted} != wanted:
            error = b'{"error": "invalid_client", "error_description": "the client or its secret is wrong"}'
            self._answer(HTTPStatus.UNAUTHORIZED, error)
            return
        gate.issued += 1
        gate.token = f"token-{gate.issued}"
        self._answer(HTTPStatus.OK, f'{{"access_token": "{gate.token}", "token_type": "bearer"}}'.encode())

    def _forward(self, gate: OAuthGate, body: bytes) -> None:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(  # noqa: S310
            f"{gate.catalog}{self.path}", body or None, headers, method=self.command
        )
        try:
            with urllib.request.urlopen(request) as answer:  # noqa: S310
                self._answer(answer.status, answer.read())
        except urllib.error.HTTPError as refused:
            self._answer(refused.code, refused.read())

    def _answer(self, status: int, body: bytes) -> None:
        self.reply(status, body, {"Content-Type": "application/json"})

    do_GET = do_POST = do_DELETE = do_HEAD = _pass  # noqa: N815 - the names are the base class's
