"""Every error a user can meet: what was being done, why it failed, what to do about it.

SDK errors (boto3, requests, confluent_kafka, py4j) are translated into these in one place each, at the
module that talks to the SDK. None of them derives from ``QuixException``: the framework may swallow those.
"""

from typing import ClassVar

from app.model import TopicPartition


class ConnectorError(Exception):
    """Base of all errors with a message for the user.

    Args:
        doing: what was being done, to which object, e.g. ``"uploading s3://lake/data/t/x.parquet"``.
        cause: why it failed, in the words of the other side where it gave any.
        hint: what to do about it; empty when there is nothing to do but wait.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, doing: str, cause: str, hint: str = "") -> None:
        self.doing = doing
        self.cause = cause
        self.hint = hint
        super().__init__(f"{doing}: {cause}" + (f". {hint}" if hint else ""))


class ConfigError(ConnectorError):
    """The settings do not fit the world they point at; changing them is the way out."""

    exit_code = 2


class DataError(ConnectorError):
    """A record that cannot be written as it is.

    Args:
        record: topic, partition and offset, where the consumer's loop needs to know them.
    """

    def __init__(
        self, doing: str, cause: str, hint: str = "", *, record: tuple[TopicPartition, int] | None = None
    ) -> None:
        super().__init__(doing, cause, hint)
        self.record = record


class RetryableError(ConnectorError):
    """Trying the same again later may work.

    Args:
        retry_after: seconds the other side asked us to wait, where it did.
    """

    exit_code = 75

    def __init__(self, doing: str, cause: str, hint: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(doing, cause, hint)
        self.retry_after = retry_after


class FatalError(ConnectorError):
    """Trying again cannot help: missing rights, a bucket that is gone, a refused request."""


class SparkLostError(ConnectorError):
    """The Java process of Spark died or hangs; only a new process helps."""

    exit_code = 70
