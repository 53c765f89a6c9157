"""Each help link of the status page, the alerts, the messages and the documents, followed at a monitor's real port."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import pytest
import requests
import yaml

from app import DOCUMENTS
from app.parts.console import documents
from app.parts.console.status_page import render, render_partitions
from tests.support.status_views import VIEWS, served

REPO = Path(__file__).parents[2]
_NAMED = re.compile(r"(\{DOCUMENTS\}|\bdocs)/([\w/-]+\.md)(#[\w-]+)?")


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in {"href", "src"} and value and not value.startswith("data:"):
                self.links.append(value)
            elif name == "id" and value:
                self.anchors.add(value)


@pytest.fixture(scope="module")
def address() -> str:
    return served()


def of_the_status_page() -> Iterator[str]:
    for new_view in VIEWS.values():
        yield from Page(render(new_view())).links
        yield from Page(render_partitions(new_view())).links
    tree = ast.parse((REPO / "app/parts/console/sentences.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Sentence"]
    pages = [call.args[2] for call in calls]
    assert pages
    for page in pages:
        assert isinstance(page, ast.Constant)
        name, mark, heading = str(page.value).partition("#")
        yield f"{DOCUMENTS}/{name}.md{mark}{heading}"


def of_the_alerts(address: str) -> Iterator[str]:
    groups = yaml.safe_load((REPO / "deploy/alerts.yml").read_text())["groups"]
    for annotations in (rule["annotations"] for group in groups for rule in group["rules"] if "alert" in rule):
        instance = address.removeprefix("http://").removesuffix("/")
        yield (
            annotations.get("runbook_url", "").replace("{{ $labels.instance }}", instance)
            or annotations["description"].split()[1]
        )


def of_the_messages() -> Iterator[str]:
    for path in sorted((REPO / "app").rglob("*.py")):
        for of_a_message, page, heading in _NAMED.findall(path.read_text()):
            is_precise = heading or of_a_message == "docs" or page == "settings.md"
            assert is_precise, f"{path} names no section of {page} in a message"
            yield f"{DOCUMENTS}/{page}{heading}"


def dead(address: str, links: Iterator[str]) -> tuple[list[str], int]:
    """Follow these links, and all of the pages that they lead to; what is not there, and how many there are."""
    seen: dict[str, Page | None] = {}
    to_follow = {urljoin(address, link) for link in links}
    followed, missing = set(to_follow), []
    while to_follow:
        link = to_follow.pop()
        url, anchor = urldefrag(link)
        if url not in seen:
            answer = requests.get(url, timeout=60)
            is_there = answer.ok or "/health/" in url or "/table-" in url  # of tables that other views have
            seen[url] = Page(answer.text if "html" in answer.headers["Content-Type"] else "") if is_there else None
            if page := seen[url]:
                found = {urljoin(url, each) for each in page.links}
                to_follow |= {each for each in found if each.startswith(address)} - followed
                followed |= to_follow
        page = seen[url]
        if page is None or (anchor and anchor not in page.anchors):
            missing.append(link)
    return sorted(missing), len(followed)


def test_each_link_that_the_product_shows_leads_to_its_page_and_section(address: str) -> None:
    links = [*of_the_status_page(), *of_the_alerts(address), *of_the_messages()]
    missing, number = dead(address, iter(links))
    assert missing == []
    assert number > len(documents.paths())


def test_behind_a_proxy_with_a_path_links_stay_below_it() -> None:
    page = render(next(iter(VIEWS.values()))())
    assert all(urljoin("http://proxy/sink/", link).startswith("http://proxy/sink/") for link in Page(page).links)


def test_nothing_else_is_served(address: str) -> None:
    connection = HTTPConnection(address.removeprefix("http://").removesuffix("/"), timeout=60)
    for path in (
        "/docs/../main.py",
        "/docs/%2e%2e/main.py",
        "/docs/internals",
        "/docs//README.md",
        "/main.py",
    ):
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 404, path
    connection.close()


def test_the_index_is_found_without_its_slash_also_behind_a_proxy_with_a_path(address: str) -> None:
    answer = requests.get(f"{address}docs", timeout=60)
    [moved] = answer.history
    assert (answer.url, answer.status_code) == (f"{address}docs/", 200)
    assert urljoin("http://proxy/sink/docs", moved.headers["Location"]) == "http://proxy/sink/docs/"


@pytest.mark.parametrize(
    "path", ["README.md", "docs/settings.md", "docs/status-page.png", "docs/deploy/iam-policy.json"]
)
def test_a_document_is_protected_as_the_status_page_is(address: str, path: str) -> None:
    page, status = requests.get(address + path, timeout=60), requests.get(address, timeout=60)
    ours = {name: value for name, value in status.headers.items() if name not in {"content-length", "content-type"}}
    assert page.status_code == 200
    assert dict(page.headers) == dict(page.headers) | ours
    assert requests.head(address + path, timeout=60).status_code == 200
    assert requests.post(address + path, timeout=60).status_code == 405
    assert requests.get(address + path, headers={"Host": "evil.example"}, timeout=60).status_code == 421


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/page.md").write_text(
        "# A `page`\n\n<!-- not for\nreaders -->\n<script>alert(1)</script>\n\n"
        "[there](page.md#two-words) [elsewhere](../app/x.py) [web](https://example.com) [code](javascript:alert(1))\n\n"
        "## Two words!\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n![a picture](../bench/x.svg)\n"
    )
    (tmp_path / "secret.md").write_text("secret")
    (tmp_path / "docs/link.md").symlink_to(tmp_path / "secret.md")
    return tmp_path


def test_a_symbolic_link_and_a_file_elsewhere_are_not_served(root: Path) -> None:
    assert list(documents.paths(root)) == ["/docs/", "/docs/page.md"]


def test_html_in_a_page_is_text_and_links_to_files_that_are_not_served_have_no_address(root: Path) -> None:
    document, kind = documents.read("/docs/page.md", root)
    assert isinstance(document, documents.Document)
    assert (kind, document.title) == ("text/html", "A `page`")
    assert "&lt;script&gt;" in document.html
    assert "not for" not in document.html
    assert "<td>1</td>" in document.html
    assert "<p>a picture</p>" in document.html
    page = Page(document.html)
    assert page.links == ["page.md#two-words", "https://example.com"]
    assert page.anchors == {"a-page", "two-words"}


def told(*arguments: str, **variables: str) -> str:
    environment: Mapping[str, str] = {**os.environ, **variables}
    return subprocess.run(
        [sys.executable, *arguments], cwd=REPO, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_the_address_that_is_set_at_the_build_is_that_of_messages_and_of_the_status_page() -> None:
    elsewhere = "https://example.com/docs"
    shown = told(
        "-c",
        "from tests.support.status_views import VIEWS; from app.parts.console.status_page import render;"
        "print(render(next(iter(VIEWS.values()))()))",
        DOCS_URL=f"{elsewhere}/",
    )
    pages = {urldefrag(link)[0] for link in Page(shown).links}
    assert {f"{elsewhere}/README.md", f"{elsewhere}/operations.md"} <= pages
    assert f"{elsewhere}/settings.md" in told("main.py", "--help", DOCS_URL=elsewhere)
