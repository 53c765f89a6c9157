"""Variables of the broker, the login there, and Kafka's client."""

import re
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import SecretStr, ValidationInfo, field_validator

from app.config import parsers as parse
from app.config.client_certificate import check_client_certificate
from app.config.client_config import parse_client_config
from app.config.fields import Area, env, option, parsed, together

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI"]

# These find the login outside the settings: with the machine's role or profile, and in Kerberos' own files.
_WITHOUT_PASSWORD = ("AWS_MSK_IAM", "GSSAPI")
_MSK_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")

_Value = TypeVar("_Value")


class KafkaLoginVariables(Area):
    """Where the brokers are, and how to log in there."""

    # Injected by Quix Cloud
    platform_broker_address: str | None = env("Quix__Broker__Address", None)
    sdk_token: SecretStr | None = env("Quix__Sdk__Token", None)
    portal_api: str | None = env("Quix__Portal__Api", None)

    bootstrap_servers: Annotated[str | None, parsed(parse.brokers)] = env("KAFKA_BOOTSTRAP_SERVERS", None)
    security_protocol: Annotated[SecurityProtocol | None, option(SecurityProtocol, str.upper)] = env(
        "KAFKA_SECURITY_PROTOCOL", None
    )
    sasl_mechanism: Annotated[SaslMechanism | None, option(SaslMechanism, str.upper)] = env(
        "KAFKA_SASL_MECHANISM", None
    )
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

    @field_validator("bootstrap_servers")
    @classmethod
    def _broker_is_known(cls, value: str | None, info: ValidationInfo) -> str | None:
        by_token = info.data.get("sdk_token") and info.data.get("portal_api")
        if not (value or info.data.get("platform_broker_address") or by_token):
            raise ValueError(
                "must be set, such as localhost:9092: neither Quix__Broker__Address nor Quix__Sdk__Token together with "
                "Quix__Portal__Api is there to name a broker"
            )
        return value

    @field_validator("security_protocol", "client_config")
    @classmethod
    def _client_has_a_broker(cls, value: _Value, info: ValidationInfo) -> _Value:
        broker_from_token = "bootstrap_servers" in info.data and not (
            info.data["bootstrap_servers"] or info.data.get("platform_broker_address")
        )
        if value and broker_from_token:
            raise ValueError("has no effect on the broker of Quix__Sdk__Token: set KAFKA_BOOTSTRAP_SERVERS as well")
        return value

    @field_validator("sasl_mechanism")
    @classmethod
    def _mechanism_fits_protocol(cls, value: str | None, info: ValidationInfo) -> str | None:
        if "security_protocol" not in info.data:
            return value
        sasl = (info.data["security_protocol"] or "").startswith("SASL_")
        if value and not sasl:
            raise ValueError("needs KAFKA_SECURITY_PROTOCOL to be SASL_SSL or SASL_PLAINTEXT")
        if sasl and not value:
            mechanisms = ", ".join(get_args(SaslMechanism))
            raise ValueError(f"must be set with this KAFKA_SECURITY_PROTOCOL, to one of {mechanisms}")
        return value

    @field_validator("sasl_username", "sasl_password")
    @classmethod
    def _login_fits_mechanism(cls, value: _Value, info: ValidationInfo) -> _Value:
        mechanism = info.data.get("sasl_mechanism")
        if mechanism not in _WITHOUT_PASSWORD:
            return together(value, info, "sasl_mechanism", "KAFKA_SASL_MECHANISM")
        if value is not None:
            raise ValueError(f"has no effect with KAFKA_SASL_MECHANISM={mechanism}: leave it empty")
        return value

    @field_validator("oauth_token_url", "oauth_scope", "oauth_extensions", "oauth_ca")
    @classmethod
    def _token_fits_mechanism(cls, value: _Value, info: ValidationInfo) -> _Value:
        if "sasl_mechanism" not in info.data:
            return value
        oauth = info.data["sasl_mechanism"] == "OAUTHBEARER"
        if value is not None and not oauth:
            raise ValueError("has no effect without KAFKA_SASL_MECHANISM=OAUTHBEARER")
        if value is None and oauth and info.field_name == "oauth_token_url":
            raise ValueError("must be set with KAFKA_SASL_MECHANISM=OAUTHBEARER, to the address that issues tokens")
        return value

    @field_validator("ssl_ca", "ssl_certificate")
    @classmethod
    def _certificates_fit_protocol(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value and "security_protocol" in info.data and info.data["security_protocol"] not in {"SSL", "SASL_SSL"}:
            raise ValueError("needs KAFKA_SECURITY_PROTOCOL to be SSL or SASL_SSL")
        return value

    @field_validator("ssl_key")
    @classmethod
    def _key_has_a_certificate(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        return together(value, info, "ssl_certificate", "KAFKA_SSL_CERTIFICATE")

    @field_validator("ssl_key_password")
    @classmethod
    def _certificate_and_key_fit(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if not {"ssl_certificate", "ssl_key"} <= info.data.keys():
            return value
        certificate, key = info.data["ssl_certificate"], info.data["ssl_key"]
        if key is None:
            if value is not None:
                raise ValueError("has no effect without KAFKA_SSL_KEY")
            return value
        check_client_certificate(certificate, key.get_secret_value(), value.get_secret_value() if value else None)
        return value

    @field_validator("client_config")
    @classmethod
    def _properties_may_be_set(cls, value: SecretStr | None) -> SecretStr | None:
        if value:
            parse_client_config(value.get_secret_value())
        return value


def region_of_msk(brokers: str) -> str | None:
    """The region in the host names of an Amazon MSK cluster; ``None`` if the brokers have other names."""
    found = _MSK_HOST.search(brokers)
    return found[1] if found else None


def pem_properties(name: str, value: str | None) -> dict[str, Any]:
    """The property of librdkafka for a file, ``<name>.location``, or for a text in PEM, ``<name>.pem``."""
    if value is None:
        return {}
    return {f"{name}.{'pem' if parse.is_pem(value) else 'location'}": value}
