"""The status page in each state of the connector, and documents, as Chromium shows it on a desk and on a phone."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.parts.console.shown_status import of_tables
from app.parts.console.status_page import render, render_partitions, render_tables
from dev.browser import Browser
from tests.support.status_views import VIEWS, served, several

TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
HEADLINE_ENDS = "document.querySelector('.top').getBoundingClientRect().bottom"
DESK, PHONE = (1_280, 800), (390, 844)


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("name", VIEWS)
def test_the_headline_is_on_the_first_screen_and_nothing_is_cut_off(
    browser: Browser, tmp_path: Path, name: str, size: tuple[int, int]
) -> None:
    width, height = size
    page = tmp_path / "page.html"
    page.write_text(render(VIEWS[name]()))
    seen = browser.look(page.as_uri(), TOO_WIDE, HEADLINE_ENDS, width=width, height=height)
    (tmp_path / "page.png").write_bytes(seen.picture)
    assert seen.complaints == []
    assert seen.answers[TOO_WIDE] == 0
    assert seen.answers[HEADLINE_ENDS] < height


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_lists_of_500_partitions_and_of_300_tables_and_the_page_of_a_table(
    browser: Browser, tmp_path: Path, size: tuple[int, int]
) -> None:
    whole = several(300)
    of_one = replace(whole, status=of_tables(whole.status)[0], is_of_table=True)
    shown = {500: render_partitions(VIEWS["500 partitions"]()), 300: render_tables(whole), 2: render(of_one)}
    for rows, text in shown.items():
        page = tmp_path / "page.html"
        page.write_text(text)
        seen = browser.look(
            page.as_uri(), TOO_WIDE, "document.querySelectorAll('td:first-child').length", width=size[0]
        )
        assert seen.complaints == []
        assert list(seen.answers.values()) == [0, rows]


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("path", ["README.md", "docs/settings.md", "docs/internals/architecture.md"])
def test_a_page_of_the_documents_is_as_wide_as_the_screen(browser: Browser, path: str, size: tuple[int, int]) -> None:
    width, height = size
    seen = browser.look(served() + path, TOO_WIDE, width=width, height=height)
    assert (seen.complaints, seen.answers[TOO_WIDE]) == ([], 0)
