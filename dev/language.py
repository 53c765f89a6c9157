"""Counts what makes pages and messages hard to read: long sentences, and words that readers do not search for.

``python -m dev.language`` prints the counts. A test compares them with the bounds here, which only fall.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from dev.connector import REPO

MOST_WORDS = 25
MOST_LONG_SENTENCES = 0
# Regular expressions, with how often the pages, docstrings and messages may contain them.
MOST_MENTIONS = {
    r"amid": 0,  # during
    r"amiss": 0,  # wrong
    r"anew": 0,  # again
    r"heeds?": 0,  # respect
    r"reckon(?:s|ed|ing)?": 0,  # calculate
    r"mend(?:s|ed|ing)?": 0,  # repair
    r"set aside": 0,  # suspended
    r"pass(?:es|ed)? over": 0,  # skip
    r"(?:goes|go|went) on": 0,  # continue
    r"(?:is|are|was) away": 1,  # unavailable
    r"Else": 0,  # otherwise
    r"(?:of its|by it|by them|of their|of a)(?:self|selves| own)": 4,  # separate, automatically
    r"tells?|told": 0,  # report, show
    r"beside": 1,  # next to
    r"behind": 3,  # after
    r"such (?:a|an) ": 2,  # this
    r"alone": 2,  # only
    r"at once": 2,  # immediately, at a time
    r"takes?": 31,  # accepts, uses, needs
    r"comes?|came": 18,  # arrive, are redelivered
    r"others": 8,  # their names
    r"whole": 16,  # complete
    r"lacks?": 5,  # is missing
    r"stands?": 1,  # is, remains
    r"worth": 0,  # the threshold
    r"by hand": 4,  # manually
    r"asks?|asked": 5,  # queries, requests
    r"is no|are no": 16,  # is not
}
# Names of variables that say nothing; ``each`` is for comprehensions of one line.
EMPTY_NAMES = {"its", "found", "one", "left", "told", "wanted", "known", "each"}
PAGES = [REPO / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]
PAGES += sorted((REPO / "docs").rglob("*.md"))


def main() -> None:
    """Print each word with its count, and each long sentence with its page."""
    for word, count in mentions().items():
        print(f"{count:5} {word}")
    for page, sentence in long_sentences():
        print(f"{page.relative_to(REPO)}: {sentence}")


def problems() -> list[str]:
    """What is above its bound."""
    counts, long = mentions(), list(long_sentences())
    wrong = [f"{word}: {counts[word]}, {most} at most" for word, most in MOST_MENTIONS.items() if counts[word] > most]
    if len(long) > MOST_LONG_SENTENCES:
        wrong.append(f"{len(long)} sentences of more than {MOST_WORDS} words: {long}")
    return wrong + [f"{path}: a variable is named {name}" for path, name in empty_names()]


def mentions() -> dict[str, int]:
    """How often each of the words occurs."""
    text = "\n".join((*map(_prose, PAGES), *_texts_of_code()))
    return {word: len(re.findall(rf"\b(?:{word})\b", text)) for word in MOST_MENTIONS}


def long_sentences() -> Iterator[tuple[Path, str]]:
    """Sentences of pages; a cell of a table and an item of a list end one, and code counts as one word."""
    for page in PAGES:
        text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "CODE", _prose(page)))
        for block in re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.|\|) ?)|\|", text):
            for sentence in re.split(r"(?<=[.!?:;])\s+(?=[A-Z*\"(])", " ".join(block.split())):
                if len(sentence.split()) > MOST_WORDS:
                    yield page, sentence


def empty_names() -> Iterator[tuple[Path, str]]:
    """Variables and parameters with a name that says nothing."""
    for path in sorted((REPO / "app").rglob("*.py")):
        tree = ast.parse(path.read_text())
        allowed = ast.comprehension | ast.AnnAssign  # a field may be stored with its name
        targets = (node.target for node in ast.walk(tree) if isinstance(node, allowed))
        skipped = {id(name) for target in targets for name in ast.walk(target)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in skipped:
                name = node.id
            else:
                name = node.arg if isinstance(node, ast.arg) else ""
            if name in EMPTY_NAMES:
                yield path, name


def _prose(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)


def _texts_of_code() -> Iterator[str]:
    """Docstrings and messages."""
    for path in (REPO / "app").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield node.value


if __name__ == "__main__":
    main()
