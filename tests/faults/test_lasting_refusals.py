"""Refusals that no repetition helps against: told with what to do, and nothing is amiss once they are gone."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.errors import FatalError
from tests.faults.members import LAST, Table, recover
from tests.faults.proxy import Answer, Exchange, Request, Rule, Say, from_on, nth
from tests.faults.site import Site
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


class Role:
    """Gives keys as the roles of machines do, by a command that boto3 runs; it does at each request, so soon they end.

    As a fault, it refuses those that have expired, and renews its keys at the second time.
    """

    def __init__(self, folder: Path, site: Site) -> None:
        self._site = site
        self._keys = folder / "keys.json"
        self._refused = 0
        self.config = folder / "config"
        self.config.write_text(f"[default]\ncredential_process = cat {self._keys}\n")
        self._renew()

    def expire(self, _: Request) -> None:
        """The keys are no longer good; their request is the first that gets to know."""
        self._give("EXPIRED", "secret")

    def meet(self, exchange: Exchange) -> None:
        self._refused += 1
        if self._refused == 2:
            self._renew()
        exchange.answer(s3_error(400, "ExpiredToken"))

    def _renew(self) -> None:
        self._give(self._site.minio.access_key, self._site.minio.secret_key)

    def _give(self, access_key: str, secret_key: str) -> None:
        soon = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
        document = {"Version": 1, "AccessKeyId": access_key, "SecretAccessKey": secret_key, "Expiration": soon}
        new = self._keys.with_suffix(".new")
        new.write_text(json.dumps(document))
        new.replace(self._keys)


def test_keys_of_a_role_may_expire_until_it_gives_new_ones(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = Role(tmp_path, table.site)
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(role.config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    store = table.site.new_store(access_key=None, secret_key=None)
    expired = table.site.to_store.add(Rule(lambda request: "=EXPIRED/" in request.headers["authorization"], role))
    step = STEPS["upload"]
    live(table, tmp_path, step, Rule(step.matches, when=nth(1), before=role.expire), store=store)
    assert expired.met >= 2
    assert recover(table, tmp_path) == {LAST + 1}
