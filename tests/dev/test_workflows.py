"""What GitHub runs, held to the Makefile and to the parts of the night."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.dev.test_locks import locked
from tests.fakes.canned_server import Answer, CannedServer
from tests.night import PARTS

REPO = Path(__file__).parents[2]
GITHUB = REPO / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
NIGHTLY: dict[str, Any] = yaml.safe_load((GITHUB / "workflows" / "nightly.yml").read_text())["jobs"]
COMMANDS = [step["run"] for job in NIGHTLY.values() for step in job["steps"] if "run" in step]


def test_each_action_is_pinned_to_a_commit_whose_version_is_told() -> None:
    used = [line for file in WORKFLOWS for line in file.read_text().splitlines() if "uses:" in line]
    assert used
    pinned = re.compile(r"\s*- uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+|    uses: \./\S+")
    assert [line for line in used if not pinned.fullmatch(line)] == []


def test_only_the_steps_that_need_a_token_have_one() -> None:
    """A step without it may run what any package brings."""
    steps = []
    for workflow in map(yaml.safe_load, map(Path.read_text, WORKFLOWS)):
        jobs = [*workflow["jobs"].values()]
        steps += [step for job in jobs for step in job.pop("steps", [])]
        assert not re.search(r"github\.token|secrets\.", str(workflow)), "a job hands it to all of its steps"
    kept = [step for step in steps if "checkout@" in step.get("uses", "")]
    assert [step for step in kept if step.get("with", {}).get("persist-credentials") is not False] == []
    given = [step["run"].split()[:2] for step in steps if "github.token" in str(step)]
    assert given == [["docker", "login"], ["docker", "login"], ["gh", "release"]]


def test_a_release_comes_with_attestations_of_its_files_its_image_and_its_packages() -> None:
    release = yaml.safe_load((GITHUB / "workflows" / "release.yml").read_text())["jobs"]["publish"]
    steps = [str(step) for step in release["steps"]]
    attested = [number for number, step in enumerate(steps) if "attest-build-provenance@" in step]
    files, image, packages = (release["steps"][number]["with"] for number in attested)
    assert files["subject-path"] in release["steps"][-1]["run"], "what is attested is what is released"
    assert {"subject-name", "subject-digest"} < image.keys() < packages.keys()
    assert max(attested) < len(steps) - 1
    assert release["permissions"].items() >= {"id-token": "write", "attestations": "write"}.items()


def test_what_is_pinned_is_renewed() -> None:
    updates = yaml.safe_load((GITHUB / "dependabot.yml").read_text())["updates"]
    assert {each["package-ecosystem"] for each in updates} == {"docker", "github-actions", "pip"}


def test_the_night_runs_each_part_once_and_the_audit() -> None:
    parts = " ".join([*NIGHTLY["night"]["strategy"]["matrix"]["part"], *re.findall(r"PARTS=(\w+)", str(COMMANDS))])
    assert sorted(parts.split()) == sorted(PARTS)
    assert "make audit" in COMMANDS


# --- the audit ------------------------------------------------------------------------------------------------------

NOTHING = b"{}"
FINDING = b'{"vulns": [{"id": "PYSEC-2026-1", "affected": []}]}'


@pytest.mark.parametrize(("answer", "code"), [(Answer(body=NOTHING), 0), (Answer(body=FINDING), 1), (Answer(503), 1)])
def test_the_audit_asks_for_each_locked_package_and_fails_at_a_finding(answer: Answer, code: int) -> None:
    with CannedServer(answer) as advisories:
        command = ["make", "--dry-run", "audit", f"AUDIT=--osv-url={advisories.url}"]
        told = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=True).stdout
        recipe = told[told.index("for lock in") :]  # without what makes the environment
        ended = subprocess.run(["sh", "-c", recipe], cwd=REPO, capture_output=True, text=True, check=False)
        queries = [request.json() for request in advisories.requests]
    assert ended.returncode == code, ended.stderr
    if answer.status == 200:
        asked = {(query["package"]["name"], query["version"]) for query in queries}
        locks = [locked(name) for name in ("requirements", "requirements-dev", "requirements-sbom")]
        pins = {(name, version) for lock in locks for name, versions in lock.items() for version in versions}
        elsewhere = {"colorama", "pywin32", "httpx2-jsfetch"}  # on Windows, and in a browser
        assert {name for name, _ in pins - asked} <= elsewhere
