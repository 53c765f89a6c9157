"""The login at Amazon MSK by IAM: tokens that AWS' own signer makes, in the region of the brokers' names."""

import logging
import re

from app.config.settings import Settings
from app.errors import one_line

logger = logging.getLogger(__name__)

_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")


class MskToken:
    """The IAM login of Amazon MSK: a callback of Kafka's client that makes a token by AWS' own signer.

    The client calls it at 80 % of a token's 15 minutes again.

    librdkafka calls it only in ``poll()``, ``consume()`` and ``flush()`` of the client that needs the token. Without
    one of these calls, a client of confluent-kafka 2.12 gets not even its first token. The consumer and the producer
    of the application are polled at each turn of the loop; ``poll_in_background`` of ``app.kafka.connection`` polls
    those that are only asked.
    ``failure`` says why the last call made no token; ``None`` if it did.
    """

    hint = (
        "Check the role, profile or AWS_ACCESS_KEY_ID that the connector runs with, and that the region is the "
        "cluster's: it is read from KAFKA_BOOTSTRAP_SERVERS, else from AWS_REGION"
    )

    def __init__(self, settings: Settings) -> None:
        found = _HOST.search(settings.broker_address or "")
        self.region = found[1] if found else settings.aws_region
        self.failure: str | None = None

    def __call__(self, _: str) -> tuple[str, float]:
        """Return the token and when it expires (epoch seconds). After an error the client tries again in 10 s."""
        try:
            from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415 - for this login alone

            token, expires_ms = MSKAuthTokenProvider.generate_auth_token(self.region)
        except Exception as error:
            without = isinstance(error, AttributeError)  # of the credentials, which are None
            told = f"{type(error).__name__}: {error}"
            self.failure = "no credentials of AWS were found" if without else one_line(told)
            logger.error("signing the login at Amazon MSK: %s. %s", self.failure, self.hint)  # noqa: TRY400
            raise
        self.failure = None
        return token, expires_ms / 1000
