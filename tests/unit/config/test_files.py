"""A value may be in a file, as secrets of containers are."""

import json
import os
from pathlib import Path

import pytest

from tests.support.environment import load, problems

KEY = {"AWS_ACCESS_KEY_ID": "key"}


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
    [(None, "cannot be read: No such file"), (b"\xff", "cannot be read: it is no text in UTF-8")],
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
        "AWS_SECRET_ACCESS_KEY: must not be set together with AWS_SECRET_ACCESS_KEY_FILE: one of the two is enough"
    )


def test_what_could_be_read_for_ever_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long").write_bytes(b"x" * (2**20 + 1))
    for name, cause in (("pipe", "it is no file"), ("long", "it has more than 1 MB")):
        (problem,) = problems(TABLE_NAME_FILE=str(tmp_path / name))
        assert problem == f"TABLE_NAME: TABLE_NAME_FILE={tmp_path / name} cannot be read: {cause}"


def test_a_mark_of_the_byte_order_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("1000", encoding="utf-8-sig")
    assert load(BATCH_SIZE_FILE=str(tmp_path / "rows")).batch_size == 1000
