"""What to do about a login that Kafka, or the server of tokens, refuses: librdkafka's words → the variable to look at."""

from collections.abc import Sequence

# The first whose words are in the error, in lower case.
_HINTS: Sequence[tuple[str, str]] = ()

_ANY = (
    "Check KAFKA_SECURITY_PROTOCOL, KAFKA_SASL_MECHANISM, KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD and "
    "KAFKA_SSL_CA_LOCATION"
)


def login_hint(cause: str) -> str:
    """What to do about this error of librdkafka."""
    folded = cause.lower()
    return next((hint for words, hint in _HINTS if words in folded), _ANY)
