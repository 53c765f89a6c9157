"""Removes possible secrets from texts. Messages of other systems repeat received secrets, and contain issued tokens."""

import re
from base64 import b64encode
from typing import Final

_SHORTEST: Final = 6  # a shorter secret is a common word, such as admin; removing the word would reveal the secret
_WHOLE_WORDS: Final = 8  # a shorter secret is only removed as a complete word
_LONGEST: Final = 16_384  # a longer secret is only found as plain text, because other forms need much memory
_HIDDEN: Final = "***"

# In an address, only scheme, host and path remain. A user in front of the host, or a query, may contain a secret.
_ADDRESS: Final = re.compile(
    r"""\b([a-z][a-z0-9+.-]{0,15}://)(?:[^\s/?#"'<>]{0,300}@)?([^\s?#"'<>]*)(?:[?#][^\s"'<>]*)?""", re.IGNORECASE
)
_UNKNOWN: Final = re.compile(  # for example a new token of another system; words are shorter
    r"""\b((?:bearer|basic)(?:\s|\+|%20)+|\w{0,30}(?:token|secret|password|sig(?:nature)?|credential|authorization"""
    r"""|(?:api|access|account|private)[_-]?key)[\\"']{0,3}\s{0,3}[:=>]\s{0,3}[\\"']{0,3})[a-z0-9._~+/=%-]{16,}""",
    re.IGNORECASE,
)
_INSIDE: Final = re.compile(  # in a connection string, or in a JSON object
    r"""(?:secret\w*|password|token|(?<!access)key|accesssignature)["']?\s*[:=]\s*(?:"([^"]+)|([^\s";&]+))""",
    re.IGNORECASE,
)
_known: Final[dict[str, re.Pattern[str]]] = {}
_issued: Final[dict[str, re.Pattern[str]]] = {}
_MOST_ISSUED: Final = 50  # older tokens have expired


def add_secrets(*secrets: str | None) -> None:
    """Notes secrets of this process, and secrets inside connection strings or JSON objects."""
    inside = ("".join(groups) for secret in secrets for groups in _INSIDE.findall(secret or ""))
    for secret in (*secrets, *inside):
        if secret and len(secret) >= _SHORTEST:
            _known[secret] = _in_any_form(secret)


def add_login(header: str | None) -> None:
    """Notes the secret in an ``Authorization`` header. The secret is a password, or a token of another system."""
    scheme, _, login = (header or "").partition(" ")
    if scheme in ("Basic", "Bearer") and len(login) >= _SHORTEST and login not in _issued:
        _issued[login] = _in_any_form(login)
        for oldest in [*_issued][:-_MOST_ISSUED]:
            _issued.pop(oldest, None)


def _in_any_form(secret: str) -> re.Pattern[str]:
    """Returns a pattern that finds the secret as plain, escaped, base64 or hexadecimal text."""
    if len(secret) > _LONGEST:
        return re.compile(re.escape(secret))
    raw = secret.encode(errors="surrogateescape")
    coded = "".join("[+-]" if char == "+" else "[/_]" if char == "/" else char for char in b64encode(raw).decode())
    edge = r"\b" if len(secret) < _WHOLE_WORDS else ""
    plain = edge + "".join(map(_in_any_escape, secret)) + edge
    return re.compile(f"{plain}|{coded.rstrip('=')}|(?i:{raw.hex()})")


def _in_any_escape(char: str) -> str:
    if char.isascii() and char.isalnum():
        return char
    percent_encoded = "".join(f"%{byte:02x}" for byte in char.encode(errors="surrogateescape"))
    return rf"(?:\\?{re.escape(char)}|(?i:{percent_encoded}|\\u{ord(char):04x})|&#?\w{{1,6}};|\\[nrt]|\+)"


def redact(text: str) -> str:
    """Returns the text. Each secret is replaced by ``***``."""
    for _, pattern in sorted({**_known, **_issued}.items(), key=lambda item: -len(item[0])):
        text = pattern.sub(_HIDDEN, text)
    return _UNKNOWN.sub(rf"\g<1>{_HIDDEN}", _ADDRESS.sub(r"\g<1>\g<2>", text))
