"""Leaves out of texts what may be a secret: other systems repeat what they are sent, and show what they have issued."""

import re
from base64 import b64encode
from typing import Final

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
_issued: Final[dict[str, re.Pattern[str]]] = {}
_MOST_ISSUED: Final = 50  # tokens run out


def add_secrets(*secrets: str | None) -> None:
    """Notes secrets of this process, and those inside of them."""
    inside = ("".join(found) for secret in secrets for found in _INSIDE.findall(secret or ""))
    for secret in (*secrets, *inside):
        if secret and len(secret) >= _SHORTEST:
            _known[secret] = _in_any_form(secret)


def add_login(header: str | None) -> None:
    """Notes what an ``Authorization`` header shows: a token that another system has issued, or a password."""
    scheme, _, login = (header or "").partition(" ")
    if scheme in ("Basic", "Bearer") and len(login) >= _SHORTEST and login not in _issued:
        _issued[login] = _in_any_form(login)
        for oldest in [*_issued][:-_MOST_ISSUED]:
            _issued.pop(oldest, None)


def _in_any_form(secret: str) -> re.Pattern[str]:
    """Returns what finds a secret as it is, escaped for addresses, JSON or HTML, and in base64 or hexadecimal."""
    raw = secret.encode(errors="surrogateescape")
    coded = "".join("[+-]" if char == "+" else "[/_]" if char == "/" else char for char in b64encode(raw).decode())
    edge = r"\b" if len(secret) < _WHOLE_WORDS else ""
    plain = edge + "".join(map(_in_any_escape, secret)) + edge
    return re.compile(f"{plain}|{coded.rstrip('=')}|(?i:{raw.hex()})")


def _in_any_escape(char: str) -> str:
    if char.isascii() and char.isalnum():
        return char
    of_address = "".join(f"%{byte:02x}" for byte in char.encode(errors="surrogateescape"))
    return rf"(?:\\?{re.escape(char)}|(?i:{of_address}|\\u{ord(char):04x})|&#?\w{{1,6}};|\\[nrt]|\+)"


def redact(text: str) -> str:
    """Returns the text with ``***`` in the place of secrets."""
    for _, pattern in sorted({**_known, **_issued}.items(), key=lambda item: -len(item[0])):
        text = pattern.sub(_HIDDEN, text)
    return _UNKNOWN.sub(rf"\g<1>{_HIDDEN}", _ADDRESS.sub(r"\g<1>\g<2>", text))
