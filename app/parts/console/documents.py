"""Converts the documentation of this version to HTML: README.md, CHANGELOG.md, SECURITY.md and ``docs/``.

The HTTP server serves each file at its path in the repository, so links between pages work. If a link points to a file
that is not served, the link becomes plain text. If a picture is not served, the page shows the picture's description.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Final
from urllib.parse import urlsplit

from markupsafe import Markup

ROOT: Final = Path(__file__).parents[3]
_KINDS: Final = {".md": "text/html", ".png": "image/png", ".svg": "image/svg+xml"} | dict.fromkeys(
    (".json", ".yaml"), "text/plain"
)
_COMMENT: Final = re.compile(r"<!--.*?-->\n?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    html: Markup


@cache
def paths(root: Path = ROOT) -> Collection[str]:
    """Return the served paths, such as ``/docs/settings.md``, without symbolic links. ``/docs/`` is docs/README.md."""
    root = root.resolve()
    files = [*(root / f"{name}.md" for name in ("README", "CHANGELOG", "SECURITY")), *root.glob("docs/**/*")]
    served = [path for path in files if path.suffix in _KINDS and path.is_file() and path.resolve() == path]
    return ["/docs/", *sorted(f"/{path.relative_to(root).as_posix()}" for path in served)]


@cache
def read(path: str, root: Path = ROOT) -> tuple[bytes | Document, str]:
    """Return the content and the media type of a served path. Markdown becomes a ``Document``."""
    file = root / (path.strip("/") if path != "/docs/" else "docs/README.md")
    content, kind = file.read_bytes(), _KINDS[file.suffix]
    return (_to_document(path, content.decode(), paths(root)) if file.suffix == ".md" else content), kind


def _to_document(path: str, text: str, served: Collection[str]) -> Document:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - loaded at the first view

    def is_served(address: str) -> bool:
        url = urlsplit(address)
        return bool(url.scheme) or not url.path or normpath(join(dirname(path), url.path)) in served

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(_COMMENT.sub("", text))
    titles = [(opening, inline.content) for opening, inline in pairwise(tokens) if opening.type == "heading_open"]
    for opening, title in titles:  # anchors as on GitHub
        opening.attrs["id"] = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
    for token in chain.from_iterable(each.children or () for each in tokens):
        if token.type in ("link_open", "image") and not is_served(str(token.attrGet("href") or token.attrGet("src"))):
            token.type, token.attrs = ("text", {}) if token.type == "image" else (token.type, {})
    return Document(
        titles[0][1] if titles else path,
        Markup(markdown.renderer.render(tokens, markdown.options, {})),  # noqa: S704 - our own files, without raw HTML
    )
