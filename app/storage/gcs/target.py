"""The address of a bucket and the access to it. No SDK is imported: settings are read before one is loaded."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class GcsTarget:
    """A bucket of Google Cloud Storage.

    Attributes:
        bucket: the bucket's name.
        credentials_json: the text of a service account's key; without it, the default chain of Google's libraries (a
            file, workload identity, the machine's own service account).
        may_create: whether to create a missing bucket.
    """

    bucket: str
    credentials_json: str | None = field(default=None, repr=False)
    may_create: bool = False

    @property
    def uri(self) -> str:
        """``gs://bucket``."""
        return f"gs://{self.bucket}"
