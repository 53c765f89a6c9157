"""What an S3 store says, for a canned server to say it."""

from collections.abc import Mapping

from app.storage.s3.store import S3Store
from app.storage.targets import S3Target
from tests.fakes.canned_server import Answer

SECRET = "s3cr3t/K3y+that=stays"


def written(etag: str) -> Answer:
    return Answer(200, headers={"ETag": etag})


def holds(body: bytes, etag: str) -> Answer:
    return Answer(200, body, {"ETag": etag})


def listing(*names: str, after: str = "", headers: Mapping[str, str] | None = None) -> Answer:
    """A page of objects of 8 bytes; ``after`` is where the next one begins."""
    objects = "".join(
        f"<Contents><Key>{name}</Key><Size>8</Size><LastModified>2026-01-02T03:04:05.000Z</LastModified></Contents>"
        for name in names
    )
    more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{after}</NextContinuationToken>"
    body = (
        '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>lake</Name>{more if after else '<IsTruncated>false</IsTruncated>'}{objects}</ListBucketResult>"
    )
    return Answer(200, body.encode(), headers or {})


def refusal(
    status: int, code: str, message: str = "Said so.", *, extra: str = "", headers: Mapping[str, str] | None = None
) -> Answer:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message>{extra}</Error>"
    return Answer(status, body.encode(), headers or {})


def s3_store(endpoint_url: str, *, session_token: str | None = None, may_create: bool = False) -> S3Store:
    target = S3Target("lake", "us-east-1", endpoint_url, "AKIA1", SECRET, session_token, may_create)
    return S3Store(target, max_workers=2)
