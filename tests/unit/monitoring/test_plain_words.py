"""Which words of libraries a reader of the page is spared."""

import pytest

from app.monitoring.plain_words import plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "HTTPSConnectionPool(host='s3.example.com', port=443): Max retries exceeded with url: /x?y=1 (Caused by "
            "NewConnectionError('<urllib3.connection.HTTPSConnection object at 0x7f2c3>: Failed to establish a new "
            "connection: [Errno 111] Connection refused'))",
            "s3.example.com:443: Failed to establish a new connection: Connection refused",
        ),
        (
            "HTTPConnectionPool(host='cat', port=80): Max retries exceeded with url: /v1 (Caused by "
            'NameResolutionError("<urllib3.connection.HTTPConnection object at 0x7f>: Failed to resolve '
            "'cat' ([Errno -2] Name or service not known)\"))",
            "cat:80: Failed to resolve 'cat' (Name or service not known)",
        ),
        (
            "('Connection aborted.', RemoteDisconnected('Remote end closed connection without response'))",
            "Remote end closed connection without response",
        ),
        (
            'KafkaError{code=_TRANSPORT,val=-195,str="Local: Broker transport failure"}',
            "the connection to the broker failed",
        ),
        (
            "FAIL [rdkafka#consumer-2] [thrd:sasl_plaintext://kafka:9092/bootstrap]: "
            "sasl_plaintext://kafka:9092/bootstrap: Connect to ipv4#10.0.0.1:9092 failed: Connection refused (after "
            "0ms in state CONNECT, 29 identical error(s) suppressed)",
            "kafka:9092: Connect to 10.0.0.1:9092 failed: Connection refused",
        ),
        ("KafkaException: _ALL_BROKERS_DOWN: 1/1 brokers are down", "1/1 brokers are down"),
        ("writing: ConnectionRefusedError(111, 'Connection refused')", "writing: Connection refused"),
        ("not caught: ValueError('bad'). Please report this as a bug", "not caught: bad. Please report this as a bug"),
    ],
)
def test_what_is_left_out(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "uploading s3://lake/data/_dead_letter/t/a.parquet: 503 SlowDown: Please reduce your request rate",
        "InternalError: We encountered an internal error",  # the store's own code
        "Set HIVE_COLUMNS, COLUMN_TYPES or __key; values are in _rescued_data and _TIMES",
        "",
    ],
)
def test_what_stays(text: str) -> None:
    assert plain(text) == text
