"""Parses and checks the texts of environment variables.

Each function parses the text of a variable and returns the value, or raises ``ValueError``. The error message is the
end of a sentence that begins with the variable's name: ``must be …``. The message never contains a secret.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from zoneinfo import available_timezones

from app import time_texts
from app.model import EACH_TOPIC
from app.parts import FORMATS
from app.table.layout import KAFKA_PARTITIONS

_NAME = r"[A-Za-z0-9]([A-Za-z0-9_-]|\.(?!\.))*"
_SMALLEST_HEAP_MB = 512  # in a test, Spark did not start with 300 MB

VIRTUAL_MARK: Final = "~"
_OF_EACH_RECORD: Final = ("__offset", "__timestamp", "__headers")
METADATA_COLUMNS: Final = (*KAFKA_PARTITIONS, *_OF_EACH_RECORD)
ORDER_COLUMNS: Final = ("__partition", "__offset", "__timestamp")  # decide which of two rows is newer

NAME_RULE: Final = 'letters, digits, ".", "_" and "-", beginning with a letter or digit and without ".."'
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def matching(pattern: str, complaint: str) -> Callable[[str], str]:
    """Return a parser that refuses texts that do not fully match the regular expression ``pattern``."""
    compiled = re.compile(pattern)

    def parse(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(complaint)
        return text

    return parse


def listed(
    pattern: str, complaint: str, separator: str = ",", *, once: bool = False
) -> Callable[[str], tuple[str, ...]]:
    """Return a parser for a comma-separated list of texts that match ``pattern``. A comma at the end is allowed.

    If ``once`` is true, the texts are names of columns, and no name may occur twice.
    """
    entry = matching(pattern, complaint)

    def parse(text: str) -> tuple[str, ...]:
        texts = [part.strip() for part in re.split(separator, text)]
        if not texts[-1] and (len(texts) > 1 or not text):
            texts.pop()
        entries = tuple(map(entry, texts))
        return _once(entries) if once else entries

    return parse


name = matching(_NAME, f"must be made of {NAME_RULE}")


def table_name(text: str) -> str:
    """Parse the name of a table. The name may contain ``{topic}``, which means the name of the topic."""
    name(text.replace(EACH_TOPIC, "topic"))
    return text


_path = matching(rf"/*{_NAME}(/{_NAME})*/*", f"must be a path such as lake/raw, each component made of {NAME_RULE}")
bucket = matching(
    r"[A-Za-z0-9][A-Za-z0-9._-]{2,254}",
    'must be only the bucket\'s name, as in s3://my-lake or S3_BUCKET=my-lake: 3 to 255 letters, digits, ".", "_" and '
    '"-"; set the path in S3_PREFIX',
)
container = matching(
    r"(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*",
    "must be only the container's name: 3 to 63 lower-case letters, digits and single hyphens; set the path in "
    "S3_PREFIX",
)
storage_account = matching(r"[a-z0-9]{3,24}", "must be only the account's name: 3 to 24 lower-case letters and digits")
null_folder = matching(
    r"[A-Za-z0-9_][A-Za-z0-9._-]*", 'must be auto or a folder name of letters, digits, ".", "_" and "-"'
)
aws_region = matching(
    r"[a-z]{2,4}(-[a-z]+)+-\d{1,2}",
    "must be an AWS region, such as eu-west-1 (or set AWS_ENDPOINT_URL for another S3 store)",
)
_glue = matching(
    r"glue://[a-z]{2,4}(-[a-z]+)+-\d{1,2}/[A-Za-z0-9$#._-]{1,255}",
    "must be glue://<region>/<registry>, such as glue://eu-west-1/default-registry",
)
role_arn = matching(
    r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+", "must be the ARN of a role: arn:aws:iam::123456789012:role/name"
)
external_id = matching(r"[\w+=,.@:/-]{2,1224}", 'must be 2 or more letters, digits and characters of "+=,.@:/-"')
other_region = matching(r"[A-Za-z0-9][A-Za-z0-9_-]*", 'must be the name of a region: letters, digits, "_" and "-"')
spark_master = matching(
    r"local(\[(\*|[1-9]\d*)(,\s*[1-9]\d*)?\])?|spark://.+|k8s://.+|yarn",
    "must be local, local[N] or local[*]; for compact and erase also spark://HOST:PORT, k8s://HOST:PORT or yarn",
)
keep = matching(r"[1-9]\d{0,8}[mhd]", "must be a duration such as 400d, 36h or 90m")
host_names = listed(
    r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?",
    'must be host names, separated by commas, without "http://" and port',
)
origins = listed(
    r"https?://(\*\.)?[A-Za-z0-9._-]+(:[0-9]{1,5})?",
    "must be origins such as https://portal.example.com or https://*.example.com, separated by commas",
)
brokers = listed(
    r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}",
    "must be host:port, such as kafka:9092; separate several with commas",
)
oauth_extensions = listed(r"[A-Za-z]+=.+", "must be name=value; separate several with commas; a name has letters only")
_NAMES = "must be column names, separated by commas, none of them empty or with control characters"
columns = listed(r"[^\x00-\x1f\x7f]+", _NAMES, once=True)
_partitions = listed(r"[^\x00-\x1f\x7f]+", _NAMES, r",(?![^()]*\))")
_like_transform = re.compile(r"~?\s*(identity|void|years?|months?|days?|hours?|bucket|truncate)\s*[(\[]", re.IGNORECASE)
_transform = re.compile(r"(year|month|day|hour)\((.+)\)|(bucket|truncate)\(\s*([1-9][0-9]{0,8})\s*,(.+)\)")
_renames = listed(
    r"[^:\x00-\x1f\x7f]+:[^:\x00-\x1f\x7f]+",
    "must be field:column, without a colon in a name; separate several with commas",
)
metadata_columns = listed("|".join(METADATA_COLUMNS), f"must be any of {', '.join(METADATA_COLUMNS)}", once=True)


def prefix(text: str) -> str:
    return _path(text).strip("/")


def renames(text: str) -> dict[str, str]:
    pairs = [entry.split(":") for entry in _renames(text)]
    fields = _once(tuple(name.strip() for name, _ in pairs))
    return dict(zip(fields, _once(tuple(column.strip() for _, column in pairs)), strict=True))


def partitions(text: str) -> tuple[str, ...]:
    """Parse partition columns: names, virtual columns such as ``~name``, and transforms such as ``day(at)``."""
    entries = tuple(re.sub(rf"^{VIRTUAL_MARK}\s*", VIRTUAL_MARK, entry) for entry in _partitions(text))
    entries = tuple(re.sub(r"\s*([(),])\s*", r"\1", entry) if transform(entry) else entry for entry in entries)
    _once(tuple(entry.removeprefix(VIRTUAL_MARK) for entry in entries))
    if VIRTUAL_MARK in entries:
        raise ValueError(f"must have a name after each {VIRTUAL_MARK}")
    if refused := {entry.removeprefix(VIRTUAL_MARK) for entry in entries}.intersection(_OF_EACH_RECORD):
        raise ValueError(f"must not contain {', '.join(sorted(refused))}: nearly each record would have its own folder")
    if any(entry.startswith(".") for entry in entries):
        raise ValueError('must not contain a name that begins with ".": readers skip these folders')
    return entries


def time_zone(text: str) -> str:
    if text not in available_timezones() - {"localtime", "Factory"}:  # these names are not time zones
        raise ValueError("must be the name of a time zone in the tz database, such as Europe/Prague")
    return text


def transform(entry: str) -> tuple[str, str] | None:
    """Return a transform in Iceberg's notation, such as ``bucket[16]``, and the column; ``None`` if not a transform."""
    match = _transform.fullmatch(entry)
    if not match:
        return None
    time, of_time, sized, size, of_size = match.groups()
    return (time, of_time.strip()) if time else (f"{sized}[{size}]", of_size.strip())


def is_odd_transform(entry: str) -> bool:
    """Return whether the entry looks like a transform, but is not valid."""
    return bool(_like_transform.match(entry)) and not transform(entry)


def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({column for column in names if names.count(column) > 1})
    if twice:
        raise ValueError(f"must contain each column once; repeated columns: {', '.join(twice)}")
    return names


def endpoint(text: str) -> str:
    """Parse an http(s) address without credentials. The path and the query are not changed."""
    try:
        parts = urlsplit(text)
        _ = parts.port, (parts.hostname or "").encode("idna")  # Python checks both parts when they are read
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname or re.search(r"\s", text):
        raise ValueError("must be an address such as https://host:port/path")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not contain a user or password")
    return text


def http_url(text: str) -> str:
    """Parse an http(s) address without credentials or a query. Slashes at the end are removed."""
    if "?" in endpoint(text) or "#" in text:
        raise ValueError('must not contain a query ("?") or a fragment ("#")')
    return text.rstrip("/")


def registry_url(text: str) -> str:
    return _glue(text) if text.startswith("glue:") else http_url(text)


def is_pem(text: str) -> bool:
    return "-----BEGIN " in text


def deserializer(text: str) -> str:
    return next((name for name, each in FORMATS.items() if each.also == text.lower()), text)


def pem_or_path(text: str) -> str:
    r"""Parse the path of a readable file, or a PEM text. In a PEM text, line ends may be written as ``\n``."""
    if is_pem(text):
        return text.replace("\\n", "\n") + "\n"
    try:
        with Path(text).open("rb"):
            return text
    except (OSError, ValueError) as error:  # a directory, no read permission, or an invalid name
        reason = getattr(error, "strerror", None) or "it is not a path"
        raise ValueError(f"must be a file that the connector can read, or its PEM text: {reason}") from None


def local_folder(path: str) -> str:
    """Parse the absolute path of a local folder. The folder may be missing."""
    folder = Path(path)
    if not folder.is_absolute() or folder == Path("/") or ".." in folder.parts or "\0" in path:
        raise ValueError("must be the full path of a folder, such as /lake, which is file:///lake as an address")
    return str(folder)


def storage_url(text: str) -> str:
    """Parse a store's address: the scheme, and a bucket, a container or a folder. The scheme becomes lower-case."""
    scheme, _, rest = text.partition("://")
    match scheme.lower():
        case "file":
            return f"file://{local_folder(unquote(rest))}"
        case "s3" | "gs" as bucket_scheme:
            return f"{bucket_scheme}://{bucket(rest.rstrip('/'))}"
        case "az":
            return f"az://{container(rest.rstrip('/'))}"
    raise ValueError("must be s3://bucket, gs://bucket, az://container or file:///folder")


def offset_reset(text: str) -> str | datetime | timedelta:
    """Parse ``earliest``, ``latest``, a time (UTC if the zone is missing), or a period before now such as ``-7d``."""
    complaint = "must be earliest, latest, a time such as 2026-11-01T00:00:00Z, or a span before now such as -7d"
    return _time(text, complaint, "earliest", "latest")


def until(text: str) -> str | datetime | timedelta:
    """Parse ``now``, a time in the past, or a period before now such as ``-1h``."""
    end = _time(text, "must be now, a time such as 2026-11-01T00:00:00Z, or a span before now such as -1h", "now")
    if isinstance(end, datetime) and end > datetime.now(UTC):
        raise ValueError("must be a time in the past")
    return end


def _time(text: str, complaint: str, *words: str) -> str | datetime | timedelta:
    if text.lower() in words:
        return text.lower()
    try:
        if not text.startswith("-"):
            return time_texts.time(text)
        since = time_texts.duration(text[1:])
        datetime.now(UTC) - since  # raises OverflowError before the year 1
    except (ValueError, OverflowError):
        raise ValueError(complaint) from None
    return since


def heap_mb(text: str) -> int:
    match = re.fullmatch(r"(\d+)([mg])", text.lower())
    size = int(match[1]) * (1024 if match[2] == "g" else 1) if match else 0
    if size < _SMALLEST_HEAP_MB:
        raise ValueError(f"must be a size such as 1g or 512m, at least {_SMALLEST_HEAP_MB}m")
    return size


def json_object(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:  # the error's message would show the content
        document = None
    if not isinstance(document, dict):
        raise ValueError("must be a JSON object")  # noqa: TRY004
    return document


@dataclass(frozen=True, slots=True)
class Schedule:
    """Times with a fixed ``period``, equal for all processes. The first time is ``offset`` after the Unix epoch."""

    text: str
    period: timedelta
    offset: timedelta = timedelta(0)

    def __str__(self) -> str:
        return self.text

    def next(self, now: datetime) -> datetime:
        begin = _EPOCH + self.offset
        return begin + ((now - begin) // self.period + 1) * self.period


def schedule(text: str) -> Schedule:
    """Parse a time of day, such as ``03:15``, or a duration, such as ``6h``."""
    if at := re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", text):
        return Schedule(text, timedelta(days=1), timedelta(hours=int(at[1]), minutes=int(at[2])))
    if not re.fullmatch(r"[1-9]\d{0,4}[mhd]", text):
        raise ValueError("must be a time of day in UTC such as 03:15, or a duration such as 6h, 90m or 1d")
    return Schedule(text, time_texts.duration(text))
