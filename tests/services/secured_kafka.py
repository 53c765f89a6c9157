"""A Kafka that asks for a login, with a listener for each kind, and the certificates of its authority."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from cryptography.hazmat.primitives import serialization as form

from dev.broker import ADMIN_TIMEOUT
from dev.kafka import LocalKafka
from tests.fakes.token_server import TokenServer

USER, PASSWORD = "alice", "right-password"
KEY_PASSWORD = "key-password"

_OAUTH = "org.apache.kafka.common.security.oauthbearer"
_LISTENERS = {
    "MTLS": "SSL",
    "PASSWORD": "SASL_PLAINTEXT",
    "OIDC": "SASL_PLAINTEXT",
    "UNSIGNED": "SASL_PLAINTEXT",  # takes tokens without a signature, as MSK would take those that AWS' signer makes
}


@dataclass(frozen=True)
class SecuredKafka:
    """``folder`` has ca.pem and other-ca.pem, and of the client its .pem, .key and -encrypted.key."""

    kafka: LocalKafka
    tokens: TokenServer
    folder: Path

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.kafka.ports[listener]}"


@contextmanager
def secured_kafka(folder: Path) -> Iterator[SecuredKafka]:
    authority = trustme.CA()
    _write_certificates(folder, authority)
    jwks = (folder / "jwks.json").as_uri()
    with TokenServer(authority) as tokens:
        tokens.write_jwks(folder / "jwks.json")
        options = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks}"]
        with LocalKafka(settings=_settings(folder, jwks), listeners=_LISTENERS, java_options=options) as kafka:
            _add_user(kafka)
            yield SecuredKafka(kafka, tokens, folder)


def _add_user(kafka: LocalKafka) -> None:
    """To those who log in by SCRAM; that of PLAIN is in the settings."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    made = UserScramCredentialUpsertion(
        USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), PASSWORD.encode()
    )
    admin.alter_user_scram_credentials([made])[USER].result(ADMIN_TIMEOUT)


def _settings(folder: Path, jwks: str) -> dict[str, str]:
    password = "listener.name.password."
    oidc = "listener.name.oidc."
    unsigned = "listener.name.unsigned."
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.mtls.ssl.keystore.type": "PEM",
        "listener.name.mtls.ssl.keystore.location": str(folder / "server.pem"),
        "listener.name.mtls.ssl.truststore.type": "PEM",
        "listener.name.mtls.ssl.truststore.location": str(folder / "ca.pem"),
        f"{password}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        f"{password}scram-sha-512.sasl.jaas.config": f"{scram} required;",
        f"{password}plain.sasl.jaas.config": f'{plain} required user_{USER}="{PASSWORD}";',
        f"{oidc}sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{oidc}oauthbearer.sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
        f"{oidc}oauthbearer.sasl.server.callback.handler.class": f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
        f"{oidc}oauthbearer.sasl.oauthbearer.jwks.endpoint.url": jwks,
        f"{unsigned}sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{unsigned}oauthbearer.sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
        # Tests let clients renew tokens after seconds. That must not be a race with what the broker still takes.
        f"{oidc}oauthbearer.sasl.oauthbearer.clock.skew.seconds": "3600",
    }


def _write_certificates(folder: Path, authority: trustme.CA) -> None:
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(folder / "other-ca.pem"))
    server = authority.issue_cert("127.0.0.1")
    (folder / "server.pem").write_bytes(_pkcs8(server) + server.cert_chain_pems[0].bytes())
    client = authority.issue_cert("client@example.com")
    client.cert_chain_pems[0].write_to_path(str(folder / "client.pem"))
    (folder / "client.key").write_bytes(_pkcs8(client))
    (folder / "client-encrypted.key").write_bytes(_pkcs8(client, KEY_PASSWORD))


def _pkcs8(certificate: trustme.LeafCert, password: str | None = None) -> bytes:
    """Its key in the format that Kafka reads."""
    key = form.load_pem_private_key(certificate.private_key_pem.bytes(), None)
    lock = form.BestAvailableEncryption(password.encode()) if password else form.NoEncryption()
    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, lock)
