"""Names of variables that are near to ours, and ordinary ones that must not be taken for them."""

import os
from pathlib import Path
from unittest.mock import patch

import pytest

from app.config.environment import misspelled
from app.config.settings import VARIABLES, SettingsError, load_settings, remarks
from tests.support.environment import ENOUGH, load, problems

KNOWN = frozenset(name + ending for name in VARIABLES for ending in ("", "_FILE"))
LISTED = (Path(__file__).parent / "ordinary_variables.txt").read_text().splitlines()
ORDINARY = [name for line in LISTED if not line.startswith("#") for name in line.split()]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("HIVECOLUMNS", "HIVE_COLUMNS"),
        ("hive_columns", "HIVE_COLUMNS"),
        ("HVIE_COLUMNS", "HIVE_COLUMNS"),
        ("KAFKA_BOOSTRAP_SERVER", "KAFKA_BOOTSTRAP_SERVERS"),
        ("KAFKA_SASL_USER_NAME", "KAFKA_SASL_USERNAME"),
        ("S3BUCKET", "S3_BUCKET"),
        ("AWS_ACCES_KEY_ID", "AWS_ACCESS_KEY_ID"),
        ("AWS_ENDPOINT_URLS", "AWS_ENDPOINT_URL"),
        ("LOG_LEVEL", "LOGLEVEL"),
        ("KAFKA_SASL_PASWORD_FILE", "KAFKA_SASL_PASSWORD_FILE"),
        ("KAFKA_SASL_PASSWORDFILE", "KAFKA_SASL_PASSWORD_FILE"),
        ("TIMESTAMP_COL", None),
        ("CATALOG_URI", "CATALOG_URL"),
        ("Quix__Sdk__Tokens", None),
        ("S3_SSL", None),
    ],
)
def test_a_name_near_to_a_known_one(name: str, meant: str | None) -> None:
    assert misspelled([name, "PATH"], KNOWN) == ({name: meant} if meant else {})


def test_no_ordinary_and_no_known_name_is_reported() -> None:
    assert len(ORDINARY) > 250
    assert misspelled([*ORDINARY, *KNOWN], KNOWN) == {}


def test_the_remark_names_both_and_no_value() -> None:
    with patch.dict(os.environ, {**ENOUGH, "HIVECOLUMNS": "hush"}, clear=True):
        assert remarks() == ("HIVECOLUMNS is set and not known: did you mean HIVE_COLUMNS?",)


def test_wrong_settings_are_shown_with_what_may_have_led_to_them() -> None:
    environment = {"KAFKA_BOOTSTRAP_SERVERS": "a:1", "S3_BUKET": "hush"}
    with patch.dict(os.environ, environment, clear=True), pytest.raises(SettingsError) as caught:
        load_settings()
    first, missing, remark = str(caught.value).splitlines()
    assert first == "1 setting is wrong:"
    assert missing.startswith("  - S3_BUCKET: must be set")
    assert remark == "S3_BUKET is set and not known: did you mean S3_BUCKET?"


class TestQuotes:
    @pytest.mark.parametrize(
        ("variable", "value"),
        [
            ("BATCH_SIZE", '"1000"'),
            ("S3_BUCKET", "'my-bucket'"),
            ("HIVE_COLUMNS", '"year,month"'),
            ("SORT_COLUMN", '""'),
            ("Quix__Broker__Address", '"kafka:9092"'),
        ],
    )
    def test_around_a_value_are_named(self, variable: str, value: str) -> None:
        (problem,) = problems(**{variable: value})
        assert problem.startswith(f"{variable}=")
        assert problem.endswith(": the value is in quotes; docker's env files keep them: remove them")

    def test_around_a_password_are_a_remark_because_they_may_belong_to_it(self) -> None:
        environment = {**ENOUGH, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": '"hush"'}
        with patch.dict(os.environ, environment, clear=True):
            assert load_settings().aws_secret_access_key is not None
            (remark,) = remarks()
        assert remark == (
            "AWS_SECRET_ACCESS_KEY: the value is in quotes; docker's env files keep them: remove them, "
            "unless they belong to it"
        )

    @pytest.mark.parametrize("value", ['a"b"', "'", '"a'])
    def test_elsewhere_in_a_value_belong_to_it(self, value: str) -> None:
        assert load(SORT_COLUMN=value).sort_column == value


def test_a_command_without_kafka_needs_a_store_alone_and_a_broker_that_is_right_if_there_is_one() -> None:
    with patch.dict(os.environ, {"S3_BUCKET": "lake"}, clear=True):
        assert load_settings(needs_broker=False).storage.uri == "s3://lake"
        for wrong in ({"S3_BUCKET": ""}, {"KAFKA_BOOTSTRAP_SERVERS": "nohost"}):
            with patch.dict(os.environ, wrong), pytest.raises(SettingsError) as caught:
                load_settings(needs_broker=False)
            (problem,) = caught.value.problems
            assert problem.startswith(next(iter(wrong)))
