"""What a store makes of conditional writes is found out at start, where it says nothing by itself."""

from collections.abc import Callable

import pytest

from app.storage.base import ChangedError
from app.storage.conditional import try_out
from app.storage.s3.store import S3Store
from dev.minio import LocalMinio
from tests.services.no_conditions import ignoring_conditions, ignoring_conditions_of_parts, replacing_nothing

Make = Callable[..., S3Store]


def test_a_store_that_replaces_no_version_with_a_condition_is_written_without(
    s3_store: Make, s3_server: LocalMinio, bucket: str, caplog: pytest.LogCaptureFixture
) -> None:
    with replacing_nothing(s3_server) as proxy:
        store = s3_store(bucket, endpoint_url=proxy.url)
        try_out(store, "t/_journal/")
        first = store.write("t/x", b"1", replaces=None)
        assert store.write("t/x", b"2", replaces=first)
    assert [message for message in caplog.messages if "does not support conditional writes" in message]


@pytest.mark.parametrize(
    "ignored", [("if-match",), ("if-none-match",), ("if-match", "if-none-match")], ids=" and ".join
)
def test_a_condition_that_is_ignored_is_noticed(
    s3_store: Make, s3_server: LocalMinio, bucket: str, ignored: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    with ignoring_conditions(s3_server, *ignored) as proxy:
        store = s3_store(bucket, endpoint_url=proxy.url)
        store.probe_conditions("t/_journal/")

        first = store.write("t/x", b"1", replaces=None)
        store.write("t/x", b"2", replaces=first)
        for gone in (first, None):
            with pytest.raises(ChangedError):
                store.write("t/x", b"3", replaces=gone)

    assert [message for message in caplog.messages if "does not support conditional writes" in message]


def test_a_condition_that_is_ignored_for_parts_is_noticed(
    s3_store: Make, s3_server: LocalMinio, bucket: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The journal keeps to conditions; large files would overwrite placeholders."""
    with ignoring_conditions_of_parts(s3_server) as proxy:
        store = s3_store(bucket, endpoint_url=proxy.url)
        store.probe_conditions("t/_journal/")

        assert not store.refuses_overwrites
        first = store.write("t/x", b"1", replaces=None)
        with pytest.raises(ChangedError):
            store.write("t/x", b"3", replaces=None)
        assert store.write("t/x", b"2", replaces=first)
    assert "ignores conditions of multipart uploads" in caplog.text
