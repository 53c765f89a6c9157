"""A server that issues tokens for OAuth's client credentials, over TLS: RS256, as an OIDC provider does."""

import base64
import json
import ssl
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import trustme
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.fakes.http_fake import FakeHandler, HttpFake

CLIENT, SECRET, SCOPE = "connector", "right-secret", "kafka"


class TokenServer(HttpFake):
    """Issues tokens for one client, valid for ``seconds``; ``jwks()`` is what brokers verify them with."""

    def __init__(self, authority: trustme.CA) -> None:
        super().__init__(_Handler)
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.seconds = 3600
        self.secret = SECRET
        self.scopes: list[str] = []
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(tls)
        self._http.socket = tls.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)

    @property
    def url(self) -> str:
        return f"{super().url.replace('http:', 'https:')}/token"

    def write_jwks(self, path: Path) -> None:
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "kid": "1", "alg": "RS256", "use": "sig", "n": _number(numbers.n), "e": _number(numbers.e)}
        path.write_text(json.dumps({"keys": [key]}))

    def answer(self, login: str, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        if login != f"{CLIENT}:{self.secret}":
            return 401, {"error": "invalid_client", "error_description": "the client or its secret is wrong"}
        self.scopes += form.get("scope", [])
        now = int(time.time())
        claims = {"iss": "tests", "sub": CLIENT, "iat": now, "exp": now + self.seconds}
        signed = f"{_part({'alg': 'RS256', 'typ': 'JWT', 'kid': '1'})}.{_part(claims)}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        token = f"{signed}.{_encoded(signature)}"
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.seconds, "scope": SCOPE}


class _Handler(FakeHandler):
    def do_POST(self) -> None:  # noqa: N802 - the name is the base class's
        form = parse_qs(self.read_body().decode())
        kind, _, login = self.headers.get("Authorization", "").partition(" ")
        code, answer = self.fake.answer(base64.b64decode(login).decode() if kind == "Basic" else "", form)
        self.reply(code, json.dumps(answer).encode(), {"Content-Type": "application/json"})


def unsigned_token(seconds: int) -> str:
    """A token without a signature, as brokers without a key accept it."""
    now = int(time.time())
    return f"{_part({'alg': 'none'})}.{_part({'sub': CLIENT, 'iat': now, 'exp': now + seconds})}."


def _part(claims: dict[str, Any]) -> str:
    return _encoded(json.dumps(claims).encode())


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _number(value: int) -> str:
    return _encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))
