"""How a line of the log looks: text for a person, or one JSON object a line for what collects logs."""

import json
import logging
from datetime import UTC, datetime
from typing import Literal

LogFormat = Literal["text", "json"]

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonParser(logging.Formatter):
    """One object a line: ``time`` (ISO 8601, UTC), ``level``, ``logger``, ``message``, and ``exception`` if any.

    What a line gives as ``extra={"fields": {...}}`` is beside them.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = record.stack_info
        return json.dumps(line, default=str)  # ASCII alone: safe in any encoding, and surrogates are no error


def formatter(log_format: LogFormat) -> logging.Formatter:
    """What makes lines of this kind."""
    return JsonParser() if log_format == "json" else logging.Formatter(_TEXT)
