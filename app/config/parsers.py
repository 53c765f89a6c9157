"""Parses text from the environment into checked values.

Every function takes the text of one variable and returns the value, or raises ``ValueError`` with the end of a
sentence that begins with the variable's name: ``must be …``. Text that may hold a secret is never repeated there.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,254}")
_BROKER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}")
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?")
_MEMORY = re.compile(r"(\d+)([mg])", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SMALLEST_HEAP_MB = 512  # measured: a heap of 300 MB does not start

VIRTUAL_MARK: Final = "~"
METADATA_COLUMNS: Final = ("__topic", "__partition", "__offset", "__timestamp", "__headers")

NAME_RULE: Final = 'letters, digits, ".", "_" and "-", beginning with a letter or digit and without ".."'


def whole_number(low: int, high: int | None = None) -> Callable[[Any], int]:
    """Return a parser for whole numbers from ``low`` to ``high``, both included."""
    span = f"of at least {low:,}" if high is None else f"from {low:,} to {high:,}"

    def parse(raw: Any) -> int:
        try:
            value = int(raw)
        except ValueError:
            raise ValueError(f"must be a whole number {span}") from None
        if value < low or (high is not None and value > high):
            raise ValueError(f"must be a whole number {span}")
        return value

    return parse


def one_of(allowed: Iterable[str], fold: Callable[[str], str] = str) -> Callable[[Any], str]:
    """Return a parser for one of the ``allowed`` words; ``fold`` brings the text to their case first."""
    words = tuple(allowed)

    def parse(raw: Any) -> str:
        word = fold(str(raw))
        if word not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return word

    return parse


def matching(pattern: str, complaint: str) -> Callable[[str], str]:
    """Return a parser for text of which all matches the regular expression ``pattern``."""
    compiled = re.compile(pattern)

    def parse(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(complaint)
        return text

    return parse


container = matching(
    r"(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*",
    "must be a container's name: 3 to 63 lower-case letters, digits and single hyphens",
)
storage_account = matching(r"[a-z0-9]{3,24}", "must be the account's name alone: 3 to 24 lower-case letters and digits")
null_folder = matching(
    r"[A-Za-z0-9_][A-Za-z0-9._-]*", 'must be auto or a folder name of letters, digits, ".", "_" and "-"'
)
aws_region = matching(
    r"[a-z]{2,4}(-[a-z]+)+-\d{1,2}",
    "must be a region of AWS, such as eu-west-1 (or set AWS_ENDPOINT_URL for another S3 store)",
)
other_region = matching(r"[A-Za-z0-9][A-Za-z0-9_-]*", 'must be the name of a region: letters, digits, "_" and "-"')
local_master = matching(
    r"local(\[(\*|[1-9]\d*)(,\s*[1-9]\d*)?\])?",
    "must be local, local[N] or local[*]: a Spark cluster is not supported by this version",
)


def seconds(raw: Any) -> float:
    """Parse a positive, finite number of seconds."""
    try:
        value = float(raw)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:  # also false for nan
        raise ValueError("must be a number of seconds above 0, such as 30 or 0.5")
    return value


def milliseconds_or_off(raw: Any) -> int | None:
    """Parse a whole number of milliseconds; 0 or less means off."""
    try:
        value = int(raw)
    except ValueError:
        raise ValueError("must be a whole number of milliseconds") from None
    return value if value > 0 else None


def flag(raw: Any) -> bool:
    """Parse ``true`` or ``false`` in any case."""
    if isinstance(raw, bool):
        return raw
    return one_of(("true", "false"), str.lower)(raw) == "true"


def fits_as_name(text: str) -> bool:
    """Return whether this can be a component of an object key, or the name of a table or namespace."""
    return _NAME.fullmatch(text) is not None and ".." not in text


def name(text: str) -> str:
    """Parse the name of a table or a namespace."""
    if not fits_as_name(text):
        raise ValueError(f"must be made of {NAME_RULE}")
    return text


def prefix(text: str) -> str:
    """Parse a key prefix of one or more components; slashes around it are dropped."""
    stripped = text.strip("/")
    if not stripped or not all(fits_as_name(component) for component in stripped.split("/")):
        raise ValueError(f"must be a path such as lake/raw, each component made of {NAME_RULE}")
    return stripped


def bucket(text: str) -> str:
    """Parse the bare name of a bucket."""
    if "/" in text:
        raise ValueError("must be the bucket's name alone, such as my-lake: no s3://, and the path goes into S3_PREFIX")
    if not _BUCKET.fullmatch(text):
        raise ValueError('must be a bucket\'s name: 3 to 255 letters, digits, ".", "_" and "-"')
    return text


def columns(text: str) -> tuple[str, ...]:
    """Parse a comma separated list of column names, each of them once; empty text is an empty list."""
    names = _entries(text)
    _check_names(names)
    return names


def partitions(text: str) -> tuple[str, ...]:
    """Parse a comma separated list of partition columns; the names of virtual ones keep their ``~``."""
    entries = _entries(text)
    marks = [VIRTUAL_MARK if entry.startswith(VIRTUAL_MARK) else "" for entry in entries]
    names = [entry.removeprefix(VIRTUAL_MARK).strip() for entry in entries]
    _check_names(names)
    for mark, name in zip(marks, names, strict=True):
        if name.startswith(".") and not mark:
            raise ValueError(f'must not hold a name that begins with "." ({name}): readers skip such folders')
    return tuple(mark + name for mark, name in zip(marks, names, strict=True))


def metadata_columns(text: str) -> tuple[str, ...]:
    """Parse a comma separated list of metadata columns."""
    names = columns(text)
    unknown = [name for name in names if name not in METADATA_COLUMNS]
    if unknown:
        raise ValueError(f"must be any of {', '.join(METADATA_COLUMNS)} with commas between them, not {unknown[0]}")
    return names


def host_names(text: str) -> tuple[str, ...]:
    """Parse a comma separated list of host names, without ports."""
    names = _entries(text)
    wrong = next((name for name in names if not _HOST.fullmatch(name)), None)
    if wrong is not None:
        raise ValueError(f'must be host names with commas between them, without "http://" and port, not {wrong!r}')
    return names


def _entries(text: str) -> tuple[str, ...]:
    """The entries of a list; a comma behind the last one is allowed."""
    if not text.strip():
        return ()
    entries = tuple(part.strip() for part in text.split(","))
    return entries[:-1] if len(entries) > 1 and not entries[-1] else entries


def _check_names(names: Sequence[str]) -> None:
    if not all(names):
        raise ValueError("must be column names with commas between them; there is an empty one")
    if any(_CONTROL.search(column) for column in names):
        raise ValueError("must not hold control characters")
    twice = sorted({column for column in names if names.count(column) > 1})
    if twice:
        raise ValueError(f"must name each column once; more than once: {', '.join(twice)}")


def http_url(text: str) -> str:
    """Parse an http(s) address without credentials or a query; slashes at its end are dropped."""
    parts = _http_parts(text, "https://host:port/path")
    if parts.query or parts.fragment:
        raise ValueError('must not hold a query ("?") or a fragment ("#")')
    return text.rstrip("/")


def _http_parts(text: str, example: str) -> SplitResult:
    """The parts of an http(s) address without credentials."""
    parts = _split(text)
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname or re.search(r"\s", text):
        raise ValueError(f"must be an address such as {example}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not hold a user or password")
    return parts


def _split(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        _ = parts.port  # the port is checked only when asked for
    except ValueError:
        return None
    return parts


def brokers(text: str) -> str:
    """Parse a comma separated list of ``host:port``."""
    addresses = _entries(text)
    wrong = next((address for address in addresses if not _BROKER.fullmatch(address)), None)
    if not addresses or wrong is not None:
        lacks_port = wrong and _BROKER.fullmatch(f"{wrong}:9092")
        example = f", such as {wrong}:9092" if lacks_port else ""
        raise ValueError(f"must be host:port, several with commas between them{example}")
    return ",".join(addresses)


def is_pem(text: str) -> bool:
    """Return whether this is a text in PEM, and not the path of a file."""
    return "-----BEGIN " in text


def pem_or_path(text: str) -> str:
    r"""Parse the path of a file that can be read, or a text in PEM, whose line ends may be written as ``\n``."""
    if is_pem(text):
        return text.replace("\\n", "\n") + "\n"
    try:
        with Path(text).open("rb"):
            return text
    except FileNotFoundError:
        raise ValueError("must be a file that exists where the connector runs, or its text in PEM") from None
    except (OSError, ValueError) as error:  # a directory, missing rights, a name that is too long or has a NUL
        reason = getattr(error, "strerror", None) or "it is no path"
        raise ValueError(f"must be a file that can be read, or its text in PEM: {reason}") from None


def endpoint(text: str) -> str:
    """Parse an http(s) address without credentials; path and query stay as they are."""
    _http_parts(text, "https://host/oauth2/token")
    return text


def oauth_extensions(text: str) -> str:
    """Parse a comma separated list of ``name=value``."""
    pairs = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[A-Za-z]+=.+", pair) for pair in pairs):
        raise ValueError("must be name=value, several with commas between them; a name has letters only")
    return ",".join(pairs)


def local_folder(path: str) -> Path:
    """Parse the full path of a folder of this machine, which need not exist."""
    folder = Path(path)
    if not folder.is_absolute() or folder == Path("/") or ".." in folder.parts or "\0" in path:
        raise ValueError("must name a folder by its full path, such as /lake, which is file:///lake as an address")
    return folder


def heap(text: str) -> str:
    """Parse the size of the Java heap as Spark writes it."""
    if not _MEMORY.fullmatch(text) or megabytes(text) < _SMALLEST_HEAP_MB:
        raise ValueError(f"must be a size such as 1g or 512m, at least {_SMALLEST_HEAP_MB}m")
    return text.lower()


def megabytes(size: str) -> int:
    """Return the MB of a size that ``heap`` has accepted."""
    number, unit = size[:-1], size[-1].lower()
    return int(number) * (1024 if unit == "g" else 1)


def json_object(text: str) -> dict[str, Any]:
    """Parse a JSON object."""
    try:
        document = json.loads(text)
    except ValueError:
        raise ValueError("must be a JSON object, and it is no JSON") from None  # the cause would show its content
    if isinstance(document, dict):
        return document
    raise ValueError("must be a JSON object, and it is another kind of value")


def check_google_credentials(text: str) -> None:
    """Check that this can be the content of a credentials file of Google.

    Raises:
        ValueError: it cannot.
    """
    if "type" not in json_object(text):
        raise ValueError('must be the content of a credentials file: a JSON object with a field "type"')
