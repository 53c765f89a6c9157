"""Certificates of an authority of one's own, as companies have them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from app.errors import FatalError
from app.storage.s3.store import S3Store
from dev.minio import LocalMinio

Make = Callable[..., S3Store]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    certificate.cert_chain_pems[0].write_to_path(str(folder / "public.crt"))
    certificate.private_key_pem.write_to_path(str(folder / "private.key"))
    return folder


@pytest.fixture(scope="module")
def secure_server(s3_server: LocalMinio, certificates: Path) -> Iterator[LocalMinio]:
    """An S3 server that speaks HTTPS; where the plain one can be had, so can this."""
    with LocalMinio(certificates) as server:
        server.client().create_bucket(Bucket="lake")
        yield server


@pytest.fixture
def store(secure_server: LocalMinio) -> S3Store:
    return S3Store(secure_server.target("lake"), max_workers=1)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "AWS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)


def test_an_authority_of_ones_own_is_trusted(
    store: S3Store, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificates / "ca.pem"))

    store.connect("t/")
    etag = store.write("t/x.json", b"{}", replaces=None)

    found = store.read("t/x.json")
    assert found is not None
    assert found.etag == etag
    store.delete("t/x.json")


def test_an_unknown_authority_names_the_variable(store: S3Store) -> None:
    with pytest.raises(FatalError, match=r"connecting to s3://lake.*certificate.*AWS_CA_BUNDLE"):
        store.connect("t/")
