"""Words of librdkafka, and of those it repeats → the variable to look at. Most were heard from a real broker."""

import pytest
from confluent_kafka import KafkaError

from app.kafka.login_errors import is_refused, login_hint

ALERT = "ssl://b:1/bootstrap: Receive failed: error:0A00045C:SSL routines::tlsv13 alert certificate required"
NO_TOKEN = "Failed to acquire SASL OAUTHBEARER token: "
TRANSPORT, AUTHENTICATION = KafkaError._TRANSPORT, KafkaError._AUTHENTICATION


@pytest.mark.parametrize(
    ("cause", "hint"),
    [
        (ALERT, "KAFKA_SSL_CERTIFICATE and KAFKA_SSL_KEY"),
        ("ssl://b.alerting:1: SSL handshake failed: certificate verify failed", "Check KAFKA_SSL_CA_LOCATION"),
        (NO_TOKEN + '{"error": "invalid_client"}', "KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD"),
        (NO_TOKEN + '{"error": "invalid_scope"}', "KAFKA_OAUTH_SCOPE"),
        (NO_TOKEN + "SSL certificate problem: unable to get local issuer certificate", "KAFKA_OAUTH_CA_LOCATION"),
        (NO_TOKEN + "Could not resolve host: login", "Check KAFKA_OAUTH_TOKEN_URL, the network"),
        (NO_TOKEN + "something else", "Check KAFKA_OAUTH_TOKEN_URL, KAFKA_SASL_USERNAME"),
        ("SASL authentication error: Authentication failed", "Check KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD"),
        ("words that nobody knows", "Check KAFKA_SECURITY_PROTOCOL, KAFKA_SASL_MECHANISM"),
    ],
)
def test_the_hint_names_the_variable(cause: str, hint: str) -> None:
    assert hint in login_hint(cause)


@pytest.mark.parametrize(
    ("code", "cause", "refused"),
    [
        (TRANSPORT, ALERT, True),
        (TRANSPORT, "ssl://b:1/bootstrap: Connect to b:1 failed: Connection refused", False),
        (AUTHENTICATION, "SASL authentication error: Authentication failed", True),
        (AUTHENTICATION, NO_TOKEN + '{"error": "invalid_client"}', True),
        (AUTHENTICATION, NO_TOKEN + "Could not connect to server", False),
        (AUTHENTICATION, NO_TOKEN + "HTTP error 503", False),
        (AUTHENTICATION, "SASL PLAIN mechanism handshake failed: Local: Broker transport failure: broker's", False),
        (
            AUTHENTICATION,
            "SASL OAUTHBEARER mechanism handshake failed: Broker: Request not valid in current SASL state",
            False,
        ),
        (KafkaError._SSL, "SSL handshake failed", True),
    ],
)
def test_a_refusal_is_no_outage(code: int, cause: str, refused: bool) -> None:
    assert is_refused(KafkaError(code, cause)) is refused
