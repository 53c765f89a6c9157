"""What other systems repeat is shown without secrets, in whatever form they write them."""

import base64
import html
import json
import logging
from collections.abc import Callable
from urllib.parse import quote

import pytest

from app import redaction
from app.errors import FatalError, cut, last_words
from app.logs import JsonFormatter, RecentWarnings, TextFormatter
from app.redaction import add_login, add_secrets, redact

SECRET = "hunter2/+'of=ours&more"


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_known", {})
    monkeypatch.setattr(redaction, "_issued", {})


@pytest.mark.parametrize("note", [add_secrets, lambda secret: add_login(f"Bearer {secret}")], ids=["ours", "issued"])
@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET, safe=""),
        quote(SECRET),
        quote(SECRET, safe="").lower(),
        json.dumps(SECRET)[1:-1],
        SECRET.replace("/", "\\/"),
        SECRET.replace("=", "\\u003d").replace("+", "\\u002B"),
        html.escape(SECRET),
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
        SECRET.encode().hex(),
    ],
)
def test_a_secret_is_hidden_in_each_form(note: Callable[[str], None], form: str) -> None:
    note(SECRET)
    assert redact(f"no {form}, sorry").rstrip("=") in ("no ***, sorry", "no ***=, sorry", "no ***==, sorry")


@pytest.mark.parametrize(
    "document",
    [
        '{"SecretAccessKey": "inside-of-it", "BucketName": "the-bucket"}',
        "AccountName=the-bucket;AccountKey=inside-of-it;EndpointSuffix=core.windows.net",
        '{"sasl.oauthbearer.client.secret": "inside-of-it"}',
        '{"private_key": "inside-of-it", "x": "the-bucket"}',
        "BlobEndpoint=https://the-bucket;SharedAccessSignature=inside-of-it",
    ],
)
def test_secrets_inside_of_documents_are_known(document: str) -> None:
    add_secrets(document)
    assert redact("the-bucket refuses inside-of-it") == "the-bucket refuses ***"


def test_a_login_that_was_issued_is_hidden_from_its_first_use_on() -> None:
    add_login("Bearer issued-just-now")
    add_login("AWS4-HMAC-SHA256 Credential=x, Signature=each-time-another")
    add_login(None)
    assert redact("issued-just-now, each-time-another") == "***, each-time-another"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see https://me:pw@h.example:1/a/b?sig=abc#d now", "see https://h.example:1/a/b now"),
        ("az://lake/data/x=1/part.parquet", "az://lake/data/x=1/part.parquet"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZDEyMzQ=", "Authorization: Basic ***"),
        ('{"access_token": "eyJhbGciOiJIUzI1NiJ9.e30.abc"}', '{"access_token": "***"}'),
        ("basic authentication failed", "basic authentication failed"),
        ("token: it has expired", "token: it has expired"),
        ("The specified key: data/sensors/part-1.parquet", "The specified key: data/sensors/part-1.parquet"),
    ],
)
def test_what_looks_like_a_login_is_hidden(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize("text", ["a." * 300_000, "token" * 100_000, "bearer " * 100_000, "x@" * 300_000])
def test_long_texts_come_to_an_end(text: str) -> None:
    assert redact(text) == text


def test_short_secrets_garble_no_message() -> None:
    add_secrets("admin", "lakelake", None, "")
    assert redact("admin of lakelake") == "admin of ***"
    add_secrets("secret")
    assert redact("secretary, secret") == "secretary, ***"


def test_errors_log_and_page_hide_what_the_other_side_says() -> None:
    add_secrets(SECRET)
    error = FatalError(f"writing {SECRET}", f"no {SECRET}", f"not {SECRET}")
    assert (error.cause, error.hint) == ("no ***", "not ***")
    record = logging.LogRecord(
        "library", logging.WARNING, "", 0, "retrying %s", (SECRET,), (ValueError, ValueError(SECRET), None)
    )
    page = RecentWarnings()
    page.emit(record)
    shown = [page.newest_first()[0].message, TextFormatter().format(record), JsonFormatter().format(record)]
    assert not [text for text in shown if "hunter2" in text]


def test_no_part_of_a_secret_is_shown_where_a_text_is_cut() -> None:
    add_secrets(SECRET)
    texts = [cut(f"{' ' * before}{SECRET} is refused", 40) for before in range(40)]
    assert [text for text in texts if "hun" in text] == []


def test_a_token_is_hidden_though_the_words_before_it_are_left_out() -> None:
    assert last_words(OSError("no such login: token: eyJhbGciOiJIUzI1NiJ9")) == "***"
