"""A bucket of Google Cloud Storage: checks that it is there, lists it, creates it."""

import logging
from collections.abc import Iterator
from functools import cached_property
from typing import Final

from google.api_core.exceptions import Conflict, GoogleAPICallError, NotFound
from google.cloud.storage import Blob, Bucket

from app.errors import ConfigError, FatalError, RetryableError
from app.storage.gcs.client import Limits, new_client
from app.storage.gcs.errors import PROXY_HINT, message_of, translated
from app.storage.gcs.target import GcsTarget

logger = logging.getLogger(__name__)

GONE_HINT: Final = "Check STORAGE_URL; if the bucket was deleted, create it again and restart"

_LISTED = "kind,nextPageToken,items(name,size,timeCreated)"
_NO_LISTING = "the answer is not the listing of a bucket"


class GcsBucket:
    """One bucket; nothing is asked of the network before its first use.

    Args:
        target: the bucket, and the access to it.
        max_workers: how many threads will use it at once; sizes the connection pool.
        limits: time-outs and tries.

    Attributes:
        asked: what every request of the library is given.
    """

    def __init__(self, target: GcsTarget, *, max_workers: int, limits: Limits) -> None:
        self._target = target
        self._max_workers = max_workers
        self.asked = limits.of_request()

    @property
    def uri(self) -> str:
        """``gs://bucket``."""
        return self._target.uri

    def blob(self, key: str, chunk_size: int | None = None) -> Blob:
        """The library's handle of an object, which need not be there; ``chunk_size``: bytes of one request."""
        return self._bucket.blob(key, chunk_size=chunk_size)

    def pages(self, prefix: str, doing: str, max_results: int | None = None) -> Iterator[Iterator[Blob]]:
        """The pages of a listing, each sure to be one: a web page must not look like an empty folder."""
        listing = self._bucket.client.list_blobs(
            self._bucket, prefix=prefix, fields=_LISTED, max_results=max_results, **self.asked
        )
        pages = listing.pages
        while True:
            try:
                page = next(pages, None)
            except AttributeError as error:  # the library takes for a page whatever JSON comes, and nothing at all
                raise RetryableError(doing, _NO_LISTING, PROXY_HINT) from error
            if page is None:
                return
            if page.raw_page.get("kind") != "storage#objects":
                raise RetryableError(doing, _NO_LISTING, PROXY_HINT)
            yield page

    def try_listing(self, prefix: str, doing: str) -> None:
        """Ask for one object below the prefix.

        Raises:
            NotFound: there is no such bucket.
        """
        next(self.pages(prefix, doing, max_results=1), None)

    def require(self, key: str, doing: str, error: GoogleAPICallError) -> None:
        """Tell a bucket that is gone from an object that is not there: only the message differs, if it says anything.

        Raises:
            FatalError: the bucket is gone.
        """
        if message_of(error).startswith("No such object"):
            return
        try:
            self.try_listing(key, doing)
        except NotFound as gone:
            raise FatalError(doing, "there is no such bucket", GONE_HINT) from gone

    def create(self) -> None:
        """Create the bucket in the project of the credentials.

        Raises:
            ConfigError: they name none, or the name is taken.
        """
        doing = f"creating the bucket {self.uri}"
        client = self._bucket.client
        if client.project is None:
            hint = "Create the bucket yourself, or set GOOGLE_CLOUD_PROJECT to the project it shall belong to"
            raise ConfigError(doing, "the credentials name no project", hint)
        with translated(doing):
            try:
                made = client.create_bucket(self._bucket, **self.asked)
            except Conflict as error:
                if "you already own it" in message_of(error):
                    return  # another replica was quicker
                hint = "The name is taken by another project; choose another one in STORAGE_URL"
                raise ConfigError(doing, message_of(error), hint) from error
        logger.info("Created the bucket %s in %s", self.uri, made.location)

    @cached_property
    def _bucket(self) -> Bucket:
        """With a client that is made at the first use: a machine's own credentials are asked for over the network."""
        doing = f"connecting to {self.uri}"
        client = new_client(self._target.credentials_json, self._max_workers, doing)
        try:
            return client.bucket(self._target.bucket)
        except ValueError as error:
            raise ConfigError(doing, str(error), "Set STORAGE_URL to gs:// and the name of a bucket") from error
