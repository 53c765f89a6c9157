"""Builds the connection to Kafka that the settings name."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from app.config.parsers import is_pem
from app.config.settings import Settings
from app.errors import ConfigError, ConnectorError
from app.kafka.connection import KafkaConnection, MskToken


def kafka_connection(settings: Settings) -> KafkaConnection | None:
    """The broker's address and login; ``None`` leaves both to quixstreams and the platform's token."""
    if settings.broker_address is None:
        return None
    properties = {
        "security.protocol": settings.security_protocol,
        **_login(settings),
        **_pem("ssl.ca", settings.ssl_ca),
        **_pem("ssl.certificate", settings.ssl_certificate),
        **_pem("ssl.key", settings.ssl_key),
        "ssl.key.password": settings.ssl_key_password,
        **settings.client_properties,
    }
    return KafkaConnection.to(settings.broker_address, properties)


def _login(settings: Settings) -> dict[str, Any]:
    user, password = settings.sasl_username, settings.sasl_password
    match settings.sasl_mechanism:
        case "OAUTHBEARER":
            return {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": user,
                "sasl.oauthbearer.client.secret": password,
                "sasl.oauthbearer.token.endpoint.url": settings.oauth_token_url,
                "sasl.oauthbearer.scope": settings.oauth_scope,
                "sasl.oauthbearer.extensions": settings.oauth_extensions,
                # The client's own default is a file that Debian does not have.
                **_pem("https.ca", settings.oauth_ca or "probe"),
            }
        case "AWS_MSK_IAM":  # the brokers take the token by the other mechanism too, which librdkafka knows
            return {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": MskToken(settings.msk_region)}
        case mechanism:
            return {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}


def _pem(name: str, value: str | None) -> dict[str, str | None]:
    """The property of librdkafka for a file, ``<name>.location``, or for a text in PEM, ``<name>.pem``."""
    return {f"{name}.{'pem' if value and is_pem(value) else 'location'}": value}


def kafka_client_refused(settings: Settings, error: Exception) -> ConfigError:
    """The error for settings that the Kafka client refuses, or a platform without a broker's address."""
    if settings.broker_address is None:
        return _platform_failed(settings, error)
    return ConfigError("setting up the Kafka client", str(error), "Check the KAFKA_ variables")


@contextmanager
def asking_for_topics(settings: Settings) -> Iterator[None]:
    """Translate errors of quixstreams in requests to the platform into ``ConfigError``."""
    try:
        yield
    except ConnectorError:
        raise
    except Exception as error:
        if settings.broker_address is not None:
            raise
        raise _platform_failed(settings, error) from error


def _platform_failed(settings: Settings, error: Exception) -> ConfigError:
    """Hides quixstreams' message for an unreadable answer: it may show a password."""
    is_unreadable = isinstance(error, AttributeError | LookupError | TypeError | ValueError)
    return ConfigError(
        f"asking the Quix API at {settings.portal_api}",
        "the answer is not one of the Quix API" if is_unreadable else str(error),
        "Check Quix__Portal__Api, Quix__Sdk__Token and Quix__Workspace__Id",
    )
