"""Properties of the connection: given to librdkafka, shown to nobody, tried before a client is made."""

import copy
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization as form
from quixstreams import Application

from app.errors import ConfigError
from app.kafka.connection import KafkaConnection, check_properties
from app.kafka.topics import new_admin


def test_every_client_gets_the_properties_and_no_text_shows_them() -> None:
    connection = KafkaConnection.to("127.0.0.1:1", {"ssl.key.pem": "hush", "linger.ms": "5", "sasl.username": None})
    application = Application(broker_address=connection, consumer_group="g", loglevel=None)
    kept = application.config.broker_address

    for made in (connection, kept, copy.deepcopy(kept), application.config.copy().broker_address):
        expected = {"bootstrap.servers": "127.0.0.1:1", "ssl.key.pem": "hush", "linger.ms": "5"}
        assert made.as_librdkafka_dict() == expected
        assert "hush" not in f"{made} {made!r} {made.as_librdkafka_dict(plaintext_secrets=False)}"
    assert application._consumer._consumer_config["linger.ms"] == "5"


def test_a_property_of_the_user_replaces_the_one_of_every_client() -> None:
    with pytest.raises(ConfigError, match=r"enable\.sparse\.connections"):
        new_admin(KafkaConnection.to("127.0.0.1:1", {"enable.sparse.connections": "neither"}))


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"linger.msec": "5"}, 'No such configuration property: "linger.msec"'),
        ({"oauth_cb": "hush"}, "expected oauth_cb property as a callable function"),
        ({"socket.timeout.ms": "hush"}, 'Invalid value for configuration property "socket.timeout.ms"'),
        ({"socket.timeout.ms": "1"}, 'property "socket.timeout.ms" value 1 is outside allowed range 10..300000'),
        ({"fetch.max.bytes": "10", "receive.message.max.bytes": "1000"}, "fetch.max.bytes"),
    ],
)
def test_what_librdkafka_refuses_names_the_variable(properties: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_properties(properties, {"session.timeout.ms": 20_000})
    assert caught.value.doing == "reading KAFKA_CLIENT_CONFIG"
    assert told in caught.value.cause


def test_what_it_takes(capfd: pytest.CaptureFixture[str]) -> None:
    check_properties({"fetch.min.bytes": "5", "linger.ms": "5", "ssl.keystore.password": "hush"}, {})
    check_properties({}, {})
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("ssl.ca.pem", "no certificate", r".*ssl\.ca\.pem.*Check KAFKA_SSL_CA_LOCATION"),
        ("ssl.crl.location", "/no/such/file", r".*ssl\.crl\.location.*Check KAFKA_CLIENT_CONFIG"),
        ("ssl.keystore.location", "/no/such/file", r".*ssl\.keystore\.location.*Check KAFKA_CLIENT_CONFIG"),
        ("ssl.cipher.suites", "none", r".*ssl\.cipher\.suites.*Check KAFKA_CLIENT_CONFIG"),
    ],
)
def test_an_admin_client_that_cannot_be_made_names_the_variable(name: str, value: str, told: str) -> None:
    connection = KafkaConnection.to("127.0.0.1:1", {"security.protocol": "ssl", name: value})
    with pytest.raises(ConfigError, match=f"setting up the Kafka client: {told}"):
        new_admin(connection)


@pytest.mark.parametrize(
    ("certificate", "key", "password", "told"),
    [
        (
            "client.pem",
            "other.key",
            None,
            "ssl.key.location failed: .*key values mismatch. Check KAFKA_SSL_KEY",
        ),
        ("client.pem", "locked.key", None, "ssl.key.location failed: .* and KAFKA_SSL_KEY_PASSWORD"),
        ("client.key", "client.key", None, "ssl.certificate.location failed: .*Check KAFKA_SSL_CERTIFICATE"),
    ],
)
def test_a_client_certificate_that_cannot_be_used(
    tmp_path: Path, certificate: str, key: str, password: str | None, told: str
) -> None:
    authority = trustme.CA()
    for name in ("client", "other"):
        issued = authority.issue_cert(f"{name}@example.com")
        issued.cert_chain_pems[0].write_to_path(str(tmp_path / f"{name}.pem"))
        issued.private_key_pem.write_to_path(str(tmp_path / f"{name}.key"))
    lock = form.BestAvailableEncryption(b"hush")
    private = form.load_pem_private_key((tmp_path / "client.key").read_bytes(), None)
    (tmp_path / "locked.key").write_bytes(private.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, lock))
    properties = {
        "security.protocol": "ssl",
        "ssl.certificate.location": str(tmp_path / certificate),
        "ssl.key.location": str(tmp_path / key),
        "ssl.key.password": password,
    }
    with pytest.raises(ConfigError, match=f"setting up the Kafka client: {told}"):
        new_admin(KafkaConnection.to("127.0.0.1:1", properties))
