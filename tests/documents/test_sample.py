"""The sample for Quix's public repository stands alone: its pages, its commands, and what its image is made of."""

import re
from pathlib import Path

import pytest
import yaml

from dev.connector import REPO
from dev.generate import FORM
from dev.sample import NAME, export, in_image
from tests.documents.test_documents import anchors, lines_in_blocks, links

SECTIONS = ["How to run", "Environment Variables", "Requirements", "Contribute", "Open Source"]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(tmp_path_factory.mktemp("samples"))


def test_the_readme_is_that_of_a_sample(sample: Path) -> None:
    text = (sample / "README.md").read_text()
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(FORM)


def test_no_link_of_the_sample_is_dead(sample: Path) -> None:
    found = [(page, *link.partition("#")[::2]) for page in sample.rglob("*.md") for link in links(page)]
    assert len(found) > 100
    for page, path, anchor in found:
        linked = (page.parent / path).resolve() if path else page
        assert linked.is_relative_to(sample), (page, path)
        assert linked.exists(), (page, path)
        assert not anchor or anchor in anchors(linked), (page, path, anchor)


def test_each_command_of_the_sample_has_what_it_needs(sample: Path) -> None:
    lines = [line for page in sample.rglob("*.md") for line in lines_in_blocks(page)]
    assert len(lines) > 20
    assert [line for line in lines if line.words[0] == "make"] == []
    needs = re.compile(r"deploy/.*|.*\.(?:ya?ml|json|example|txt)")
    for line in lines:
        named = [word for word in line.words if needs.fullmatch(word) and not word.startswith("my-")]
        files = [] if line.words[:2] == ["docker", "run"] else named  # those are in the image
        assert [file for file in files if not ((sample / file).exists() or (line.page.parent / file).exists())] == []
    measured = {*sample.glob("docs/internals/*"), *sample.glob("bench/**/*")}
    texts = {*sample.rglob("*.py"), *sample.rglob("*.md")} - measured
    assert [file for file in texts if "`make " in file.read_text().partition("## Contribute")[0]] == []


def test_the_image_of_the_sample_is_that_of_the_checkout(sample: Path) -> None:
    copied = [path for name in in_image() for path in (sample / name, *(sample / name).rglob("*")) if path.is_file()]
    code = [path.relative_to(sample) for path in copied if path.suffix != ".md"]
    assert {Path("main.py"), Path("app/transform.py"), Path("requirements.lock")} <= set(code)
    assert [path for path in code if (sample / path).read_bytes() != (REPO / path).read_bytes()] == []


def test_the_limit_of_its_test_covers_the_build_of_the_image(sample: Path) -> None:
    file = sample.parents[2] / "tests" / NAME / "docker-compose.test.yml"
    [seconds] = re.findall(r"^# timeout: (\d+)$", "".join(file.open().readlines()[:5]), re.MULTILINE)
    [minutes] = re.findall(r"(\d+)m make test-image", (REPO / ".ci" / "run").read_text())
    assert int(seconds) > int(minutes) * 60
    services = yaml.safe_load(file.read_text())["services"]
    assert (file.parent / services["sink"]["build"]["context"]).resolve() == sample
