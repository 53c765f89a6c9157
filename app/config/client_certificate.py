"""Checks that a client certificate and its key belong together, before a broker refuses them."""

from pathlib import Path

from app.config.fields import Contradictions
from app.config.parsers import is_pem

_CERTIFICATE, _KEY, _PASSWORD = "KAFKA_SSL_CERTIFICATE", "KAFKA_SSL_KEY", "KAFKA_SSL_KEY_PASSWORD"


def check_client_certificate(certificate: str, key: str, password: str | None) -> Contradictions:
    """Yield what is wrong with a certificate and its key, each of them the path of a file or a text in PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization as form

    try:
        owner, *_ = x509.load_pem_x509_certificates(_content(certificate))
    except ValueError:
        yield _CERTIFICATE, "must hold a certificate in PEM"
        return
    try:
        private = form.load_pem_private_key(_content(key), None)
    except TypeError:  # it is encrypted
        if password is None:
            yield _PASSWORD, f"must be set, because {_KEY} is encrypted"
            return
        try:
            private = form.load_pem_private_key(_content(key), password.encode())
        except ValueError:
            yield _PASSWORD, f"does not open {_KEY}"
            return
    except ValueError:
        yield _KEY, "must hold a private key in PEM"
        return
    kind = (form.Encoding.DER, form.PublicFormat.SubjectPublicKeyInfo)
    if owner.public_key().public_bytes(*kind) != private.public_key().public_bytes(*kind):
        yield _KEY, f"does not belong to {_CERTIFICATE}: it is the key of another certificate"


def _content(value: str) -> bytes:
    return value.encode() if is_pem(value) else Path(value).read_bytes()
