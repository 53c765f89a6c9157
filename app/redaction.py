"""Leaves out of texts what may be a secret: other systems repeat what they are sent, and show what they have issued."""

import json
import re
from base64 import b64encode
from collections import deque
from typing import Final
from urllib.parse import quote

_SHORTEST: Final = 6  # a shorter one is a usual word, such as admin, and its absence would tell it
_WHOLE_WORDS: Final = 8  # a shorter one may be a part of another word
_HIDDEN: Final = "***"

# Of an address scheme, host and path are shown: a user before the host, or a query, may be a login.
_ADDRESS: Final = re.compile(
    r"""\b([a-z][a-z0-9+.-]{0,15}://)(?:[^\s/?#"'<>]{0,300}@)?([^\s?#"'<>]*)(?:[?#][^\s"'<>]*)?""", re.IGNORECASE
)
_UNKNOWN: Final = re.compile(  # such as a token that was just issued; words are shorter
    r"""\b((?:bearer|basic)(?:\s|\+|%20)+|\w{0,30}(?:token|secret|password|sig(?:nature)?|credential|authorization"""
    r"""|(?:api|access|account|private)[_-]?key)["']?\s{0,3}[:=]\s{0,3}["']?)[a-z0-9._~+/=%-]{16,}""",
    re.IGNORECASE,
)
_INSIDE: Final = re.compile(  # of a connection string, or of an object in JSON
    r"""(?:secret\w*|password|token|(?<!access)key|accesssignature)["']?\s*[:=]\s*(?:"([^"]+)|([^\s";&]+))""",
    re.IGNORECASE,
)
_known: Final[dict[str, re.Pattern[str]]] = {}
_issued: Final[deque[str]] = deque(maxlen=20)


def add_secrets(*secrets: str | None) -> None:
    """Notes secrets of this process, those inside of them, and the forms in which another system may repeat them."""
    inside = ("".join(found) for secret in secrets for found in _INSIDE.findall(secret or ""))
    for secret in (*secrets, *inside):
        if secret and len(secret) >= _SHORTEST:
            encoded = secret.encode(errors="surrogateescape")
            for form in (secret, quote(encoded, safe=""), json.dumps(secret)[1:-1], b64encode(encoded).decode()):
                edge = r"\b" if len(form) < _WHOLE_WORDS else ""
                _known[form] = re.compile(edge + re.escape(form) + edge)


def add_login(header: str | None) -> None:
    """Notes what an ``Authorization`` header shows: a token that another system has issued, or a password."""
    scheme, _, login = (header or "").partition(" ")
    if scheme in ("Basic", "Bearer") and len(login) >= _SHORTEST and login not in _issued:
        _issued.append(login)


def redact(text: str) -> str:
    """Returns the text with ``***`` in the place of secrets."""
    for _, pattern in sorted(_known.items(), key=lambda item: -len(item[0])):
        text = pattern.sub(_HIDDEN, text)
    for login in _issued.copy():
        text = text.replace(login, _HIDDEN)
    return _UNKNOWN.sub(rf"\g<1>{_HIDDEN}", _ADDRESS.sub(r"\g<1>\g<2>", text))
