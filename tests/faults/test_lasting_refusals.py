"""Refusals that no repetition helps against: told with what to do, and nothing is amiss once they are gone."""

import json
import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.errors import FatalError
from tests.faults.members import LAST, Member, Table, recover
from tests.faults.proxy import Answer, Exchange, Request, Rule, Say, from_on, nth, on
from tests.faults.site import Site
from tests.faults.steps import CLAIM, DATA, LOG, STEPS, Step, leave_behind, live, s3_error

OF_STORE = {name: step for name, step in STEPS.items() if step.server == "store"}
OF_CATALOG = {name: step for name, step in STEPS.items() if step.server == "catalog"}
_BODY = b'"pending" "kept" "closed":false "closed":true,"state":"done"'  # of all writes of the journal
# Others of their kind are for every day.
SLOW = {
    "read claim",
    "point",
    "check files, all there",
    "keep",
    "read footer",
    "done theirs",
    "check files, one missing",
    "roll back",
    "fill",
}
RIGHTS = {"PUT": "s3:PutObject", "GET": "s3:GetObject", "DELETE": "s3:DeleteObject"}


def cells() -> Iterator[object]:
    """Steps and refusals, with what the user is told to do."""
    for name, step in OF_STORE.items():
        right = "s3:ListBucket" if name.startswith("check files") else RIGHTS[method_of(step)]
        yield pytest.param(step, s3_error(403, "AccessDenied"), f"Allow {right}", id=f"{name}, 403")
        bucket = "create the bucket"
        yield pytest.param(step, s3_error(404, "NoSuchBucket"), bucket, id=f"{name}, 404", marks=pytest.mark.night)
    for name, step in OF_CATALOG.items():
        for status in (401, 403):
            yield pytest.param(step, Answer(status), "Check CATALOG_AUTH_TOKEN", id=f"{name}, {status}")


def some_slow(names: Iterable[str]) -> list[object]:
    return [pytest.param(name, marks=pytest.mark.night if name in SLOW else ()) for name in names]


def method_of(step: Step) -> str:
    """The method of the step's requests, which it alone lets pass."""
    possible = (Request(method, f"{CLAIM}{LOG}{DATA}?prefix=p%3D", {}, _BODY) for method in RIGHTS)
    return next(request.method for request in possible if step.matches(request))


@pytest.mark.parametrize("place", [pytest.param("first", marks=pytest.mark.night), "last"])
@pytest.mark.parametrize(("step", "refusal", "message"), list(cells()))
def test_a_refusal_ends_the_member_with_what_to_do_and_the_next_one_finishes(
    table: Table, tmp_path: Path, step: Step, refusal: Answer, message: str, place: str
) -> None:
    leave_behind(step.left, table, tmp_path)
    rule = Rule(step.matches, Say(refusal), from_on(1 if place == "first" else step.calls))
    with pytest.raises(FatalError, match=message):
        live(table, tmp_path, step, rule)
    assert rule.met
    recover(table, tmp_path)


def test_a_bucket_that_is_deleted_ends_the_member(site: Site, tmp_path: Path) -> None:
    bucket = f"gone-{uuid.uuid4().hex[:12]}"
    site.client.create_bucket(Bucket=bucket)
    with Member(Table(site), tmp_path, store=site.new_store(bucket=bucket)) as member:
        member.claim()
        for found in site.client.list_objects_v2(Bucket=bucket)["Contents"]:
            site.client.delete_object(Bucket=bucket, Key=found["Key"])
        site.client.delete_bucket(Bucket=bucket)
        with pytest.raises(FatalError, match="bucket does not exist"):
            member.write()


def test_while_placeholders_are_refused_no_member_writes_over_what_was_rolled_back(
    table: Table, tmp_path: Path
) -> None:
    leave_behind("incomplete", table, tmp_path)
    refused = table.site.to_store.add(Rule(on("PUT", DATA), Say(s3_error(403, "AccessDenied"))))
    for _ in range(2):
        with Member(table, tmp_path) as member, pytest.raises(FatalError, match="Allow s3:PutObject"):
            member.claim()
    assert refused.met == table.site.to_store.count(on("PUT", DATA)), "no upload has come so far"
    table.site.to_store.remove(refused)
    recover(table, tmp_path)


@pytest.mark.parametrize("name", some_slow(name for name, step in OF_STORE.items() if method_of(step) == "PUT"))
def test_a_full_disk_is_waited_for(table: Table, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    step = STEPS[name]
    leave_behind(step.left, table, tmp_path)
    full = Rule(step.matches, Say(s3_error(507, "XMinioStorageFull")), nth(1, 2, 3))
    live(table, tmp_path, step, full)
    assert full.met == 3
    assert "Free some space on the storage server" in caplog.text
    recover(table, tmp_path)


# --- credentials ----------------------------------------------------------------------------------------------------


class Role:
    """Gives keys as the roles of machines do, by a command that boto3 runs; it does at each request, so soon they end.

    Args:
        folder: for its files.
        site: whose keys are the right ones.
    """

    def __init__(self, folder: Path, site: Site) -> None:
        self._site = site
        self._keys = folder / "keys.json"
        self.config = folder / "config"
        self.config.write_text(f"[default]\ncredential_process = cat {self._keys}\n")
        self.renew()

    def renew(self) -> None:
        self._give(self._site.minio.access_key, self._site.minio.secret_key)

    def expire(self, _: Request) -> None:
        """The keys are no longer good; their request is the first that gets to know."""
        self._give("EXPIRED", "secret")

    def _give(self, access_key: str, secret_key: str) -> None:
        soon = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
        document = {"Version": 1, "AccessKeyId": access_key, "SecretAccessKey": secret_key, "Expiration": soon}
        new = self._keys.with_suffix(".new")
        new.write_text(json.dumps(document))
        new.replace(self._keys)


@dataclass
class Expired:
    """Refuses twice, and lets the role renew its keys after that."""

    role: Role
    refused: int = 0

    def meet(self, exchange: Exchange) -> None:
        self.refused += 1
        if self.refused == 2:
            self.role.renew()
        exchange.answer(s3_error(400, "ExpiredToken"))


@pytest.mark.parametrize("name", some_slow(OF_STORE))
def test_keys_of_a_role_may_expire_at_any_step_until_it_gives_new_ones(
    table: Table, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = STEPS[name]
    leave_behind(step.left, table, tmp_path)
    role = Role(tmp_path, table.site)
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(role.config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    store = table.site.new_store(access_key=None, secret_key=None)
    expired = Rule(lambda request: "=EXPIRED/" in request.headers["authorization"], Expired(role))
    table.site.to_store.add(expired)
    live(table, tmp_path, step, Rule(step.matches, when=nth(1), before=role.expire), store=store)
    assert expired.met >= 2
    assert recover(table, tmp_path) == {LAST + 1}


def test_keys_that_nobody_renews_end_the_member(table: Table, tmp_path: Path) -> None:
    site = table.site
    store = site.new_store(session_token="token")
    site.to_store.add(Rule(on("PUT"), Say(s3_error(400, "ExpiredToken"))))
    site.to_store.add(Rule(on("GET", "/_journal/"), Say(s3_error(404, "NoSuchKey"))))
    with Member(table, tmp_path, store=store) as member, pytest.raises(FatalError, match="Set AWS_SESSION_TOKEN and"):
        member.claim()
