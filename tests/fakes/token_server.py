"""A server that issues tokens for OAuth's client credentials, over TLS: RS256, as an OIDC provider does."""

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import trustme
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

CLIENT, SECRET, SCOPE = "connector", "right-secret", "kafka"


class TokenServer:
    """Issues tokens for one client; ``jwks()`` is what brokers verify them with.

    Attributes:
        url: where clients ask.
        seconds: how long the next tokens are valid.
        secret: of the client.
        scopes: that were asked for.
    """

    def __init__(self, authority: trustme.CA) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.seconds = 3600
        self.secret = SECRET
        self.scopes: list[str] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                kind, _, login = self.headers.get("Authorization", "").partition(" ")
                code, answer = owner._answer(base64.b64decode(login).decode() if kind == "Basic" else "", form)
                body = json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(tls)
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self._server.server_port}/token"

    def __enter__(self) -> "TokenServer":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def write_jwks(self, path: Path) -> None:
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "kid": "1", "alg": "RS256", "use": "sig", "n": _number(numbers.n), "e": _number(numbers.e)}
        path.write_text(json.dumps({"keys": [key]}))

    def _answer(self, login: str, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        if login != f"{CLIENT}:{self.secret}":
            return 401, {"error": "invalid_client", "error_description": "the client or its secret is wrong"}
        self.scopes += form.get("scope", [])
        now = int(time.time())
        claims = {"iss": "tests", "sub": CLIENT, "iat": now, "exp": now + self.seconds}
        signed = f"{_part({'alg': 'RS256', 'typ': 'JWT', 'kid': '1'})}.{_part(claims)}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        token = f"{signed}.{_encoded(signature)}"
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.seconds, "scope": SCOPE}


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
