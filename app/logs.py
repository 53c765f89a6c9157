"""Sets up logging in two formats, keeps the last warnings, and prints the result for Quix Cloud's connection test."""

import json
import logging
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from textwrap import indent
from types import TracebackType
from typing import Literal

from app.errors import ConnectorError
from app.formatting import escape_control, escape_control_in_lines
from app.redaction import redact

logger = logging.getLogger(__name__)

LogFormat = Literal["text", "json"]

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_MARGIN = "    "
_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
_REMEMBERED = 10  # warnings and errors
_LONGEST_REMEMBERED = 500  # characters of a warning


class TextFormatter(logging.Formatter):
    """Formats a log record as one line, and adds the traceback of an exception.

    Text from other systems cannot begin a line or control a terminal. Control characters are escaped, and the lines of
    a traceback are indented.
    """

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        return escape_control(redact(super().formatMessage(record)))

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802 - the library's name
        return indent(escape_control_in_lines(redact(super().formatException(ei))), _MARGIN)


class JsonFormatter(logging.Formatter):
    """Formats a log record as a JSON object in one line.

    Fields: ``time`` (ISO 8601, UTC), ``level``, ``logger``, ``message``, ``exception``, ``extra={"fields": {...}}``.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": redact(record.getMessage()),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = redact(self.formatException(record.exc_info))
        return json.dumps(line, default=str)  # only ASCII: safe in any encoding, and surrogates cause no error


def formatter(log_format: LogFormat) -> logging.Formatter:
    return JsonFormatter() if log_format == "json" else TextFormatter()


# These libraries log a line for every request or call at INFO or DEBUG. These lines would hide the connector's lines.
_CHATTY = ("azure", "boto3", "botocore", "google", "msal", "openlineage", "py4j", "pyiceberg", "s3transfer", "urllib3")
# During an outage, these loggers repeat a message several times a second.
_REPETITIVE = (
    "app.kafka.topics",
    "app.kafka.connection",
    "app.parts.msk_iam.msk_token",
    "app.consumer.plain.client",
    "botocore.credentials",
    "quixstreams.checkpointing.checkpoint",
    "quixstreams.kafka.consumer",
    "quixstreams.kafka.producer",
    "quixstreams.models.topics.admin",
)
_REPEATED_AFTER_SECONDS = 60.0
_MOST_TOPICS = 200  # with a separate line per minute; further topics share one line
_MOST_MESSAGES = 1_000  # kept with their times; limited, because other users choose the names in messages
_VARYING = re.compile(r" \(after .*|\d+")  # times and counters


class _Repetitions(logging.Filter):
    """Logs a message at most once a minute. Messages that differ only in numbers count as the same message."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        message = _VARYING.sub("", record.getMessage())
        if 0 <= record.created - self._last.get(message, 0.0) < _REPEATED_AFTER_SECONDS:  # negative: a clock set back
            return False
        if len(self._last) >= _MOST_MESSAGES:
            self._last.clear()
        self._last[message] = record.created
        return True


_repetitions = _Repetitions()


class OnceAMinute:
    """Limits a frequent log line to one line per minute. Thread-safe. ``count`` is the number of all calls.

    Each topic has a separate line. The number of topics is limited, because users who create topics could fill the log.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._lines: dict[str, tuple[float, int]] = {}  # by topic: time of next line, number of skipped lines
        self.count = 0

    def turn(self, topic: str = "") -> str | None:
        """Returns the end of the line, with the number of skipped lines; ``None`` if this line is skipped."""
        with self._lock:
            self.count += 1
            now = self._clock()
            if topic not in self._lines and len(self._lines) >= _MOST_TOPICS:
                self._lines = {each: line for each, line in self._lines.items() if line[0] > now}
                topic = topic if len(self._lines) < _MOST_TOPICS else ""
            after, skipped = self._lines.get(topic, (now, 0))
            if now < after:
                self._lines[topic] = after, skipped + 1
                return None
            self._lines[topic] = now + _REPEATED_AFTER_SECONDS, 0
        return f" ({skipped:,} more since the last such message)" if skipped else ""


def set_up_logging(level: str, log_format: LogFormat = "text") -> None:
    """Logs to standard error at this level. Libraries that log each request log only warnings and errors."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(log_format))
    handler.addFilter(_remove_library_trace)
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level)))
    if level == "INFO":
        logging.getLogger("quixstreams").setLevel(logging.WARNING)
    # When Java ends, py4j raises errors, and also logs their stack traces, some of them on the root logger.
    logging.getLogger().addFilter(_is_not_of_py4j)
    for name in _REPETITIVE:
        logging.getLogger(name).addFilter(_is_for_this_client)
        logging.getLogger(name).addFilter(_repetitions)
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda ended: _log_uncaught(ended.exc_type, ended.exc_value, ended.exc_traceback)


def _log_uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """Logs an uncaught exception in the format of all other lines."""
    if isinstance(error, Exception):  # neither Ctrl-C nor SystemExit
        logger.error("not caught: %r. Please report this as a bug", error, exc_info=(kind, error, trace))


def _remove_library_trace(record: logging.LogRecord) -> bool:
    """Removes the stack trace that a library such as botocore logs in addition to raising an error."""
    if record.name.partition(".")[0] in _CHATTY and not logging.getLogger().isEnabledFor(logging.DEBUG):
        record.exc_info = None
    return True


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def _is_for_this_client(record: logging.LogRecord) -> bool:
    """Returns ``False`` for warnings about properties of KAFKA_CLIENT_CONFIG that are for another kind of client."""
    message = record.getMessage()
    return not ("CONFWARN" in message and "will be ignored by this" in message)


def announce_connected() -> None:
    """Prints for the platform's connection test that the broker, the store, the catalog and Spark work."""
    print("CONNECTED!", flush=True)  # noqa: T201 - the test needs the line at any LOGLEVEL


def announce_failure(error: ConnectorError) -> None:
    """Prints the error and what to do, for the platform's connection test and for users."""
    print(f"ERROR! {error}", flush=True)  # noqa: T201


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning or error in the log. ``at`` is the time in seconds since the epoch."""

    at: float
    level: str
    message: str


class RecentWarnings(logging.Handler):
    """A handler for the root logger that keeps the last warnings and errors for the status page."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._last: deque[Warned] = deque(maxlen=_REMEMBERED)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = redact(record.getMessage())
        except Exception:  # noqa: BLE001 - a library's format does not fit its values; logging must not fail
            self.handleError(record)
            return
        if len(message) > _LONGEST_REMEMBERED:
            message = message[:_LONGEST_REMEMBERED] + "…"
        self._last.append(Warned(record.created, record.levelname, message))

    def newest_first(self) -> list[Warned]:
        return list(self._last.copy())[::-1]
