"""The policy that the documents give for AWS allows what the connector does: all of it, and nothing else."""

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.errors import ConnectorError, FatalError, RetryableError
from app.parts.audit.command import audit
from app.storage.conditional import try_out
from app.storage.s3.client import Limits
from app.storage.s3.store import S3Store
from app.table.layout import journal_folder
from tests.faults.members import BATCHES, Member, Table
from tests.faults.proxy import Request, Rule, Say, on
from tests.faults.site import Site
from tests.faults.steps import leave_behind, s3_error
from tests.services.minio_rights import restricted_keys
from tests.support.commands import options
from tests.support.environment import load

POLICY = Path(__file__).parents[2] / "docs/deploy/iam-policy.json"
ACTIONS = ("s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")
PART = 5 << 20
LARGE = random.Random(7).randbytes(PART + 1)
SMALL_PARTS = Limits(part_bytes=PART, largest_single=PART)


class PartsLeftError(Exception):
    """Parts of an upload that failed are still there."""


def policy(bucket: str, *actions: str) -> dict[str, Any]:
    """The policy of the documents for this bucket, with no other of its actions than these."""
    found: dict[str, Any] = json.loads(POLICY.read_text().replace("my-lake", bucket))
    for statement in found["Statement"]:
        statement["Action"] = [action for action in statement["Action"] if action in actions]
    found["Statement"] = [statement for statement in found["Statement"] if statement["Action"]]
    return found


def keys_for(site: Site, *actions: str) -> dict[str, str]:
    return restricted_keys(site.minio, policy(site.bucket, *actions))


def work(site: Site, keys: Mapping[str, Any], scratch: Path) -> Table:
    """What the connector does with a bucket in its life, with these keys; gives the table that it wrote.

    It starts, claims partitions, dies amid a batch, starts again, rolls that back, writes batches and a big file, fails
    to write another.
    """
    store = site.new_store(**keys, limits=SMALL_PARTS)
    table = Table(replace(site, store=store))
    _start(store, table)
    leave_behind("incomplete", table, scratch)
    _start(store, table)
    with Member(table, scratch) as member:
        member.live()
    table.assert_whole()
    _write_large(store, table, scratch)
    return table


def _start(store: S3Store, table: Table) -> None:
    store.connect(f"{table.root}/")
    try_out(store, journal_folder(table.root))


def _write_large(store: S3Store, table: Table, scratch: Path) -> None:
    large, key = scratch / "large.parquet", f"{table.root}/p=a/large.parquet"
    large.write_bytes(LARGE)
    store.upload(large, key)
    broken = table.site.to_store.add(Rule(on("PUT", query="partNumber=2"), Say(s3_error(500, "InternalError"))))
    with pytest.raises(RetryableError):
        store.upload(large, key)
    table.site.to_store.remove(broken)
    if table.site.client.list_multipart_uploads(Bucket=table.site.bucket, Prefix=key).get("Uploads"):
        raise PartsLeftError
    store.delete(key)


def action_of(request: Request) -> str:
    if request.method == "GET":
        return "s3:ListBucket" if "list-type" in request.query else "s3:GetObject"
    if request.method == "DELETE":
        return "s3:AbortMultipartUpload" if "uploadId" in request.query else "s3:DeleteObject"
    return "s3:PutObject"  # parts, and what begins and completes them, too


def place_of(request: Request, bucket: str) -> str:
    """The key that a request is for, or how the keys that are listed begin."""
    return request.query.get("prefix", request.path.removeprefix(f"/{bucket}/"))


def test_the_policy_is_enough_and_all_of_it_is_used(site: Site, tmp_path: Path) -> None:
    statements = json.loads(POLICY.read_text())["Statement"]
    assert {action for statement in statements for action in statement["Action"]} == set(ACTIONS)

    work(site, keys_for(site, *ACTIONS), tmp_path)

    assert {action_of(request) for request in site.to_store.seen} == set(ACTIONS)
    places = [place_of(request, site.bucket) for request in site.to_store.seen]
    assert len(places) > 10 * BATCHES
    assert [place for place in places if not place.startswith("data/")] == []


@pytest.mark.parametrize(
    "missing", [ACTIONS[0], *(pytest.param(each, marks=pytest.mark.night) for each in ACTIONS[1:])]
)
def test_nothing_can_be_taken_from_the_policy(site: Site, tmp_path: Path, missing: str) -> None:
    with pytest.raises((FatalError, PartsLeftError)) as caught:
        work(site, keys_for(site, *(action for action in ACTIONS if action != missing)), tmp_path)

    if missing != "s3:AbortMultipartUpload":
        assert f"Allow {missing} on arn:aws:s3:::{site.bucket}" in str(caught.value)


@pytest.mark.parametrize("missing", ["", *(pytest.param(each, marks=pytest.mark.night) for each in ACTIONS[:2])])
def test_audit_reads_alone(site: Site, tmp_path: Path, missing: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(site)
    leave_behind("done", table, tmp_path)
    reading = [action for action in ("s3:ListBucket", "s3:GetObject") if action != missing]
    keys = keys_for(site, *reading)
    settings = load(
        S3_BUCKET=site.bucket,
        TABLE_NAME=table.name,
        AWS_ENDPOINT_URL=site.to_store.url,
        AWS_ACCESS_KEY_ID=keys["access_key"],
        AWS_SECRET_ACCESS_KEY=keys["secret_key"],
        AWS_SESSION_TOKEN=keys["session_token"],
        KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:1",
    )

    if missing:
        with pytest.raises(ConnectorError, match=f"Allow {missing}"):
            audit(settings, options("audit", "--offsets"))
    else:
        assert audit(settings, options("audit", "--offsets")) == 0
        assert "sensors" in capsys.readouterr().out
