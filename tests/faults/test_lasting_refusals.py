"""Refusals that no repetition helps against: told with what to do, and nothing is amiss once they are gone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.errors import FatalError
from tests.faults.members import Table, recover
from tests.faults.proxy import Answer, Rule, Say, from_on
from tests.faults.steps import STEPS, Step, leave_behind, live, s3_error

OF_STORE = {name: step for name, step in STEPS.items() if step.server == "store"}
OF_CATALOG = {name: step for name, step in STEPS.items() if step.server == "catalog"}
RIGHTS = {"PUT": "s3:PutObject", "GET": "s3:GetObject"}
GATE = {("upload", "403"), ("register", "401")}


def cells() -> Iterator[object]:
    """Steps and refusals, with what the user is told to do."""
    refusals: list[tuple[str, str, Answer, str]] = []
    for name, step in OF_STORE.items():
        right = "s3:ListBucket" if name.startswith("check files") else RIGHTS[step.method]
        refusals.append((name, "403", s3_error(403, "AccessDenied"), f"Allow {right}"))
        refusals.append((name, "404", s3_error(404, "NoSuchBucket"), "create the bucket"))
    for name in OF_CATALOG:
        refusals += [(name, str(status), Answer(status), "Check CATALOG_AUTH_TOKEN") for status in (401, 403)]
    for name in ("register", "register theirs"):
        page = Answer(200, b"<html><body>Please log in</body></html>", {"Content-Type": "text/html"})
        refusals.append((name, "page", page, "the answer is not a JSON object.*Check that CATALOG_URL"))
    for name, kind, answer, message in refusals:
        step = STEPS[name]
        for number in sorted({1, step.calls}):
            marks = () if number == step.calls and (name, kind) in GATE else pytest.mark.night
            yield pytest.param(step, answer, message, number, id=f"{name}, {kind}, {number}", marks=marks)


@pytest.mark.parametrize(("step", "refusal", "message", "number"), list(cells()))
def test_a_refusal_ends_the_member_with_what_to_do_and_the_next_one_finishes(
    table: Table, tmp_path: Path, step: Step, refusal: Answer, message: str, number: int
) -> None:
    leave_behind(step.left, table, tmp_path)
    rule = Rule(step.matches, Say(refusal), from_on(number))
    with pytest.raises(FatalError, match=message):
        live(table, tmp_path, step, rule)
    assert rule.met
    recover(table, tmp_path)
