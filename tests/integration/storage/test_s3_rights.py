"""Which right is missing is told at start, on a real server that enforces them."""

import logging
from collections.abc import Callable

import pytest

from app.errors import FatalError
from app.storage.s3.store import S3Store
from dev.minio import LocalMinio
from tests.services.minio_rights import restricted_keys

ALL = ("s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")
TABLE = "data/t/"

Start = Callable[[str], object]


@pytest.fixture
def start(s3_store: Callable[..., S3Store], s3_server: LocalMinio, bucket: str) -> Start:
    """Do what the connector does first, with all rights but one."""

    def begin(missing: str) -> None:
        policy = {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Action": [action for action in ALL if action != missing],
                    "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
                }
            ],
        }
        store = s3_store(bucket, **restricted_keys(s3_server, policy))
        store.connect(TABLE)
        store.probe_conditions(f"{TABLE}_journal/")

    return begin


@pytest.mark.parametrize(
    ("missing", "doing", "on"),
    [
        ("s3:ListBucket", "connecting to s3://{bucket}", "arn:aws:s3:::{bucket} "),
        ("s3:GetObject", "reading s3://{bucket}/data/t/_journal/", "arn:aws:s3:::{bucket}/data/t/* for these keys"),
        ("s3:PutObject", "writing s3://{bucket}/data/t/_journal/", "arn:aws:s3:::{bucket}/data/t/* for these keys"),
        ("s3:DeleteObject", "deleting s3://{bucket}/data/t/_journal/", "arn:aws:s3:::{bucket}/data/t/* for these keys"),
    ],
)
def test_a_missing_right_is_named_with_its_place(start: Start, bucket: str, missing: str, doing: str, on: str) -> None:
    """``s3:PutObject`` is what keys that may only read lack."""
    with pytest.raises(FatalError, match=f"^{doing.format(bucket=bucket)}") as caught:
        start(missing)

    assert caught.value.hint.startswith(f"Allow {missing} on {on.format(bucket=bucket)}")


def test_a_missing_right_to_give_up_uploads_is_a_warning(
    start: Start, bucket: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows do not depend on it; the bill does."""
    with caplog.at_level(logging.WARNING):
        start("s3:AbortMultipartUpload")

    (warning,) = caplog.messages
    assert f"Allow s3:AbortMultipartUpload on arn:aws:s3:::{bucket}/{TABLE}*" in warning
    assert "Parts of uploads that failed stay in the store" in warning
