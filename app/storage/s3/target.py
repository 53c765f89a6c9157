"""The address of a bucket and the access to it. No SDK is imported: settings are read before one is loaded."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class S3Target:
    """A bucket on AWS or on another S3 store.

    Attributes:
        bucket: the bucket's name.
        region: the bucket's region; also where a missing bucket is created.
        endpoint_url: the address of a store other than AWS.
        access_key: with ``secret_key``, fixed keys; without both, boto3's default chain (environment, files, role).
        secret_key: see ``access_key``.
        session_token: goes with temporary keys.
        may_create: whether to create a missing bucket.
    """

    bucket: str
    region: str
    endpoint_url: str | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    may_create: bool = False

    @property
    def uri(self) -> str:
        """``s3://bucket``, on whatever endpoint: what readers and the catalog expect of every S3-compatible store."""
        return f"s3://{self.bucket}"
