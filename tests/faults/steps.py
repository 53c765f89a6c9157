"""The steps of the delivery as the servers see them, and members that come to a given step."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from app.errors import FatalError
from tests.faults.members import BATCHES, PARTITIONS, PLACES, Member, Table
from tests.faults.proxy import Answer, FaultProxy, Matches, Request, Rule, Say, on

JOURNAL = "/_journal/"
LOG = "/generations.d/"
CLAIM = "/_journal/readers/sensors/"
DATA = "/p="
A, F = len(PARTITIONS), len(PLACES)
_BODY = b'"pending" "kept" "closed":false "closed":true,"state":"done"'  # of all writes of the journal


Left = Literal["nothing", "done", "complete", "registered", "incomplete"]


@dataclass(frozen=True)
class Step:
    """Requests of one kind, so many without a fault: of a member's phase, after one that ``left`` something behind."""

    left: Left
    phase: Literal["claim", "write"]
    server: Literal["store", "catalog"]
    matches: Matches
    calls: int

    @property
    def is_journal(self) -> bool:
        return self.matches(Request("PUT", f"{CLAIM}{LOG}", {}, _BODY))


# Named as in tests/model/assignment_model.py, where both have the step.
STEPS: Mapping[str, Step] = {
    "read claim": Step("done", "claim", "store", on("GET", CLAIM), A),
    "read log": Step("done", "claim", "store", on("GET", LOG), 1),
    "close": Step("done", "claim", "store", on("PUT", LOG, body='"closed":true'), 1),
    "take over": Step("done", "claim", "store", on("PUT", LOG, body='"closed":false'), 1),
    "point": Step("done", "claim", "store", on("PUT", CLAIM), A),
    "first take over": Step("nothing", "claim", "store", on("PUT", LOG), 1),
    "first point": Step("nothing", "claim", "store", on("PUT", CLAIM), A),
    "close with a pending batch": Step("complete", "claim", "store", on("PUT", LOG, body='"pending"'), 1),
    # Once to see whether all is there, once more for the time of each file.
    "check files, all there": Step("complete", "claim", "store", on("GET", query="p%3D"), 2 * F),
    "keep": Step("complete", "claim", "store", on("PUT", LOG, body='"kept"'), 1),
    "read footer": Step("complete", "claim", "store", on("GET", DATA), F),
    "register theirs": Step("complete", "claim", "catalog", on("POST", "/add-files"), 1),
    "done theirs": Step("complete", "claim", "store", on("PUT", LOG, body='"closed":true,"state":"done"'), 1),
    "check files, registered": Step("registered", "claim", "store", on("GET", query="p%3D"), 2 * F),
    "check files, one missing": Step("incomplete", "claim", "store", on("GET", query="p%3D"), F),
    "roll back": Step("incomplete", "claim", "store", on("PUT", LOG, body='"closed":true,"state":"done"'), 1),
    "take over after a roll back": Step("incomplete", "claim", "store", on("PUT", LOG, body='"closed":false'), 1),
    "fill": Step("incomplete", "claim", "store", on("PUT", DATA), F),
    "intend": Step("nothing", "write", "store", on("PUT", LOG, body='"pending"'), BATCHES),
    "upload": Step("nothing", "write", "store", on("PUT", DATA), BATCHES * F),
    "verify": Step("nothing", "write", "store", on("GET", LOG), BATCHES),
    "create table": Step("nothing", "write", "catalog", on("PUT", "/tables/"), 1),
    "register": Step("nothing", "write", "catalog", on("POST", "/add-files"), BATCHES),
    "done": Step("nothing", "write", "store", on("PUT", LOG, body='"done"'), BATCHES),
}


def s3_error(status: int, code: str, **headers: str) -> Answer:
    body = f"<Error><Code>{code}</Code><Message>said so</Message></Error>".encode()
    return Answer(status, body, {"Content-Type": "application/xml", **headers})


def live(table: Table, scratch: Path, step: Step, rule: Rule) -> None:
    """A member's life, for whose phase the rule holds."""
    proxy = proxy_of(table, step)
    with Member(table, scratch) as member:
        if step.phase == "claim":
            proxy.add(rule)
        member.claim()
        if step.phase == "claim":
            proxy.remove(rule)
        else:
            proxy.add(rule)
        member.write()


def proxy_of(table: Table, step: Step) -> FaultProxy:
    return table.site.to_store if step.server == "store" else table.site.to_catalog


_DEATHS: Mapping[Left, tuple[str, Matches]] = {
    "incomplete": ("store", on("PUT", f"{DATA}{PLACES[-1]}/")),
    "complete": ("catalog", on("POST", "/add-files")),
    "registered": ("store", on("PUT", JOURNAL, body='"done"')),
}


def leave_behind(left: Left, table: Table, scratch: Path) -> None:
    """Let a member live before, and die as it is said.

    It dies after a batch, or amid its uploads, or with all uploaded, or registered too and not noted as done.
    """
    if left == "nothing":
        return
    with Member(table, scratch) as member:
        member.claim()
        if left == "done":
            member.write(batches=1)
        else:
            server, matches = _DEATHS[left]
            proxy = table.site.to_store if server == "store" else table.site.to_catalog
            proxy.add(Rule(matches, Say(s3_error(403, "AccessDenied"))))
            with pytest.raises(FatalError):
                member.write(batches=1)
    table.site.clear()
