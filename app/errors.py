"""The errors that users see, with action, cause and remedy, and functions that shorten texts of other systems.

The module that uses an SDK (boto3, requests, confluent_kafka, py4j) translates the SDK's errors into these errors. They
do not derive from ``QuixException``, because quixstreams may swallow a ``QuixException``.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final, Literal, Self

from app.formatting import escape_control
from app.model import TopicPartition
from app.redaction import redact

System = Literal["Kafka", "topic", "store", "catalog", "registry", "Spark"]
_NUMBER: Final = re.compile(r"\[Errno -?\d+\] ")


class ConnectorError(Exception):
    """Base class of all errors with a message for the user.

    Args:
        doing: The action and its object, for example ``"uploading s3://lake/data/t/x.parquet"``.
        cause: The reason, in the other system's words if this system has given a reason.
        hint: The remedy; empty if the user can only wait.

    Control characters are escaped, so the message is one line. Cause and hint may quote other systems, so possible
    secrets are removed.

    Attributes:
        system: The system that failed; ``None`` if unknown, see ``of`` and ``blaming``.
        topic: The topic of the error, if the error was not found while the topic's records were processed.
        ends_all: Whether the error ends the process even if other tables could continue.
    """

    exit_code: ClassVar[int] = 1
    system: System | None = None
    topic: str | None = None
    ends_all: bool = False

    def __init__(self, doing: str, cause: str, hint: str = "") -> None:
        doing, cause, hint = map(escape_control, (doing, redact(cause), redact(hint)))
        self.doing = doing
        self.cause = cause
        self.hint = hint
        super().__init__(f"{doing}: {cause}" + (f". {hint}" if hint else ""))

    def of(self, system: System) -> Self:
        self.system = system
        return self


class ConfigError(ConnectorError):
    """The settings do not fit the systems; the user must change them."""

    exit_code = 2


class DataError(ConnectorError):
    """A record cannot be written. ``record`` is its topic partition and offset, or ``None``."""

    def __init__(
        self, doing: str, cause: str, hint: str = "", *, record: tuple[TopicPartition, int] | None = None
    ) -> None:
        super().__init__(doing, cause, hint)
        self.record = record


class RetryableError(ConnectorError):
    """A retry may succeed, after ``retry_after`` seconds if the other system requests them."""

    exit_code = 75

    def __init__(self, doing: str, cause: str, hint: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(doing, cause, hint)
        self.retry_after = retry_after


class FatalError(ConnectorError):
    """A retry cannot succeed: missing rights, a deleted bucket, a refused request."""


class SparkLostError(ConnectorError):
    """The Java process of Spark has ended or hangs. Only a new process of the connector helps."""

    exit_code = 70
    system = "Spark"
    ends_all = True


@contextmanager
def blaming(system: System) -> Iterator[None]:
    """Sets this system on errors of the ``with`` block that have no system."""
    try:
        yield
    except ConnectorError as error:
        error.of(error.system or system)
        raise


# --- texts of other systems, on one line and short --------------------------------------------------------------------


def innermost(error: BaseException) -> BaseException:
    """Returns the innermost exception of a chain, such as a system's error in an error of urllib3."""
    causes = (getattr(error, "reason", None), *error.args)
    inner = next((cause for cause in causes if isinstance(cause, BaseException)), None)
    return innermost(inner) if inner else error


def last_words(error: BaseException) -> str:
    """Returns the message of the innermost exception, without secrets and prefixes of libraries."""
    return one_line(redact(str(innermost(error))).rpartition(": ")[2])


def one_line(message: str) -> str:
    """Returns the message on one line, without a full stop, and without the number of the system's error."""
    return " ".join(_NUMBER.sub("", message).split()).rstrip(".")


def cut(text: str, longest: int) -> str:
    """Returns the text without secrets, at most ``longest`` characters. Secrets are removed before the text is cut."""
    text = redact(text)
    return text if len(text) <= longest else text[: longest - 3] + "..."
