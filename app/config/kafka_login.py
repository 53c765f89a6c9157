"""The environment variables of the broker, the login, and the properties of the Kafka client."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator

from app.config import parsers as parse
from app.config.fields import Area, Contradictions, checked, env
from app.config.input import Pem

# docs/kafka-logins.md explains the reasons.
_NEEDED: Final = frozenset(
    {
        "client.id",
        "enable.auto.commit",
        "auto.commit.enable",
        "enable.auto.offset.store",
        "isolation.level",
        "partition.assignment.strategy",
        "group.protocol",
        "group.remote.assignor",
        "group.instance.id",
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "enable.partition.eof",
        "max.partition.fetch.bytes",
        "fetch.message.max.bytes",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "acks",
        "request.required.acks",
        "enable.idempotence",
        "delivery.report.only.error",
        "transactional.id",
    }
)
# Prefixes of librdkafka's properties, and the variables that set these properties.
_VARIABLES: Final[Mapping[str | tuple[str, ...], str]] = {
    ("bootstrap.servers", "metadata.broker.list"): "KAFKA_BOOTSTRAP_SERVERS",
    "security.protocol": "KAFKA_SECURITY_PROTOCOL",
    "sasl.mechanism": "KAFKA_SASL_MECHANISM",
    "sasl.username": "KAFKA_SASL_USERNAME",
    "sasl.password": "KAFKA_SASL_PASSWORD",
    ("sasl.oauthbearer.method", "sasl.oauthbearer.token.endpoint.url"): "KAFKA_OAUTH_TOKEN_URL",
    "sasl.oauthbearer.client.": "KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD",
    "sasl.oauthbearer.scope": "KAFKA_OAUTH_SCOPE",
    "sasl.oauthbearer.extensions": "KAFKA_OAUTH_EXTENSIONS",
    "https.ca.": "KAFKA_OAUTH_CA_LOCATION",
    "ssl.ca.": "KAFKA_SSL_CA_LOCATION",
    "ssl.certificate.": "KAFKA_SSL_CERTIFICATE",
    "ssl.key.": "KAFKA_SSL_KEY",
    "group.id": "CONSUMER_GROUP",
    "auto.offset.reset": "AUTO_OFFSET_RESET",
}
SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI"]

_Joined = BeforeValidator(",".join)
_SASL = "KAFKA_SECURITY_PROTOCOL=SASL_SSL or SASL_PLAINTEXT"
_TLS = "KAFKA_SECURITY_PROTOCOL=SSL or SASL_SSL"
_OAUTH = "KAFKA_SASL_MECHANISM=OAUTHBEARER"
# The mechanisms that need a password. AWS_MSK_IAM uses the machine's role or profile, and GSSAPI uses Kerberos files.
_PASSWORD = "KAFKA_SASL_MECHANISM=PLAIN or SCRAM-SHA-256 or SCRAM-SHA-512 or OAUTHBEARER"  # noqa: S105 - no password


def parse_client_config(text: str) -> dict[str, str]:
    """Parse a JSON object of librdkafka's properties. Numbers and booleans become text, because librdkafka needs text.

    Properties that the connector sets are refused. librdkafka checks names and values when a client is created. Error
    messages contain no values, because values may be secrets.
    """
    properties = {}
    for name, value in parse.json_object(text).items():
        for begin, variable in _VARIABLES.items():
            if name.startswith(begin):
                raise ValueError(f"must not set {name}: set {variable} instead")
        if name in _NEEDED:
            raise ValueError(f"must not set {name}: the connector needs its own value")
        if not isinstance(value, str | int | float):
            raise ValueError(f"must set {name} to a text, a number, true or false")  # noqa: TRY004
        properties[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return properties


class Kafka(Area):
    # Injected by Quix Cloud
    platform_broker_address: str | None = env("Quix__Broker__Address")
    """Address of the brokers. Used if `KAFKA_BOOTSTRAP_SERVERS` is empty."""
    sdk_token: str | None = env("Quix__Sdk__Token", secret=True)
    """Token for the Quix API, from which the connector reads the brokers' address if no address is set."""
    portal_api: str | None = env("Quix__Portal__Api")
    """Address of the Quix API."""

    bootstrap_servers: Annotated[str | None, _Joined, BeforeValidator(parse.brokers)] = env("KAFKA_BOOTSTRAP_SERVERS")
    """Brokers as `host:port`, separated by commas. Empty on Quix Cloud: the brokers of Quix."""
    security_protocol: SecurityProtocol | None = env("KAFKA_SECURITY_PROTOCOL")
    """Protocol of the brokers. Empty: no TLS and no login."""
    sasl_mechanism: SaslMechanism | None = env("KAFKA_SASL_MECHANISM", needed_with=_SASL)
    """Login mechanism. Required for the SASL protocols."""
    sasl_username: str | None = env("KAFKA_SASL_USERNAME", needed_with=_PASSWORD)
    """User name, or client id for `OAUTHBEARER`."""
    sasl_password: str | None = env("KAFKA_SASL_PASSWORD", secret=True, needed_with=_PASSWORD)
    """Password, or client secret for `OAUTHBEARER`."""
    oauth_token_url: Annotated[str | None, BeforeValidator(parse.endpoint)] = env(
        "KAFKA_OAUTH_TOKEN_URL", needed_with=_OAUTH
    )
    """Address of the server that issues tokens for `OAUTHBEARER`."""
    oauth_scope: str | None = env("KAFKA_OAUTH_SCOPE", only_with=_OAUTH)
    """Scope to request for `OAUTHBEARER`. Empty: the server's default."""
    oauth_extensions: Annotated[str | None, _Joined, BeforeValidator(parse.oauth_extensions)] = env(
        "KAFKA_OAUTH_EXTENSIONS", only_with=_OAUTH
    )
    """SASL extensions for `OAUTHBEARER` as `name=value`, separated by commas."""
    oauth_ca: Pem = env("KAFKA_OAUTH_CA_LOCATION", only_with=_OAUTH)
    """CA certificates to trust for `KAFKA_OAUTH_TOKEN_URL`, as a file or PEM text. Empty: the system's certificates."""
    ssl_ca: Pem = env("KAFKA_SSL_CA_LOCATION", only_with=_TLS)
    """CA certificates to trust for the brokers, as a file or PEM text. Empty: the system's certificates."""
    ssl_certificate: Pem = env("KAFKA_SSL_CERTIFICATE", only_with=_TLS)
    """Client certificate, as a file or PEM text, if the brokers require one."""
    ssl_key: Pem = env("KAFKA_SSL_KEY", secret=True, needed_with="KAFKA_SSL_CERTIFICATE")
    """Private key of the client certificate, as a file or PEM text."""
    ssl_key_password: str | None = env("KAFKA_SSL_KEY_PASSWORD", secret=True, only_with="KAFKA_SSL_KEY")
    """Password of the private key, if the private key has a password."""
    client_config: str | None = env("KAFKA_CLIENT_CONFIG", secret=True)
    """More properties of librdkafka, as a JSON object of names and values."""

    @property
    def client_properties(self) -> dict[str, str]:
        """The properties of ``KAFKA_CLIENT_CONFIG``. Values may be secrets."""
        return parse_client_config(self.client_config) if self.client_config else {}

    @property
    def broker_address(self) -> str | None:
        """The brokers as ``host:port,…``; ``None`` if the Quix API returns the brokers."""
        return self.bootstrap_servers or self.platform_broker_address

    @property
    def names_broker(self) -> bool:
        return bool(self.broker_address or (self.sdk_token and self.portal_api))

    def contradictions(self) -> Contradictions:
        yield from super().contradictions()
        if not self.names_broker:
            yield (
                "KAFKA_BOOTSTRAP_SERVERS",
                "must be set, such as localhost:9092: neither Quix__Broker__Address nor Quix__Sdk__Token with "
                "Quix__Portal__Api is set",
            )
        if self.broker_address is None:
            yield from self.refuse(
                "has no effect on the broker of Quix__Sdk__Token: set KAFKA_BOOTSTRAP_SERVERS as well",
                "KAFKA_SECURITY_PROTOCOL",
                "KAFKA_CLIENT_CONFIG",
            )
        if self.client_config:
            yield from checked("KAFKA_CLIENT_CONFIG", parse_client_config, self.client_config)
