"""What only stores of S3's protocol do: conditions that some do not know, rights, buckets that are created."""

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest

from app.errors import FatalError, RetryableError
from app.storage.base import ChangedError
from tests.fakes.canned_server import Answer, CannedServer
from tests.fakes.raw_server import raw_server
from tests.fakes.s3_answers import holds, listing, refusal, s3_store, written

KEY = "t/_journal/schema.json"
OURS = b"PAR1"
WRITTEN = written('"2"')
UNKNOWN = refusal(501, "NotImplemented")
CHANGED = refusal(412, "PreconditionFailed")
MISSING = refusal(404, "NoSuchKey")
BROKEN = refusal(500, "InternalError")


class TestWithoutConditions:
    def test_an_object_is_read_and_checked_first_and_that_is_told_once(self, caplog: pytest.LogCaptureFixture) -> None:
        old, ours = holds(b"old", '"1"'), holds(OURS, '"2"')
        with (
            CannedServer(UNKNOWN, old, WRITTEN, ours, written('"4"')) as server,
            caplog.at_level(logging.WARNING, "app"),
        ):
            store = s3_store(server.url)
            assert store.write(KEY, OURS, replaces='"1"') == '"2"'
            assert store.write(KEY, b"next", replaces='"2"') == '"4"'

        assert server.methods == ["PUT", "GET", "PUT", "GET", "PUT"]
        assert server.requests[-1].conditions == {}
        (warning,) = caplog.messages
        assert "s3://lake does not support conditional writes" in warning

    @pytest.mark.parametrize("found", [holds(b"theirs", '"3"'), MISSING])
    def test_what_others_wrote_is_kept(self, found: Answer) -> None:
        with CannedServer(UNKNOWN, found, found) as server, pytest.raises(ChangedError):
            s3_store(server.url).write(KEY, OURS, replaces='"1"')
        assert server.methods == ["PUT", "GET", "GET"]

    def test_a_lost_answer_is_found_out(self) -> None:
        with CannedServer(UNKNOWN, holds(b"old", '"1"'), *[BROKEN] * 3, holds(OURS, '"2"')) as server:
            assert s3_store(server.url).write(KEY, OURS, replaces='"1"') == '"2"'

    def test_a_file_is_uploaded_whatever_is_there(self, file: Path) -> None:
        with CannedServer(UNKNOWN, MISSING, WRITTEN, WRITTEN) as server:
            store = s3_store(server.url)
            for _ in range(2):
                store.upload(file, KEY)
        assert not store.refuses_overwrites
        assert [request.headers.get("if-none-match") for request in server.requests] == ["*", None, None, None]

    def test_a_store_that_has_shown_conditions_is_written_with_them_whoever_says_that_it_has_none(self) -> None:
        begun = Answer(200, b"<InitiateMultipartUploadResult><UploadId>one</UploadId></InitiateMultipartUploadResult>")
        in_parts = (begun, WRITTEN, CHANGED, Answer(204))
        probed = (WRITTEN, WRITTEN, CHANGED, CHANGED, *in_parts, holds(OURS, '"2"'), Answer(204))
        with CannedServer(*probed, UNKNOWN, holds(b"old", '"1"')) as server:
            store = s3_store(server.url)
            store.probe_conditions("t/")
            with pytest.raises(RetryableError, match="not implemented, and they were at the start"):
                store.write(KEY, OURS, replaces='"1"')
        assert server.methods[len(probed) :] == ["PUT", "GET"]


def test_who_may_not_list_the_whole_bucket_hears_403_of_what_is_not_there() -> None:
    with CannedServer(refusal(403, "AccessDenied"), listing("t/other")) as server:
        assert s3_store(server.url).read(KEY) is None


def test_a_listing_without_a_way_to_its_next_page_is_no_listing() -> None:
    """As of a store that does not know the second version of the request."""
    first = listing("t/a", after="more")
    cut = replace(first, body=first.body.replace(b"NextContinuationToken", b"NextMarker"))
    with CannedServer(cut) as server, pytest.raises(RetryableError, match="not the listing of a bucket"):
        list(s3_store(server.url).list("t/"))


def test_another_replica_that_creates_the_bucket_first_does_no_harm() -> None:
    ours = refusal(409, "BucketAlreadyOwnedByYou")

    with CannedServer(refusal(404, "NoSuchBucket"), ours, listing()) as server:
        s3_store(server.url, may_create=True).connect("")

    assert server.methods == ["GET", "PUT", "GET"]


def test_an_object_that_breaks_off_can_be_read_again_and_leaves_no_half_copy(tmp_path: Path) -> None:
    with raw_server(b'HTTP/1.1 200 OK\r\nETag: "2"\r\nContent-Length: 100\r\n\r\nhalf of it') as port:
        store = s3_store(f"http://127.0.0.1:{port}")
        with pytest.raises(RetryableError, match="reading s3"):
            store.read(KEY)
        with pytest.raises(RetryableError, match="downloading s3"):
            store.download(KEY, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(
    ("scheme", "answer"), [("http", b""), ("http", b"\x15\x03\x01\x00\x02\x02\x28"), ("https", b"")]
)
def test_a_connection_that_is_cut_is_retryable(file: Path, scheme: str, answer: bytes) -> None:
    with raw_server(answer) as port, pytest.raises(RetryableError, match=r"uploading s3://lake/t/x\.parquet"):
        s3_store(f"{scheme}://127.0.0.1:{port}").upload(file, "t/x.parquet")


def test_https_to_a_server_without_it_is_fatal(file: Path) -> None:
    with raw_server(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port, pytest.raises(FatalError, match="AWS_ENDPOINT_URL"):
        s3_store(f"https://127.0.0.1:{port}").upload(file, "t/x.parquet")


def test_threads_that_list_what_they_may_not_read_do_not_wait_for_each_other() -> None:
    """Each has one of four connections, and needs it for both requests."""
    gate = Barrier(4)
    with CannedServer(refusal(403, "AccessDenied"), before=gate.wait) as server, ThreadPoolExecutor(4) as threads:
        store = s3_store(server.url)
        found = [threads.submit(store.read, KEY) for _ in range(4)]
        assert all(isinstance(each.exception(), FatalError) for each in found)
