"""What only S3 can do wrong, on a real server."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.errors import RetryableError
from app.storage.s3.store import S3Store
from dev.server import free_ports

Make = Callable[..., S3Store]


def test_a_store_that_is_not_there_is_retryable_and_named(s3_store: Make, bucket: str, file: Path) -> None:
    [port] = free_ports(1)
    store = s3_store(bucket, endpoint_url=f"http://127.0.0.1:{port}")

    with pytest.raises(
        RetryableError, match=f"connecting to s3://{bucket}.*127.0.0.1:{port}.*refused.*AWS_ENDPOINT_URL"
    ):
        store.connect("")
    with pytest.raises(RetryableError, match=f"uploading s3://{bucket}/f.parquet"):
        store.upload(file, "f.parquet")
    with pytest.raises(RetryableError, match=f"listing s3://{bucket}/t/"):
        list(store.list("t/"))
