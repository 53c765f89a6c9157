"""What to do about a login that a broker or a server of tokens refuses: librdkafka's words → the variable to check."""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka import KafkaError

from app.errors import one_line

logger = logging.getLogger(__name__)

_REFUSED: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL})
_NO_TOKEN: Final = "failed to acquire sasl oauthbearer token"  # noqa: S105 - words of librdkafka
# The server of tokens is away: it may come back.
_AWAY: Final = ("could not connect", "could not resolve", "timed out", "timeout", "http error 5")
# A connection that ends during the login. With tokens of seconds, a broker also refuses a second login within a second.
_INTERRUPTED: Final = ("local: broker transport failure", "not valid in current sasl state")
# With TLS 1.3, a broker refuses a client's certificate after the handshake; librdkafka takes that for an outage.
_ALERTS: Final = ("certificate", "unknown ca", "access denied", "handshake failure")

# Properties that show a mistake only with TLS or a login; they come from KAFKA_CLIENT_CONFIG alone.
_WITHOUT_VARIABLE: Final = (
    "ssl.cipher.suites",
    "ssl.crl.",
    "ssl.curves.list",
    "ssl.engine.",
    "ssl.keystore.",
    "ssl.providers",
    "ssl.sigalgs.list",
    "sasl.kerberos.",
)

_CLIENT_CERTIFICATE = (
    "The brokers ask for a client certificate that they trust. Check KAFKA_SSL_CERTIFICATE and KAFKA_SSL_KEY"
)
_SERVER_IS_AWAY = "Check KAFKA_OAUTH_TOKEN_URL, the network and that the server of tokens is up"
_UNKNOWN_SERVER = "Set KAFKA_OAUTH_CA_LOCATION to the authority that signed the certificate of KAFKA_OAUTH_TOKEN_URL"
_USER = "Check KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD"
_ANY = (
    "Check KAFKA_SECURITY_PROTOCOL, KAFKA_SASL_MECHANISM, KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD and "
    "KAFKA_SSL_CA_LOCATION"
)

# The first row counts whose words are all in the error, in lower case.
_HINTS: Final[Sequence[tuple[tuple[str, ...], str]]] = (
    (
        ("no provider", "gssapi"),
        "KAFKA_SASL_MECHANISM=GSSAPI needs a librdkafka that is built with Kerberos, and this one is not",
    ),
    ((_NO_TOKEN, "invalid_client"), f"{_USER}: the server of KAFKA_OAUTH_TOKEN_URL refuses them"),
    ((_NO_TOKEN, "unauthorized_client"), f"{_USER}: the server of KAFKA_OAUTH_TOKEN_URL refuses them"),
    ((_NO_TOKEN, "scope"), "Check KAFKA_OAUTH_SCOPE"),
    ((_NO_TOKEN, "certificate"), _UNKNOWN_SERVER),
    *(((_NO_TOKEN, words), _SERVER_IS_AWAY) for words in _AWAY),
    ((_NO_TOKEN,), "Check KAFKA_OAUTH_TOKEN_URL, KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD and KAFKA_OAUTH_SCOPE"),
    (
        ("invalid_token",),
        "The brokers refuse the token. Check KAFKA_OAUTH_SCOPE and KAFKA_OAUTH_EXTENSIONS, or with AWS_MSK_IAM the "
        "region, and that the role may kafka-cluster:Connect",
    ),
    (("alert", "certificate expired"), "Replace KAFKA_SSL_CERTIFICATE and KAFKA_SSL_KEY, and restart the connector"),
    (("alert", "certificate"), _CLIENT_CERTIFICATE),
    (("alert", "unknown ca"), _CLIENT_CERTIFICATE),
    (("client ssl authentication might be required",), _CLIENT_CERTIFICATE),
    (
        ("certificate verify failed",),
        "Check KAFKA_SSL_CA_LOCATION, which has the authority of the brokers' certificates, and that "
        "KAFKA_BOOTSTRAP_SERVERS has the host names in these certificates",
    ),
    (
        ("plaintext broker listener",),
        "Check KAFKA_SECURITY_PROTOCOL, and the port in KAFKA_BOOTSTRAP_SERVERS: this one speaks no TLS",
    ),
    *(((name,), "Check KAFKA_CLIENT_CONFIG") for name in _WITHOUT_VARIABLE),
    (("https.ca.",), "Check KAFKA_OAUTH_CA_LOCATION"),
    (("ssl.ca.",), "Check KAFKA_SSL_CA_LOCATION"),
    (("ssl.certificate.",), "Check KAFKA_SSL_CERTIFICATE"),
    (("ssl.key.",), "Check KAFKA_SSL_KEY, that it belongs to KAFKA_SSL_CERTIFICATE, and KAFKA_SSL_KEY_PASSWORD"),
    (("unsupported sasl mechanism",), "Set KAFKA_SASL_MECHANISM to one that the brokers support"),
    (("authentication failed",), _USER),
)


def login_hint(cause: str) -> str:
    """What to do about this error of librdkafka."""
    folded = cause.lower()
    return next((hint for words, hint in _HINTS if all(word in folded for word in words)), _ANY)


def is_refused(error: KafkaError) -> bool:
    """Whether a broker or the server of tokens refuses the login, so that only other settings help."""
    folded = error.str().lower()
    if _NO_TOKEN in folded:
        return not any(words in folded for words in _AWAY)
    if any(words in folded for words in _INTERRUPTED):
        return False
    return error.code() in _REFUSED or ("alert" in folded and any(words in folded for words in _ALERTS))


def told_of_refusals(told: Callable[[KafkaError], None]) -> Callable[[KafkaError], None]:
    """A callback for errors of a client at work; logs a login that is refused by then, and gives ``told`` all others.

    The client tries again by itself, and the consumer reads on where it was. It reads certificates and passwords only
    once, so new ones need a new process.
    """

    def on_error(error: KafkaError) -> None:
        if not is_refused(error):
            told(error)
            return
        logger.error(
            "logging in to Kafka: %s. %s. No record is lost: the connector tries again, and a restart reads replaced "
            "certificates and passwords",
            one_line(error.str()),
            login_hint(error.str()),
        )

    return on_error
