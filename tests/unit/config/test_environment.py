"""What the environment has beside the variables: values in files, and names that are nearly ours."""

import json
import os
from pathlib import Path
from unittest.mock import patch

import pytest

from app.config.environment import SettingsError, load_settings, misspelled, remarks
from app.config.settings import VARIABLES
from tests.support.environment import ENOUGH, load, problems

KEY = {"AWS_ACCESS_KEY_ID": "key"}
KNOWN = frozenset(name + ending for name in VARIABLES for ending in ("", "_FILE"))
LISTED = (Path(__file__).parent / "ordinary_variables.txt").read_text().splitlines()
ORDINARY = [name for line in LISTED if not line.startswith("#") for name in line.split()]


def test_a_secret_is_read_from_its_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hush-hush\n")
    settings = load(AWS_SECRET_ACCESS_KEY_FILE=str(secret), **KEY)
    assert settings.aws_secret_access_key == "hush-hush"
    assert "hush" not in json.dumps(settings.summary())


def test_a_value_in_a_file_is_checked_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("many")
    (problem,) = problems(BATCH_SIZE_FILE=str(tmp_path / "rows"))
    assert problem == "BATCH_SIZE: must be a valid integer, unable to parse string as an integer"


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "cannot be read: No such file"), (b"\xff", "cannot be read: it is not text in UTF-8")],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    found = problems(AWS_SECRET_ACCESS_KEY_FILE=str(path), **KEY)
    assert [
        line for line in found if line.startswith(f"AWS_SECRET_ACCESS_KEY: AWS_SECRET_ACCESS_KEY_FILE={path} {problem}")
    ]


def test_a_value_and_a_file_are_not_given_both(tmp_path: Path) -> None:
    (problem,) = problems(AWS_SECRET_ACCESS_KEY="hush", AWS_SECRET_ACCESS_KEY_FILE="/secret", **KEY)
    assert problem == (
        "AWS_SECRET_ACCESS_KEY: must not be set together with AWS_SECRET_ACCESS_KEY_FILE: set only one of them"
    )


def test_what_could_be_read_for_ever_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long").write_bytes(b"x" * (2**20 + 1))
    for name, cause in (("pipe", "it is not a file"), ("long", "it has more than 1 MB")):
        (problem,) = problems(TABLE_NAME_FILE=str(tmp_path / name))
        assert problem == f"TABLE_NAME: TABLE_NAME_FILE={tmp_path / name} cannot be read: {cause}"


def test_a_mark_of_the_byte_order_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("1000", encoding="utf-8-sig")
    assert load(BATCH_SIZE_FILE=str(tmp_path / "rows")).batch_size == 1000


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("HIVECOLUMNS", "HIVE_COLUMNS"),
        ("hive_columns", "HIVE_COLUMNS"),
        ("HVIE_COLUMNS", "HIVE_COLUMNS"),
        ("KAFKA_BOOSTRAP_SERVER", "KAFKA_BOOTSTRAP_SERVERS"),
        ("AWS_ENDPOINT_URLS", "AWS_ENDPOINT_URL"),
        ("LOG_LEVEL", "LOGLEVEL"),
        ("KAFKA_SASL_PASWORD_FILE", "KAFKA_SASL_PASSWORD_FILE"),
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


def test_wrong_settings_are_shown_with_what_may_have_led_to_them() -> None:
    environment = {"KAFKA_BOOTSTRAP_SERVERS": "a:1", "S3_BUKET": "hush"}
    with patch.dict(os.environ, environment, clear=True), pytest.raises(SettingsError) as caught:
        load_settings()
    first, missing, remark = str(caught.value).splitlines()
    assert first == "1 setting is wrong:"
    assert missing.startswith("  - S3_BUCKET: must be set")
    assert remark == "S3_BUKET is set but unknown: did you mean S3_BUCKET?"


class TestQuotes:
    @pytest.mark.parametrize(
        ("variable", "value"),
        [
            ("BATCH_SIZE", '"1000"'),
            ("S3_BUCKET", "'my-bucket'"),
            ("SORT_COLUMN", '""'),
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
