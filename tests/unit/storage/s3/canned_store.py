"""A store whose answers are canned, for tests of its requests."""

from app.storage.s3.store import S3Store
from app.storage.s3.target import S3Target


def store(endpoint_url: str) -> S3Store:
    return S3Store(
        S3Target(
            "lake",
            region="us-east-1",
            endpoint_url=endpoint_url,
            access_key="AKIA1",
            secret_key="s3cr3t",
        ),
        max_workers=2,
    )
