"""The login at Kafka: which variables go together, and what is wrong with certificates, keys and properties."""

from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization as form

from app.config.kafka_login import region_of_msk
from tests.support.environment import ENOUGH, load, problems

SASL = {"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_USERNAME": "u", "KAFKA_SASL_PASSWORD": "pw"}
OAUTH = SASL | {"KAFKA_SASL_MECHANISM": "oauthbearer", "KAFKA_OAUTH_TOKEN_URL": "https://login.example.com/o/token/"}


class TestMechanisms:
    def test_oauth_takes_the_address_as_it_is(self) -> None:
        settings = load(**OAUTH, KAFKA_OAUTH_EXTENSIONS="logicalCluster=lkc-1, identityPoolId=pool-1")
        assert settings.oauth_token_url == "https://login.example.com/o/token/"
        assert settings.oauth_extensions == "logicalCluster=lkc-1,identityPoolId=pool-1"

    def test_oauth_needs_an_address(self) -> None:
        (problem,) = problems(**(OAUTH | {"KAFKA_OAUTH_TOKEN_URL": ""}))
        assert problem.startswith("KAFKA_OAUTH_TOKEN_URL: must be set with KAFKA_SASL_MECHANISM=OAUTHBEARER")

    @pytest.mark.parametrize(
        "address", ["login.example.com", "https://user:hush@login.example.com", "https://", "https://a b"]
    )
    def test_a_wrong_address(self, address: str) -> None:
        (problem,) = problems(**(OAUTH | {"KAFKA_OAUTH_TOKEN_URL": address}))
        assert problem.startswith("KAFKA_OAUTH_TOKEN_URL")
        assert "hush" not in problem

    def test_wrong_extensions(self) -> None:
        (problem,) = problems(**OAUTH, KAFKA_OAUTH_EXTENSIONS="logicalCluster")
        assert "KAFKA_OAUTH_EXTENSIONS" in problem
        assert "must be name=value" in problem

    @pytest.mark.parametrize(
        "variable", ["KAFKA_OAUTH_TOKEN_URL", "KAFKA_OAUTH_SCOPE", "KAFKA_OAUTH_EXTENSIONS", "KAFKA_OAUTH_CA_LOCATION"]
    )
    def test_other_mechanisms_have_no_tokens(self, variable: str) -> None:
        value = {"KAFKA_OAUTH_TOKEN_URL": "https://a", "KAFKA_OAUTH_CA_LOCATION": __file__}.get(variable, "a=b")
        (problem,) = problems(**SASL, KAFKA_SASL_MECHANISM="PLAIN", **{variable: value})
        assert problem.startswith(variable)
        assert "has no effect without KAFKA_SASL_MECHANISM=OAUTHBEARER" in problem

    @pytest.mark.parametrize("mechanism", ["AWS_MSK_IAM", "GSSAPI"])
    def test_without_a_password(self, mechanism: str) -> None:
        load(KAFKA_SECURITY_PROTOCOL="SASL_SSL", KAFKA_SASL_MECHANISM=mechanism)
        user, password = problems(**SASL, KAFKA_SASL_MECHANISM=mechanism)
        assert user == f'KAFKA_SASL_USERNAME="u": has no effect with KAFKA_SASL_MECHANISM={mechanism}: leave it empty'
        assert password.startswith("KAFKA_SASL_PASSWORD: has no effect with")


class TestRegion:
    @pytest.mark.parametrize(
        ("brokers", "region"),
        [
            ("b-1.a.b2c3.c2.kafka.eu-west-1.amazonaws.com:9098,b-2.a.example.com:9098", "eu-west-1"),
            ("boot-a.c1.kafka-serverless.us-gov-east-1.amazonaws.com:9098", "us-gov-east-1"),
            ("b-1.a.b2c3.c2.kafka.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
            ("kafka.example.com:9098", None),
        ],
    )  # fmt: skip
    def test_in_the_names_of_brokers(self, brokers: str, region: str | None) -> None:
        assert region_of_msk(brokers) == region

    def test_else_that_of_the_store(self) -> None:
        settings = load(KAFKA_SECURITY_PROTOCOL="SASL_SSL", KAFKA_SASL_MECHANISM="AWS_MSK_IAM", AWS_REGION="eu-west-3")
        assert settings.msk_region == "eu-west-3"


class TestClientCertificate:
    @pytest.fixture
    def files(self, tmp_path: Path) -> Path:
        authority = trustme.CA()
        for name in ("client", "other"):
            certificate = authority.issue_cert(f"{name}@example.com")
            certificate.cert_chain_pems[0].write_to_path(str(tmp_path / f"{name}.pem"))
            certificate.private_key_pem.write_to_path(str(tmp_path / f"{name}.key"))
        key = form.load_pem_private_key((tmp_path / "client.key").read_bytes(), None)
        lock = form.BestAvailableEncryption(b"hush")
        encrypted = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, lock)
        (tmp_path / "encrypted.key").write_bytes(encrypted)
        return tmp_path

    def variables(self, files: Path, key: str = "client.key", **others: str) -> dict[str, str]:
        pair = {"KAFKA_SSL_CERTIFICATE": str(files / "client.pem"), "KAFKA_SSL_KEY": str(files / key)}
        return {"KAFKA_SECURITY_PROTOCOL": "SSL", **pair, **others}

    def test_as_files(self, files: Path) -> None:
        settings = load(**self.variables(files))
        assert settings.ssl_certificate == str(files / "client.pem")

    def test_as_texts_on_one_line(self, files: Path) -> None:
        texts = {
            "KAFKA_SSL_CERTIFICATE": (files / "client.pem").read_text().replace("\n", "\\n"),
            "KAFKA_SSL_KEY": (files / "client.key").read_text().replace("\n", "\\n"),
        }
        settings = load(**(self.variables(files) | texts))
        assert settings.ssl_certificate == (files / "client.pem").read_text() + "\n"
        assert "PRIVATE KEY" not in repr(settings) + str(settings.summary())

    def test_an_encrypted_key(self, files: Path) -> None:
        load(**self.variables(files, "encrypted.key", KAFKA_SSL_KEY_PASSWORD="hush"))

    @pytest.mark.parametrize(
        ("others", "told"),
        [
            ({"KAFKA_SSL_KEY": "other.key"}, "KAFKA_SSL_KEY: does not belong to KAFKA_SSL_CERTIFICATE"),
            ({"KAFKA_SSL_KEY": "client.pem"}, "KAFKA_SSL_KEY: must hold a private key in PEM"),
            ({"KAFKA_SSL_KEY": "missing"}, "KAFKA_SSL_KEY: must be a file that can be read where the connector runs"),
            ({"KAFKA_SSL_KEY": "."}, "KAFKA_SSL_KEY: must be a file that can be read"),
            ({"KAFKA_SSL_KEY": "encrypted.key"}, "KAFKA_SSL_KEY_PASSWORD: must be set, because KAFKA_SSL_KEY is encr"),
        ],
    )
    def test_a_wrong_key(self, files: Path, others: dict[str, str], told: str) -> None:
        (problem,) = problems(**self.variables(files, others["KAFKA_SSL_KEY"]))
        assert problem.startswith(told)

    def test_a_wrong_password(self, files: Path) -> None:
        (problem,) = problems(**self.variables(files, "encrypted.key", KAFKA_SSL_KEY_PASSWORD="wrong"))
        assert problem == "KAFKA_SSL_KEY_PASSWORD: does not open KAFKA_SSL_KEY"

    def test_no_certificate_in_the_file(self, files: Path) -> None:
        certificate = str(files / "client.key")
        (problem,) = problems(**(self.variables(files) | {"KAFKA_SSL_CERTIFICATE": certificate}))
        assert problem == f'KAFKA_SSL_CERTIFICATE="{certificate}": must hold a certificate in PEM'

    @pytest.mark.parametrize(
        ("missing", "told"),
        [
            ("KAFKA_SSL_KEY", "KAFKA_SSL_KEY: goes together with KAFKA_SSL_CERTIFICATE: set both or none"),
            ("KAFKA_SSL_CERTIFICATE", "KAFKA_SSL_KEY: goes together with KAFKA_SSL_CERTIFICATE: set both or none"),
        ],
    )
    def test_one_of_the_two(self, files: Path, missing: str, told: str) -> None:
        assert told in problems(**(self.variables(files) | {missing: ""}))

    def test_a_password_of_no_key(self) -> None:
        (problem,) = problems(KAFKA_SSL_KEY_PASSWORD="hush")
        assert problem == "KAFKA_SSL_KEY_PASSWORD: has no effect without KAFKA_SSL_KEY"

    def test_no_tls_no_certificate(self, files: Path) -> None:
        told = problems(**(self.variables(files) | {"KAFKA_SECURITY_PROTOCOL": "PLAINTEXT"}))
        assert "has no effect without KAFKA_SECURITY_PROTOCOL=SSL or SASL_SSL" in told[0]


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

    @pytest.mark.parametrize(
        ("config", "told"),
        [
            ('{"hush"', "must be a JSON object"),
            ('["hush"]', "must be a JSON object"),
            ('{"linger.ms": ["hush"]}', "must give linger.ms a text, a number, true or false"),
            ('{"linger.ms": null}', "must give linger.ms a text, a number, true or false"),
            ('{"sasl.password": "hush"}', "must not set sasl.password: KAFKA_SASL_PASSWORD does"),
            ('{"group.id": "hush"}', "must not set group.id: CONSUMER_GROUP does"),
            ('{"enable.auto.commit": true}', "must not set enable.auto.commit: the connector needs its own value"),
            ('{"isolation.level": "hush"}', "must not set isolation.level: the connector needs its own value"),
            ('{"oauth_cb": "hush"}', "must not set oauth_cb: it is no property of librdkafka with a text as its value"),
        ],
    )
    def test_refused(self, config: str, told: str) -> None:
        (problem,) = problems(KAFKA_CLIENT_CONFIG=config)
        assert problem.startswith(f"KAFKA_CLIENT_CONFIG: {told}")
        assert "hush" not in problem

    def test_has_no_effect_on_the_broker_of_the_platform(self) -> None:
        platform = {"Quix__Sdk__Token": "t", "Quix__Portal__Api": "https://p", "S3_BUCKET": "lake"}
        (problem,) = problems(platform, KAFKA_CLIENT_CONFIG="{}")
        assert "set KAFKA_BOOTSTRAP_SERVERS as well" in problem


def test_offline_needs_no_login(tmp_path: Path) -> None:
    settings = load(ENOUGH, **OAUTH, KAFKA_CLIENT_CONFIG='{"linger.ms": 5}').offline(tmp_path)
    assert (settings.sasl_mechanism, settings.oauth_token_url, settings.client_properties) == (None, None, {})
