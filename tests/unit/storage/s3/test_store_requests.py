"""What goes out to stores that no test can ask: where to, and with which headers."""

from pathlib import Path

import pytest

from app.storage.s3.store import S3Store
from app.storage.targets import S3Target
from tests.fakes.outgoing import Outgoing

KEY = "t/day=1/x.parquet"


def store(bucket: str, endpoint_url: str | None, region: str = "eu-west-1") -> S3Store:
    return S3Store(S3Target(bucket, region, endpoint_url, "AKIA1", "secret"), max_workers=1)


@pytest.mark.parametrize(
    ("bucket", "endpoint_url", "region", "address"),
    [
        ("lake", None, "eu-west-1", "https://lake.s3.eu-west-1.amazonaws.com"),
        ("lake", None, "cn-north-1", "https://lake.s3.cn-north-1.amazonaws.com.cn"),
        # a certificate of AWS holds for one name below it, so that a bucket with dots has no host of its own
        ("lake.acme.com", None, "eu-west-1", "https://s3.eu-west-1.amazonaws.com/lake.acme.com"),
        ("lake", "https://vpce-1.s3.eu-west-1.vpce.amazonaws.com", "eu-west-1", None),
        ("lake", "http://minio:9000", "us-east-1", None),
        ("lake.acme.com", "https://minio.acme.com", "us-east-1", None),
        ("lake", "https://1a2b3c.r2.cloudflarestorage.com", "auto", None),
    ],
)
def test_aws_is_addressed_by_host_and_other_stores_by_path(
    bucket: str, endpoint_url: str | None, region: str, address: str | None, file: Path, outgoing: Outgoing
) -> None:
    store(bucket, endpoint_url, region).upload(file, KEY)

    (request,) = outgoing.requests
    assert request.url == f"{address or f'{endpoint_url}/{bucket}'}/t/day%3D1/x.parquet"
    assert f"/{region}/s3/aws4_request" in outgoing.headers[0]["authorization"]


@pytest.mark.parametrize("endpoint_url", [None, "https://s3.eu-west-1.amazonaws.com"])
def test_aws_gets_a_checksum_with_every_object(endpoint_url: str | None, file: Path, outgoing: Outgoing) -> None:
    store("lake", endpoint_url).upload(file, KEY)
    store("lake", endpoint_url).write("t/_journal/x.json", b"{}", replaces=None)

    assert all("x-amz-checksum-crc32" in (*headers, headers.get("x-amz-trailer")) for headers in outgoing.headers)
    types = [headers["content-type"] for headers in outgoing.headers]
    assert types == ["application/vnd.apache.parquet", "application/json"]
