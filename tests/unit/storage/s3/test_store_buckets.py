"""Where a missing bucket is created: AWS wants the region named, other stores may refuse to be told."""

from typing import Any

import pytest
from botocore.stub import Stubber

from app.storage.s3.store import S3Store
from app.storage.s3.target import S3Target

LISTING = {"IsTruncated": False, "ResponseMetadata": {"HTTPHeaders": {}}}
IN_IRELAND = {"CreateBucketConfiguration": {"LocationConstraint": "eu-west-1"}}


@pytest.mark.parametrize(
    ("endpoint_url", "region", "location"),
    [
        (None, "us-east-1", {}),
        (None, "eu-west-1", IN_IRELAND),
        ("https://s3.eu-west-1.amazonaws.com", "eu-west-1", IN_IRELAND),
        ("https://bucket.vpce-1a2b-3c4d.s3.eu-west-1.vpce.amazonaws.com", "eu-west-1", IN_IRELAND),
        ("https://nyc3.digitaloceanspaces.com", "nyc3", {}),
        ("http://minio:9000", "eu-west-1", {}),
    ],
)
def test_the_region_is_named_to_aws_alone(endpoint_url: str | None, region: str, location: dict[str, Any]) -> None:
    store = S3Store(
        S3Target(
            "lake", region=region, endpoint_url=endpoint_url, access_key="AKIA1", secret_key="secret", may_create=True
        ),
        max_workers=1,
    )
    with Stubber(store._client) as aws:
        aws.add_client_error("list_objects_v2", "NoSuchBucket", http_status_code=404)
        aws.add_response("create_bucket", {}, {"Bucket": "lake", **location})
        aws.add_response("list_objects_v2", LISTING)

        store.connect("")

        aws.assert_no_pending_responses()


def test_only_the_place_that_will_be_written_is_listed() -> None:
    """Keys that a platform hands out may list their own workspace's folder and nothing above it."""
    store = S3Store(S3Target("lake", region="us-east-1", access_key="AKIA1", secret_key="secret"), max_workers=1)
    with Stubber(store._client) as aws:
        aws.add_response("list_objects_v2", LISTING, {"Bucket": "lake", "Prefix": "ws-1/data/t/", "MaxKeys": 1})

        store.connect("ws-1/data/t/")

        aws.assert_no_pending_responses()
