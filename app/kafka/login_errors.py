"""Login errors of Kafka: a table of librdkafka's words, the advice, and whether a retry may help."""

from typing import Final, NamedTuple

from confluent_kafka import KafkaError

_REFUSAL_CODES: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL})
_NO_TOKEN: Final = "failed to acquire sasl oauthbearer token"  # noqa: S105 - words of librdkafka

_CLIENT_CERTIFICATE = (
    "The brokers require a client certificate that they trust. Check KAFKA_SSL_CERTIFICATE and KAFKA_SSL_KEY"
)
_TOKEN_SERVER_DOWN = "Check KAFKA_OAUTH_TOKEN_URL, the network and that the token server is up"  # noqa: S105
_USER = "Check KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD"
_ANY = (
    "Check KAFKA_SECURITY_PROTOCOL, KAFKA_SASL_MECHANISM, KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD and "
    "KAFKA_SSL_CA_LOCATION"
)


class _Kind(NamedTuple):
    """One kind of error: the words of its message in lower case, the advice, and whether only new settings help.

    If ``is_refusal`` is ``None``, the error's code shows whether only new settings help.
    """

    words: tuple[str, ...]
    advice: str = _ANY
    is_refusal: bool | None = None


# The first kind is used whose words are all in the error's message.
_KINDS: Final = (
    _Kind(
        ("no provider", "gssapi"),
        "KAFKA_SASL_MECHANISM=GSSAPI needs a librdkafka built with Kerberos; this one is built without",
    ),
    # The token server is unavailable, and may return.
    *(
        _Kind((_NO_TOKEN, words), _TOKEN_SERVER_DOWN, is_refusal=False)
        for words in ("could not connect", "could not resolve", "timed out", "timeout", "http error 5")
    ),
    _Kind((_NO_TOKEN, "invalid_client"), f"{_USER}: the server of KAFKA_OAUTH_TOKEN_URL refuses them", is_refusal=True),
    _Kind(
        (_NO_TOKEN, "certificate"),
        "Set KAFKA_OAUTH_CA_LOCATION to the authority that signed the certificate of KAFKA_OAUTH_TOKEN_URL",
        is_refusal=True,
    ),
    _Kind(
        (_NO_TOKEN,),
        "Check KAFKA_OAUTH_TOKEN_URL, KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD and KAFKA_OAUTH_SCOPE",
        is_refusal=True,
    ),
    # The connection ended during the login.
    _Kind(("local: broker transport failure",), is_refusal=False),
    # With tokens of seconds, a broker also refuses a second login within a second.
    _Kind(("not valid in current sasl state",), is_refusal=False),
    _Kind(
        ("invalid_token",),
        "The brokers refuse the token. Check KAFKA_OAUTH_SCOPE and KAFKA_OAUTH_EXTENSIONS, or with AWS_MSK_IAM the "
        "region, and that the role may kafka-cluster:Connect",
    ),
    # With TLS 1.3, a broker refuses a client's certificate after the handshake; librdkafka reports this as an outage.
    _Kind((" alert ", "certificate"), _CLIENT_CERTIFICATE, is_refusal=True),
    _Kind((" alert ", "unknown ca"), _CLIENT_CERTIFICATE, is_refusal=True),
    _Kind((" alert ", "access denied"), is_refusal=True),
    _Kind(
        (" alert ", "handshake failure"),
        "Check KAFKA_SECURITY_PROTOCOL, KAFKA_SSL_CERTIFICATE and KAFKA_SSL_KEY",
        is_refusal=True,
    ),
    _Kind(("client ssl authentication might be required",), _CLIENT_CERTIFICATE),
    _Kind(
        ("certificate verify failed",),
        "Check KAFKA_SSL_CA_LOCATION, the file with the authority of the brokers' certificates, and that "
        "KAFKA_BOOTSTRAP_SERVERS contains the host names in these certificates",
    ),
    _Kind(
        ("plaintext broker listener",),
        "Check KAFKA_SECURITY_PROTOCOL, and the port in KAFKA_BOOTSTRAP_SERVERS: it does not support TLS",
    ),
    _Kind(("https.ca.",), "Check KAFKA_OAUTH_CA_LOCATION"),
    _Kind(("ssl.ca.",), "Check KAFKA_SSL_CA_LOCATION"),
    _Kind(("ssl.certificate.",), "Check KAFKA_SSL_CERTIFICATE"),
    _Kind(("ssl.key.",), "Check KAFKA_SSL_KEY, that it belongs to KAFKA_SSL_CERTIFICATE, and KAFKA_SSL_KEY_PASSWORD"),
    _Kind(("unsupported sasl mechanism",), "Set KAFKA_SASL_MECHANISM to one that the brokers support"),
    _Kind(("authentication failed",), _USER),
    # Other properties of a login are set only in KAFKA_CLIENT_CONFIG.
    _Kind(("ssl.", " failed: "), "Check KAFKA_CLIENT_CONFIG"),
    _Kind(("ssl.keystore.",), "Check KAFKA_CLIENT_CONFIG"),
    _Kind(("sasl.kerberos.",), "Check KAFKA_CLIENT_CONFIG"),
)


def login_hint(cause: str) -> str:
    return _kind_of(cause).advice


def is_refused(error: KafkaError) -> bool:
    """Whether a broker or the token server refuses the login, so that only other settings help."""
    is_refusal = _kind_of(error.str()).is_refusal
    return error.code() in _REFUSAL_CODES if is_refusal is None else is_refusal


def _kind_of(cause: str) -> _Kind:
    folded = cause.lower()
    return next((kind for kind in _KINDS if all(word in folded for word in kind.words)), _Kind(()))
