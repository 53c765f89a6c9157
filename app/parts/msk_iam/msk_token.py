"""The IAM login of Amazon MSK. AWS's signer creates tokens for the region in the brokers' names."""

import logging
import re

from app.config.settings import Settings
from app.errors import one_line

logger = logging.getLogger(__name__)

_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")


class MskToken:
    """A callback that returns a token of AWS's signer to the Kafka client.

    A token is valid for 15 minutes. The client calls the callback again after 80 % of this time.

    librdkafka calls the callback only in ``poll()``, ``consume()`` and ``flush()`` of the client that needs the token.
    Without these calls, a client of confluent-kafka 2.12 receives no token. The consumer's loop polls the application's
    consumer and producer at each turn. ``poll_in_background`` of ``app.kafka.connection`` polls the other clients.
    ``failure`` is the reason if the last call returned no token.
    """

    hint = (
        "Check the connector's role, profile or AWS_ACCESS_KEY_ID, and that the region is the cluster's: it is read "
        "from KAFKA_BOOTSTRAP_SERVERS, otherwise from AWS_REGION"
    )

    def __init__(self, settings: Settings) -> None:
        match = _HOST.search(settings.broker_address or "")
        self.region = match[1] if match else settings.aws_region
        self.failure: str | None = None

    def __call__(self, _: str) -> tuple[str, float]:
        """Return the token, and the time when it expires (Unix seconds). After an error, the client retries in 10 s."""
        try:
            from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415 - only this login needs it

            token, expires_ms = MSKAuthTokenProvider.generate_auth_token(self.region)
        except Exception as error:
            is_missing = isinstance(error, AttributeError)  # the signer's credentials are None
            text = f"{type(error).__name__}: {error}"
            self.failure = "no AWS credentials were found" if is_missing else one_line(text)
            logger.error("signing the login at Amazon MSK: %s. %s", self.failure, self.hint)  # noqa: TRY400
            raise
        self.failure = None
        return token, expires_ms / 1000
