"""Checks that a client certificate and its key belong together, before a broker refuses them."""

from pathlib import Path

from pydantic_core import PydanticCustomError

from app.config.parsers import is_pem

_CERTIFICATE, _KEY, _PASSWORD = "KAFKA_SSL_CERTIFICATE", "KAFKA_SSL_KEY", "KAFKA_SSL_KEY_PASSWORD"


def check_client_certificate(certificate: str, key: str, password: str | None) -> None:
    """Check a certificate and its key, each of them the path of a file or a text in PEM.

    Raises:
        PydanticCustomError: they do not fit; its context names the variable.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization as form

    try:
        owner, *_ = x509.load_pem_x509_certificates(_content(certificate))
    except ValueError:
        raise _wrong(_CERTIFICATE, "must hold a certificate in PEM") from None
    try:
        private = form.load_pem_private_key(_content(key), None)
    except TypeError:  # it is encrypted
        if password is None:
            raise _wrong(_PASSWORD, f"must be set, because {_KEY} is encrypted") from None
        try:
            private = form.load_pem_private_key(_content(key), password.encode())
        except ValueError:
            raise _wrong(_PASSWORD, f"does not open {_KEY}") from None
    except ValueError:
        raise _wrong(_KEY, "must hold a private key in PEM") from None
    kind = (form.Encoding.DER, form.PublicFormat.SubjectPublicKeyInfo)
    if owner.public_key().public_bytes(*kind) != private.public_key().public_bytes(*kind):
        raise _wrong(_KEY, f"does not belong to {_CERTIFICATE}: it is the key of another certificate")


def _content(value: str) -> bytes:
    return value.encode() if is_pem(value) else Path(value).read_bytes()


def _wrong(variable: str, problem: str) -> PydanticCustomError:
    return PydanticCustomError("client_certificate", problem, {"variable": variable})
