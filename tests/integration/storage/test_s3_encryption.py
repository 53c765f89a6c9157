"""Encryption at the store, on a real server. The ETag of what is encrypted with a key service is no MD5 of it."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from app.storage.base import ChangedError
from app.storage.s3.store import S3Store
from dev.minio import KMS_KEY, LocalMinio
from tests.integration.storage.conftest import LARGE, SMALL_PARTS

Make = Callable[..., S3Store]
ENCRYPTIONS = [("AES256", None), ("aws:kms", None), ("aws:kms", KMS_KEY)]


@pytest.mark.parametrize(("sse", "key"), ENCRYPTIONS)
def test_every_object_is_encrypted_as_asked(
    s3_store: Make, s3_server: LocalMinio, bucket: str, tmp_path: Path, sse: str, key: str | None
) -> None:
    small, large = tmp_path / "small.parquet", tmp_path / "large.parquet"
    small.write_bytes(b"PAR1")
    large.write_bytes(LARGE)
    store = s3_store(bucket, sse=sse, sse_kms_key_id=key, limits=SMALL_PARTS)

    store.upload(small, "small.parquet")
    store.upload(large, "large.parquet")
    store.write("_journal/0.json", b"{}", replaces=None)

    for name in ("small.parquet", "large.parquet", "_journal/0.json"):
        found = s3_server.client().head_object(Bucket=bucket, Key=name)
        assert found["ServerSideEncryption"] == sse
        assert found.get("SSEKMSKeyId", "").endswith(KMS_KEY if sse == "aws:kms" else "")


def test_versions_are_told_apart_whatever_their_etag_is(s3_store: Make, bucket: str) -> None:
    store = s3_store(bucket, sse="aws:kms")
    store.probe_conditions("_journal/")

    first = store.write("0.json", b"{}", replaces=None)
    second = store.write("0.json", b'{"seq": 2}', replaces=first)

    assert second.strip('"') != hashlib.md5(b'{"seq": 2}', usedforsecurity=False).hexdigest()
    found = store.read("0.json")
    assert found is not None
    assert (found.body, found.etag) == (b'{"seq": 2}', second)
    with pytest.raises(ChangedError):
        store.write("0.json", b'{"seq": 3}', replaces=first)
