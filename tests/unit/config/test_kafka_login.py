"""The login at Kafka: which variables go together, and what is wrong with certificates, keys and properties."""

from pathlib import Path
from typing import ClassVar

import pytest

from tests.support.environment import ENOUGH, load, problems

SASL = {"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_USERNAME": "u", "KAFKA_SASL_PASSWORD": "pw"}
OAUTH = SASL | {"KAFKA_SASL_MECHANISM": "oauthbearer", "KAFKA_OAUTH_TOKEN_URL": "https://login.example.com/o/token/"}


class TestMechanisms:
    def test_oauth_takes_the_address_as_it_is(self) -> None:
        settings = load(**OAUTH, KAFKA_OAUTH_EXTENSIONS="logicalCluster=lkc-1, identityPoolId=pool-1")
        assert settings.oauth_token_url == "https://login.example.com/o/token/"
        assert settings.oauth_extensions == "logicalCluster=lkc-1,identityPoolId=pool-1"

    @pytest.mark.parametrize("mechanism", ["AWS_MSK_IAM", "GSSAPI"])
    def test_without_a_password(self, mechanism: str) -> None:
        load(KAFKA_SECURITY_PROTOCOL="SASL_SSL", KAFKA_SASL_MECHANISM=mechanism)
        user, password = problems(**SASL, KAFKA_SASL_MECHANISM=mechanism)
        assert user.startswith('KAFKA_SASL_USERNAME="u": has no effect without KAFKA_SASL_MECHANISM=PLAIN or SCRAM-')
        assert password.startswith("KAFKA_SASL_PASSWORD: has no effect without")


class TestClientCertificate:
    PAIR: ClassVar = {
        "KAFKA_SECURITY_PROTOCOL": "SSL",
        "KAFKA_SSL_CERTIFICATE": r"-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
        "KAFKA_SSL_KEY": __file__,
    }

    def test_is_a_file_or_a_text_on_one_line(self) -> None:
        settings = load(**self.PAIR, KAFKA_SSL_KEY_PASSWORD="hush")
        assert settings.ssl_certificate == "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"
        assert settings.ssl_key == __file__
        assert "hush" not in repr(settings) + str(settings.summary())

    @pytest.mark.parametrize("path", ["/no/such/file", "/"])
    def test_a_file_that_cannot_be_read(self, path: str) -> None:
        (problem,) = problems(**(self.PAIR | {"KAFKA_SSL_KEY": path}))
        assert problem.startswith("KAFKA_SSL_KEY: must be a file that the connector can read")


class TestClientConfig:
    def test_values_become_text_and_stay_hidden(self) -> None:
        config = '{"socket.keepalive.enable": true, "linger.ms": 5, "ssl.keystore.password": "hush"}'
        settings = load(KAFKA_CLIENT_CONFIG=config)
        assert settings.client_properties == {
            "socket.keepalive.enable": "true",
            "linger.ms": "5",
            "ssl.keystore.password": "hush",
        }
        assert "hush" not in repr(settings) + str(settings.summary())


def test_offline_needs_no_login(tmp_path: Path) -> None:
    settings = load(ENOUGH, **OAUTH, KAFKA_CLIENT_CONFIG='{"linger.ms": 5}').offline(tmp_path)
    assert (settings.sasl_mechanism, settings.oauth_token_url, settings.client_properties) == (None, None, {})
