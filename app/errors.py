"""The errors that users meet: the action, the cause and the remedy. Functions that shorten the texts of others.

SDK errors (boto3, requests, confluent_kafka, py4j) are translated into these in one place each, at the
module that talks to the SDK. None of them derives from ``QuixException``: the framework may swallow those.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final, Literal, Self

from app.formatting import escape_control
from app.model import TopicPartition
from app.redaction import redact

System = Literal["Kafka", "topic", "store", "catalog", "registry", "Spark"]  # that the connector works with


_NUMBER: Final = re.compile(r"\[Errno -?\d+\] ")


class ConnectorError(Exception):
    """Base of all errors with a message for the user.

    Args:
        doing: the action and its object, e.g. ``"uploading s3://lake/data/t/x.parquet"``.
        cause: the reason, in the words of the other side if there are any.
        hint: the remedy; empty if waiting is the only one.

    Control characters are escaped, so the message is one line. Of cause and hint, which may quote the other side, what
    may be a secret is left out.

    Attributes:
        system: the system that failed; ``None`` if unknown, see ``of`` and ``blaming``.
        topic: the one that it is about, where it was found beside the topic's records.
        ends_all: whether it ends the process also where other tables could go on.
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
        """Sets the system that failed, and returns this error."""
        self.system = system
        return self


class ConfigError(ConnectorError):
    """The settings do not fit the world they point at; changing them is the way out."""

    exit_code = 2


class DataError(ConnectorError):
    """A record that cannot be written as it is; ``record`` has its topic-partition and offset where they are needed."""

    def __init__(
        self, doing: str, cause: str, hint: str = "", *, record: tuple[TopicPartition, int] | None = None
    ) -> None:
        super().__init__(doing, cause, hint)
        self.record = record


class RetryableError(ConnectorError):
    """Trying the same again later may work, after ``retry_after`` seconds where the other side asked for them."""

    exit_code = 75

    def __init__(self, doing: str, cause: str, hint: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(doing, cause, hint)
        self.retry_after = retry_after


class FatalError(ConnectorError):
    """Trying again cannot help: missing rights, a bucket that is gone, a refused request."""


class SparkLostError(ConnectorError):
    """The Java process of Spark died or hangs; only a new process helps."""

    exit_code = 70
    system = "Spark"
    ends_all = True


@contextmanager
def blaming(system: System) -> Iterator[None]:
    """Sets this system on each error that is raised inside and names none."""
    try:
        yield
    except ConnectorError as error:
        error.of(error.system or system)
        raise


# --- texts of other systems, on one line and short --------------------------------------------------------------------


def innermost(error: BaseException) -> BaseException:
    """Returns the innermost exception of a chain such as requests around urllib3 around the system."""
    causes = (getattr(error, "reason", None), *error.args)
    inner = next((cause for cause in causes if isinstance(cause, BaseException)), None)
    return innermost(inner) if inner else error


def last_words(error: BaseException) -> str:
    """Returns the message of the innermost exception, without secrets and the prefixes that libraries add."""
    return one_line(redact(str(innermost(error))).rpartition(": ")[2])


def one_line(message: str) -> str:
    """Returns the message on one line, without a full stop, and without the number of the system's error."""
    return " ".join(_NUMBER.sub("", message).split()).rstrip(".")


def cut(text: str, longest: int) -> str:
    """Returns the text without secrets, at most this long. A secret that was cut would no longer be recognised."""
    text = redact(text)
    return text if len(text) <= longest else text[: longest - 3] + "..."
