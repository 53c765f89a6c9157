"""The README and the pages of ``docs/``: commands that work, links that lead somewhere, a complete index."""

import argparse
import ast
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Never

import pytest
import yaml

import bench.__main__
import bench.calm
import bench.compaction
import bench.iceberg_commits
import bench.many_topics
import bench.replicas
import bench.scaling
import bench.self_compaction
from app import errors
from app.config.settings import VARIABLES
from app.model import Maintenance, TopicPartition
from app.monitoring.metric_families import Exposition
from app.monitoring.metrics import OPERATIONS, Metrics
from app.monitoring.status import Consumption, Live, Status
from app.parts.commands.command_line import new_parser
from app.service.process import LONGEST_STOP_SECONDS
from dev.image import DEFAULT_TAG, HARDENED
from dev.language import problems
from tests.support.environment import load

REPO = Path(__file__).parents[2]
DOCS = REPO / "docs"
README = REPO / "README.md"
GUIDES = [README, REPO / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
PAGES = [*GUIDES, REPO / "CHANGELOG.md", REPO / "SECURITY.md"]
DOCKERFILE = (REPO / "Dockerfile").read_text()
GROUPS: list[dict[str, Any]] = yaml.safe_load((REPO / "deploy" / "alerts.yml").read_text())["groups"]
ALERTS = [rule for group in GROUPS for rule in group["rules"] if "alert" in rule]

BENCHES = {
    "bench": bench.__main__.main,
    "bench.scaling": bench.scaling.main,
    "bench.replicas": bench.replicas.main,
    "bench.iceberg_commits": bench.iceberg_commits.main,
    "bench.calm": bench.calm.main,
    "bench.many_topics": bench.many_topics.main,
    "bench.compaction": bench.compaction.main,
    "bench.self_compaction": bench.self_compaction.main,
}
# What no test runs, by how it begins.
ELSEWHERE = {
    ("az",): "needs an account of Azure",
    ("gcloud",): "needs an account of Google",
    ("kubectl",): "needs a cluster; test_deploy_documents.py checks the manifest",
    ("helm",): "needs a cluster; test_chart.py renders the chart",
    ("gh", "attestation", "verify"): "needs a release; tests/dev/test_workflows.py checks that it gets attestations",
    ("kcat",): "needs kcat",
    ("kafka-consumer-groups.sh",): "needs the tools of Kafka; test_topic_group_and_cluster.py follows such an offset",
    ("mc",): "needs MinIO's client and a server; tests/e2e/test_check.py runs with the policy",
    ("cp", "dotenv.example", ".env"): "test_settings_documents.py starts with this file",
    (".venv/bin/python", "-m", "pytest", "test_transform.py"): "test_customise_page.py runs the test of that page",
    ("docker", "build", "-t", DEFAULT_TAG, "."): "tests/container builds the image with the engine's own options",
    ("docker", "compose", "up", "--build", "--detach"): "test_deploy_documents.py checks the compose file",
    ("docker", "compose", "run", "--rm", "query"): "test_compose.py runs the query of the compose file",
    ("docker", "tag", DEFAULT_TAG): "needs a registry",
    ("docker", "push"): "needs a registry",
    ("spark-submit",): "downloads packages; test_compact.py runs the command on a cluster of two workers",
}
# Variables that libraries and tests read, and values of options.
OTHERS = {
    "CRON_TZ",
    "AWS_CA_BUNDLE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_ENDPOINT_URL_GLUE",
    "AWS_ENDPOINT_URL_STS",
    "AWS_MSK_IAM",
    "AWS_PROFILE",
    "AWS_ROLE_ARN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "OPENLINEAGE_CONFIG",
    "PYICEBERG_CATALOG__DEFAULT__OAUTH2_SERVER_URI",
    "PYICEBERG_CATALOG__DEFAULT__HEADER__X_ICEBERG_ACCESS_DELEGATION",
    "PYICEBERG_CATALOG__DEFAULT__REST__SIGV4_ENABLED",
    "PYICEBERG_CATALOG__DEFAULT__SCOPE",
    "PYICEBERG_CATALOG__DEFAULT__URI",
    "PYICEBERG_CATALOG__DEFAULT__TYPE",
    "PYICEBERG_HOME",
    "HTTPS_PROXY",
    "JAVA_HOME",
    "NO_PROXY",
    "PARITY_EXAMPLES",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_SUBMIT_OPTS",
    "PYTEST_ADDOPTS",
    "REQUESTS_CA_BUNDLE",
    "SASL_PLAINTEXT",
    "SASL_SSL",
    "STORAGE_EMULATOR_HOST",
}

_FENCED = re.compile(r"^( *)```(\S*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_SHELLS = ("bash", "sh", "console")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Line(NamedTuple):
    """A command line of a page."""

    page: Path
    text: str

    @property
    def words(self) -> list[str]:
        words = self.tokens
        while "<" in words:
            at = words.index("<")
            del words[at : at + 2]
        return words

    @property
    def tokens(self) -> list[str]:
        """All that a shell would see."""
        lexer = shlex.shlex(self.text, posix=True, punctuation_chars="<>|&;")
        lexer.whitespace_split = True
        return list(lexer)


def name(page: Path) -> str:
    return str(page.relative_to(REPO))


def prose(page: Path) -> str:
    return _FENCED.sub("", page.read_text())


def lines_in_blocks(page: Path) -> Iterator[Line]:
    for _, language, text in _FENCED.findall(page.read_text()):
        if language in _SHELLS:
            for text_of_line in text.replace("\\\n", " ").splitlines():
                line = Line(page, text_of_line.strip())
                if line.tokens:
                    yield line


def lines_in_prose(page: Path) -> Iterator[Line]:
    for found in re.findall(r"`((?:make|python main\.py) [^`]+)`", prose(page)):
        yield Line(page, found)


# --- commands -------------------------------------------------------------------------------------------------------


class AcceptedError(Exception):
    """A parser accepted the arguments, and nothing ran."""


@pytest.fixture(autouse=True)
def _only_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command ends once its own parser has accepted its arguments."""
    parse = argparse.ArgumentParser.parse_args

    def parse_and_end(self: argparse.ArgumentParser, *arguments: Any) -> Never:
        parse(self, *arguments)
        raise AcceptedError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_and_end)
    monkeypatch.setattr("signal.signal", lambda *_: None)


def check_connector(arguments: list[str]) -> None:
    """``python main.py`` takes these."""
    with pytest.raises((AcceptedError, SystemExit)) as ended:
        new_parser().parse_args(arguments)
    assert getattr(ended.value, "code", 0) == 0, "--help ends by itself"


def check_make(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The targets exist, the variables are used, and the benchmark takes what it is given."""
    given = [word.partition("=")[0] for word in arguments if "=" in word]
    makefile = (REPO / "Makefile").read_text()
    assert [one for one in given if f"$({one})" in makefile or f"$${{{one}" in makefile] == given
    recipes = subprocess.run(["make", "--dry-run", *arguments], cwd=REPO, capture_output=True, text=True, check=False)
    assert recipes.returncode == 0, recipes.stderr
    for module, options in re.findall(r"python -m (bench\S*) ?(.*)", recipes.stdout):
        monkeypatch.setattr("sys.argv", [module, *shlex.split(options)])
        with pytest.raises(AcceptedError):
            BENCHES[module]()


def check_container(line: Line) -> None:
    """The options fit the image: what it opens, what it may do, how long it takes to stop."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for flag in ("--rm", "-i", "--read-only", "--detach"):
        parser.add_argument(flag, action="store_true")
    limits = ("--memory", "--cap-drop", "--security-opt")
    parser.add_argument("--env", action="append", default=[])
    for option in ("--env-file", "-p", "--stop-timeout", "--restart", "--name", "--volume", *limits):
        parser.add_argument(option)
    parser.add_argument("image")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given, unknown = parser.parse_known_args(line.words[2:])

    assert not unknown
    assert 'ENTRYPOINT ["python", "main.py"]' in DOCKERFILE, "what stands behind the image is a command of it"
    assert given.image == DEFAULT_TAG
    if given.env_file is None:  # a trial
        load({}, **dict(pair.split("=", 1) for pair in given.env))
    else:
        assert given.env_file == ".env"
    assert given.i == ("<" in line.tokens), "a container gets standard input with -i alone"
    check_connector(given.command)
    assert given.detach or given.rm
    if given.detach:
        assert given.restart == "unless-stopped", "code 75 asks for another start"
        assert not given.rm, "Docker takes only one of the two"
        served = str(VARIABLES["HTTP_PORT"].default)
        assert given.p == f"127.0.0.1:{served}:{served}"
        assert f"EXPOSE {served}\n" in DOCKERFILE
        assert int(given.stop_timeout) > LONGEST_STOP_SECONDS + 3
        assert given.env == ["HTTP_ALLOWED_HOSTS=localhost"], "a page in a browser here could read a published port"
        assert given.read_only
        assert re.fullmatch(r"[\w-]+:/tmp", given.volume), "batches end at 32 MB in a scratch folder that is memory"
        granted = {f"{option}={getattr(given, option[2:].replace('-', '_'))}" for option in limits}
        assert granted | {"--read-only"} == set(HARDENED), "the tests run the image with other rights"


IN_BLOCKS = [line for page in GUIDES for line in lines_in_blocks(page)]
IN_PROSE = [line for page in GUIDES for line in lines_in_prose(page)]


@pytest.mark.parametrize("line", [*IN_BLOCKS, *IN_PROSE], ids=lambda line: f"{name(line.page)}: {line.text}")
def test_every_command_works(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    match line.words:
        case ["make", *arguments]:
            check_make(arguments, monkeypatch)
        case ["python" | ".venv/bin/python", "main.py", *arguments]:
            check_connector(arguments)
        case ["docker", "run", *_]:
            check_container(line)
        case words:
            assert [known for known in ELSEWHERE if tuple(words[: len(known)]) == known], "nothing checks this command"


def messages() -> Iterator[str]:
    """Texts in the code, without docstrings."""
    for path in sorted((REPO / "app").rglob("*.py")):
        tree = ast.parse(path.read_text())
        documented = [each.body for each in ast.walk(tree) if isinstance(each, _DOCUMENTED)]
        docstrings = {id(body[0].value) for body in documented if body and isinstance(body[0], ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                yield node.value


def test_every_command_and_every_variable_of_a_message_exists() -> None:
    texts = [text for text in messages() if " " in text]
    assert [text for text in texts if "docs/" in text] == [], "app.DOCUMENTS is where the pages are"
    commands = [found for text in texts for found in re.findall(r"python main\.py ([a-z]+(?: --[a-z-]+)*)", text)]
    assert len(commands) >= 4
    for command in commands:
        check_connector(command.split())
    named = {name for text in texts for name in re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b|\bQuix__\w+", text)}
    assert named <= set(VARIABLES) | OTHERS


@pytest.mark.parametrize("line", IN_BLOCKS, ids=lambda line: f"{name(line.page)}: {line.text}")
def test_every_file_of_a_command_exists(line: Line) -> None:
    named = [word for word in line.words if re.search(r"\.(ya?ml|json|example)$", word)]
    named = [word for word in named if not word.startswith("my-")]  # the reader's own
    assert [file for file in named if not ((REPO / file).exists() or (line.page.parent / file).exists())] == []


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_commands_are_in_blocks_of_a_shell(page: Path) -> None:
    """Elsewhere the tests above would not see them."""
    programs = "|".join(sorted({"make", "python", r"\.venv/bin/python", "docker", *(known[0] for known in ELSEWHERE)}))
    others = [text for _, language, text in _FENCED.findall(page.read_text()) if language not in _SHELLS]
    assert [found for text in others for found in re.findall(rf"^ *\$? ?(?:{programs}) .*", text, re.MULTILINE)] == []


def test_the_readme_has_the_demo_and_the_tests_each_in_a_block_of_its_own() -> None:
    blocks = [text for _, language, text in _FENCED.findall(README.read_text()) if language in _SHELLS]
    assert [text for text in blocks if text in ("make demo\n", "make test\n")] == ["make demo\n", "make test\n"]


# --- facts of the code ------------------------------------------------------------------------------------------------


def first_cells(page: Path, title: str) -> list[str]:
    """The first cell of each row in the tables of a section."""
    [section] = [part for part in re.split(r"^## ", page.read_text(), flags=re.MULTILINE) if part.startswith(title)]
    return re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE)


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_every_variable_of_a_page_exists(page: Path) -> None:
    text = page.read_text()
    named = re.findall(r"`([A-Z][A-Z0-9]*_[A-Z0-9_]+|Quix__\w+)(?:=[^`]*)?`", text)
    named += re.findall(r"^([A-Z][A-Z0-9]*_[A-Z0-9_]+)=", text, re.MULTILINE)
    in_files = {f"{variable}_FILE" for variable in (*VARIABLES, "NAME")}
    assert set(named) <= set(VARIABLES) | in_files | OTHERS


def test_every_command_has_a_section() -> None:
    titles = re.findall(r"^## (.*)$", prose(DOCS / "commands.md"), re.MULTILINE)
    assert titles == re.findall(r"^ {4}([\w-]+)", new_parser().format_help(), re.MULTILINE)


def test_every_exit_code_has_a_row() -> None:
    codes = {error.exit_code for error in vars(errors).values() if hasattr(error, "exit_code")}
    assert codes | {0} == {int(cell) for cell in first_cells(DOCS / "operations.md", "Exit codes") if cell.isdigit()}


def test_every_metric_has_a_row() -> None:
    metrics = Metrics()
    partition = TopicPartition("sensors", 0)
    metrics.begins(partition, 0)
    metrics.committed({partition: 1})
    metrics.reaches({partition: 1})
    metrics.maintained(Maintenance())
    settings = load(COMPACT="1h")
    status = Status(settings, settings.location, Live(consumption=Consumption(due_in=1.0)), metrics.counts())
    text = Exposition(metrics.registry, lambda: status).text().decode()
    served = set(re.findall(r"^# TYPE (lake_sink_\w+) ", text, re.MULTILINE))
    cells = " ".join(first_cells(DOCS / "monitoring.md", "Metrics"))
    assert served == {one for one in re.findall(r"`(lake_sink_\w+)", cells) if "_java_" not in one}


def test_every_operation_that_is_tried_again_has_a_row() -> None:
    cells = " ".join(first_cells(DOCS / "monitoring.md", "Metrics"))
    assert sorted(re.findall(r"`([a-z]+)`", cells)) == sorted(OPERATIONS)


def test_every_alert_leads_to_its_heading() -> None:
    headings = re.findall(r"^### (LakeSink\w+)$", (DOCS / "monitoring.md").read_text(), re.MULTILINE)
    assert headings == [rule["alert"] for rule in ALERTS]
    for rule in ALERTS:
        annotations = rule["annotations"]
        page = f"docs/monitoring.md#{rule['alert'].lower()}"
        served, said = f"http://{{{{ $labels.instance }}}}/{page}", f"See {page} in the checkout or the image"
        assert (annotations.get("runbook_url"), annotations.get("description")) in [(served, None), (None, said)]


# --- links ----------------------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the page's titles."""
    given: set[str] = set()
    for title in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE):
        anchor = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
        assert anchor not in given, f"{name(page)} has two titles {title!r}"
        given.add(anchor)
    return given


def links(page: Path) -> list[str]:
    found: list[str] = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    return [link for link in found if "://" not in link]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.is_file(), link
        assert not anchor or anchor in anchors(linked), link


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=name)
def test_the_index_lists_every_page(page: Path) -> None:
    index = DOCS / "README.md"
    listed = re.findall(r"^\| \[[^\]]+\]\((\S+)\) \| [^|]*\. \|$", index.read_text(), re.MULTILINE)
    assert [(DOCS / link).resolve() for link in listed].count(page) == (page != index)


def test_the_readme_leads_to_the_index() -> None:
    assert "docs/README.md" in links(README)


def test_pages_and_messages_have_short_sentences_and_the_words_of_the_field() -> None:
    assert problems() == []
