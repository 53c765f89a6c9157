"""Tokens for the IAM login of Amazon MSK, made by AWS' own signer."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from app.errors import one_line

logger = logging.getLogger(__name__)

_MILLISECONDS = 1000.0
_POLL_SECONDS = 1.0


class MskToken:
    """A callback of Kafka's client that makes a token. The client calls it at 80 % of a token's 15 minutes again.

    librdkafka calls it only in ``poll()``, ``consume()`` and ``flush()`` of the client that needs the token. Without
    one of these calls, a client of confluent-kafka 2.12 gets not even its first token. The consumer and the producer
    of the application are polled at each turn of the loop; ``poll_in_background`` polls those that are only asked.
    ``failure`` says why the last call made no token; ``None`` if it did.
    """

    def __init__(self, region: str) -> None:
        self.region = region
        self.failure: str | None = None

    def __call__(self, _: str) -> tuple[str, float]:
        """Return the token and when it expires (epoch seconds). After an error the client tries again in 10 s."""
        try:
            token, expires_ms = _signer()(self.region)
        except Exception as error:
            self.failure = _why(error)
            logger.error("signing the login at Amazon MSK: %s. %s", self.failure, MSK_HINT)  # noqa: TRY400
            raise
        self.failure = None
        return token, expires_ms / _MILLISECONDS


def poll_in_background(*clients: Any) -> None:
    """Poll clients that nothing else polls, every second, as long as the process lives."""

    def poll() -> None:
        with contextlib.suppress(RuntimeError):  # closed: the process ends
            while True:
                for client in clients:
                    client.poll(0)
                time.sleep(_POLL_SECONDS)

    for client in clients:
        client.poll(0)  # here, for quixstreams makes the client at its first use
    threading.Thread(target=poll, name="kafka-login", daemon=True).start()


MSK_HINT = (
    "Check the role, profile or AWS_ACCESS_KEY_ID that the connector runs with, and that the region is the cluster's: "
    "it is read from KAFKA_BOOTSTRAP_SERVERS, else from AWS_REGION"
)


def _signer() -> Callable[[str], tuple[str, int]]:
    from aws_msk_iam_sasl_signer.MSKAuthTokenProvider import generate_auth_token

    return generate_auth_token  # type: ignore[no-any-return]


def _why(error: Exception) -> str:
    if isinstance(error, AttributeError):  # of the credentials, which are None
        return "no credentials of AWS were found"
    return one_line(f"{type(error).__name__}: {error}")
