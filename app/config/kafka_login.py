"""Variables of the broker, the login there, and Kafka's client."""

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import SecretStr

from app.config import parsers as parse
from app.config.client_certificate import check_client_certificate
from app.config.client_config import parse_client_config
from app.config.fields import Area, Contradictions, checked, env, parsed

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI"]

# These find the login outside the settings: with the machine's role or profile, and in Kerberos' own files.
_WITHOUT_PASSWORD = ("AWS_MSK_IAM", "GSSAPI")
_MSK_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")


class KafkaLoginVariables(Area):
    """Where the brokers are, and how to log in there."""

    # Injected by Quix Cloud
    platform_broker_address: str | None = env("Quix__Broker__Address", None)
    sdk_token: SecretStr | None = env("Quix__Sdk__Token", None)
    portal_api: str | None = env("Quix__Portal__Api", None)

    bootstrap_servers: Annotated[str | None, parsed(parse.brokers)] = env("KAFKA_BOOTSTRAP_SERVERS", None)
    security_protocol: SecurityProtocol | None = env("KAFKA_SECURITY_PROTOCOL", None)
    sasl_mechanism: SaslMechanism | None = env("KAFKA_SASL_MECHANISM", None)
    sasl_username: str | None = env("KAFKA_SASL_USERNAME", None)
    sasl_password: SecretStr | None = env("KAFKA_SASL_PASSWORD", None)
    oauth_token_url: Annotated[str | None, parsed(parse.endpoint)] = env("KAFKA_OAUTH_TOKEN_URL", None)
    oauth_scope: str | None = env("KAFKA_OAUTH_SCOPE", None)
    oauth_extensions: Annotated[str | None, parsed(parse.oauth_extensions)] = env("KAFKA_OAUTH_EXTENSIONS", None)
    oauth_ca: Annotated[str | None, parsed(parse.pem_or_path)] = env("KAFKA_OAUTH_CA_LOCATION", None)
    ssl_ca: Annotated[str | None, parsed(parse.pem_or_path)] = env("KAFKA_SSL_CA_LOCATION", None)
    ssl_certificate: Annotated[str | None, parsed(parse.pem_or_path)] = env("KAFKA_SSL_CERTIFICATE", None)
    ssl_key: Annotated[SecretStr | None, parsed(parse.pem_or_path)] = env("KAFKA_SSL_KEY", None)
    ssl_key_password: SecretStr | None = env("KAFKA_SSL_KEY_PASSWORD", None)
    client_config: SecretStr | None = env("KAFKA_CLIENT_CONFIG", None)

    @property
    def client_properties(self) -> dict[str, str]:
        """The properties of ``KAFKA_CLIENT_CONFIG``, by name; their values may be secrets."""
        return parse_client_config(self.client_config.get_secret_value()) if self.client_config else {}

    @property
    def broker_address(self) -> str | None:
        """``host:port,…`` of the brokers; ``None`` when the platform's token leads to them."""
        return self.bootstrap_servers or self.platform_broker_address

    @property
    def names_broker(self) -> bool:
        """Whether there is a way to the brokers."""
        return bool(self.broker_address or (self.sdk_token and self.portal_api))

    def contradictions(self) -> Contradictions:
        if not self.names_broker:
            yield (
                "KAFKA_BOOTSTRAP_SERVERS",
                "must be set, such as localhost:9092: neither Quix__Broker__Address nor Quix__Sdk__Token together with "
                "Quix__Portal__Api is there to name a broker",
            )
        if self.broker_address is None:
            yield from self.refuse(
                "has no effect on the broker of Quix__Sdk__Token: set KAFKA_BOOTSTRAP_SERVERS as well",
                "KAFKA_SECURITY_PROTOCOL",
                "KAFKA_CLIENT_CONFIG",
            )
        if self.client_config:
            yield from checked("KAFKA_CLIENT_CONFIG", parse_client_config, self.client_config.get_secret_value())
        yield from self._contradictions_of_sasl()
        yield from self._contradictions_of_tls()

    def _contradictions_of_sasl(self) -> Contradictions:
        if not (self.security_protocol or "").startswith("SASL_"):
            yield from self.refuse(
                "has no effect without KAFKA_SECURITY_PROTOCOL=SASL_SSL or SASL_PLAINTEXT", "KAFKA_SASL_MECHANISM"
            )
        elif self.sasl_mechanism is None:
            mechanisms = ", ".join(get_args(SaslMechanism))
            yield "KAFKA_SASL_MECHANISM", f"must be set with this KAFKA_SECURITY_PROTOCOL, to one of {mechanisms}"
        if self.sasl_mechanism in _WITHOUT_PASSWORD:
            yield from self.refuse(
                f"has no effect with KAFKA_SASL_MECHANISM={self.sasl_mechanism}: leave it empty",
                "KAFKA_SASL_USERNAME",
                "KAFKA_SASL_PASSWORD",
            )
        else:
            yield from self.together("KAFKA_SASL_MECHANISM", "KAFKA_SASL_USERNAME", "KAFKA_SASL_PASSWORD")
        if self.sasl_mechanism != "OAUTHBEARER":
            yield from self.refuse(
                "has no effect without KAFKA_SASL_MECHANISM=OAUTHBEARER",
                "KAFKA_OAUTH_TOKEN_URL",
                "KAFKA_OAUTH_SCOPE",
                "KAFKA_OAUTH_EXTENSIONS",
                "KAFKA_OAUTH_CA_LOCATION",
            )
        elif self.oauth_token_url is None:
            yield (
                "KAFKA_OAUTH_TOKEN_URL",
                "must be set with KAFKA_SASL_MECHANISM=OAUTHBEARER, to the address that issues tokens",
            )

    def _contradictions_of_tls(self) -> Contradictions:
        if self.security_protocol not in {"SSL", "SASL_SSL"}:
            yield from self.refuse(
                "has no effect without KAFKA_SECURITY_PROTOCOL=SSL or SASL_SSL",
                "KAFKA_SSL_CA_LOCATION",
                "KAFKA_SSL_CERTIFICATE",
            )
        yield from self.together("KAFKA_SSL_CERTIFICATE", "KAFKA_SSL_KEY")
        if self.ssl_key is None:
            yield from self.refuse("has no effect without KAFKA_SSL_KEY", "KAFKA_SSL_KEY_PASSWORD")
        elif self.ssl_certificate:
            password = self.ssl_key_password.get_secret_value() if self.ssl_key_password else None
            yield from check_client_certificate(self.ssl_certificate, self.ssl_key.get_secret_value(), password)


def region_of_msk(brokers: str) -> str | None:
    """The region in the host names of an Amazon MSK cluster; ``None`` if the brokers have other names."""
    found = _MSK_HOST.search(brokers)
    return found[1] if found else None


def pem_properties(name: str, value: str | None) -> dict[str, Any]:
    """The property of librdkafka for a file, ``<name>.location``, or for a text in PEM, ``<name>.pem``."""
    if value is None:
        return {}
    return {f"{name}.{'pem' if parse.is_pem(value) else 'location'}": value}
