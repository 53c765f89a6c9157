"""The way to the catalog: silence, names, TLS, tokens and proxies."""

import os
import socket
from pathlib import Path

import pytest

from app.catalog.base import NotTakenError
from app.errors import ConfigError, FatalError, RetryableError
from app.parts.http.rest_client import Patience
from app.parts.quix.catalog import QuixCatalog
from app.parts.quix.catalog_address import QuixTarget
from tests.fakes.catalog_server import CatalogServer, Trouble
from tests.unit.parts.quix.catalog_bench import error_of_registering


def test_a_catalog_that_does_not_answer_in_time_is_retryable(server: CatalogServer) -> None:
    server.trouble(Trouble(delay=600))
    catalog = QuixCatalog(QuixTarget(server.url, server.token, "default", "sensors"), patience=Patience(20, 0.1, 20))

    assert error_of_registering(catalog, RetryableError).cause == "no answer within 0.1 s"


def test_a_catalog_that_is_not_there_is_retryable_and_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    with pytest.raises(NotTakenError, match=f"catalog at http://127.0.0.1:{port}/api.*refused.*CATALOG_URL"):
        QuixCatalog(QuixTarget(f"http://127.0.0.1:{port}/api", "token", "default", "sensors")).check()


def test_https_to_a_server_that_speaks_http_names_the_setting(server: CatalogServer) -> None:
    url = server.url.replace("http:", "https:")

    with pytest.raises(FatalError, match="https:// in CATALOG_URL"):
        QuixCatalog(QuixTarget(url, server.token, "default", "sensors")).check()


def test_what_the_catalog_says_is_one_line_that_steers_no_terminal(server: CatalogServer, catalog: QuixCatalog) -> None:
    server.trouble(Trouble(status=401, body=b'{"error": "no\\u001b[2J\\u0085INFO app: all is well \\u202egpj"}'))

    message = str(error_of_registering(catalog, FatalError))
    assert "no\\u001b[2J" in message
    assert "\\u202egpj" in message
    assert message.isprintable()


@pytest.mark.parametrize("token", ["t0ken\n", "t0k en", "t0kén"])
def test_a_token_that_cannot_be_sent_is_named_and_not_shown(token: str) -> None:
    with pytest.raises(ConfigError, match="CATALOG_AUTH_TOKEN contains a blank") as caught:
        QuixCatalog(QuixTarget("http://127.0.0.1", token, "default", "sensors"))

    assert token.strip() not in str(caught.value)


def test_our_token_is_sent_though_a_netrc_file_knows_another(
    server: CatalogServer, catalog: QuixCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(netrc))

    catalog.check()


def test_a_proxy_of_the_environment_is_used(server: CatalogServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    server.trouble(Trouble(status=418))

    with pytest.raises(FatalError, match="418"):
        QuixCatalog(QuixTarget("http://catalog.invalid/api", "token", "default", "sensors")).check()

    assert server.requests[0].path == "http://catalog.invalid/api/health"


def test_a_proxy_is_not_used_for_hosts_that_are_excepted(
    server: CatalogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://no-such-proxy.invalid")
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    QuixCatalog(QuixTarget(server.url, server.token, "default", "sensors")).check()


def test_a_bundle_of_authorities_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "missing.pem"))
    monkeypatch.setenv("no_proxy", "*")

    with pytest.raises(FatalError, match=f"{os.sep}missing.pem.*REQUESTS_CA_BUNDLE"):
        QuixCatalog(QuixTarget("https://127.0.0.1:9", "token", "default", "sensors")).check()
