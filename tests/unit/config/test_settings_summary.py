"""The effective configuration in a few lines, as the log begins with it."""

import pytest

from tests.support.environment import BROKER_ALONE, CONNECTION, CREDENTIALS, ON_PLATFORM, connection, load


def test_summary() -> None:
    settings = load(
        HIVE_COLUMNS="year,~driver,place",
        AWS_ENDPOINT_URL="http://s3:9000",
        CATALOG_URL="https://c",
        HTTP_PORT="0",
        SORT_COLUMN="lap",
        COLUMN_TYPES="speed:double",
        METADATA_COLUMNS="__topic,__offset",
    )
    assert settings.summary() == [
        "input: topic sensor-data of localhost:9092",
        "consumer: group s3_direct_sink_v1.0, starts at latest when it has no offsets, exactly-once",
        "records: key str, value json, bad ones: dead-letter",
        "silence: not watched",
        "store: s3://lake/data/sensor-data, http://s3:9000, region us-east-1, keys from the machine's role or profile",
        "partitions: year / ~driver / place, missing values in auto, time from ts_ms in UTC",
        "files: zstd, row groups of 1,000,000 rows, ordered by lap, fixed types for speed, with __topic, __offset",
        "catalog: https://c, without a token, namespace default, tables are created and files registered",
        "writing: batches of 1,000 rows, commit every 30 s, 10 uploads at once, buffer 256 MB",
        "spark: local[*], heap 1,024 MB",
        "memory: no limit found, the settings need 1,630 MB",
        "health: off, log level INFO",
    ]


def test_summary_of_what_is_usually_off() -> None:
    lines = load(STREAM_TIMEOUT_MS="5000", STREAM_TIMEOUT_TOPIC="quiet", LOG_FORMAT="JSON", S3_SSE="aes256").summary()
    assert "silence: a key is silent after 5,000 ms, announced on topic quiet" in lines
    assert "health: 127.0.0.1:8080, log level INFO, as JSON" in lines
    assert next(line for line in lines if line.startswith("store: ")).endswith(", encrypted with AES256")


@pytest.mark.parametrize(
    ("variables", "access"),
    [
        ({"STORAGE_URL": "gs://lake"}, "credentials from Google's default chain"),
        ({"STORAGE_URL": "gs://lake", "GCS_CREDENTIALS_JSON": CREDENTIALS}, "credentials as set"),
        ({"STORAGE_URL": "az://lake", "AZURE_STORAGE_CONNECTION_STRING": "hush"}, "connection string as set"),
        ({"STORAGE_URL": "az://lake", "AZURE_STORAGE_ACCOUNT": "acme"}, "account acme, the machine's identity"),
        (
            {"STORAGE_URL": "az://lake", "AZURE_STORAGE_ACCOUNT": "acme", "AZURE_STORAGE_KEY": "hush"},
            "account acme, key as set",
        ),
        (
            {
                "STORAGE_URL": "az://lake",
                "AZURE_STORAGE_ACCOUNT": "acme",
                "AZURE_STORAGE_SAS_TOKEN": "hush",
                "AZURE_ENDPOINT_URL": "https://acme.example.com",
            },
            "https://acme.example.com, SAS token as set",
        ),
    ],
)
def test_summary_of_other_clouds(variables: dict[str, str], access: str) -> None:
    lines = load(BROKER_ALONE, **variables).summary()
    assert f"store: {variables['STORAGE_URL']}/data/sensor-data, {access}" in lines
    assert "hush" not in "\n".join(lines)


def test_summary_on_the_platform() -> None:
    local = connection("Local", LocalStorage={"DirectoryPath": "/lake"})
    lines = load(ON_PLATFORM, AUTO_DISCOVER="false", CATALOG_URL="https://c", **{CONNECTION: local}).summary()
    assert lines[0] == "input: topic sensor-data of the Quix workspace"
    assert "store: file:///lake/acme-prod/data-lake/time-series/sensor-data, a local folder" in lines
    assert "partitions: none" in lines
    assert "catalog: https://c, without a token, namespace default, nothing is registered" in lines
