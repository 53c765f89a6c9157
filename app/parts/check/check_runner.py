"""Runs checks one after the other, each within its time."""

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal

from app.errors import ConnectorError
from app.work_pool import WorkPool

logger = logging.getLogger(__name__)

State = Literal["ok", "FAIL", "--"]

ANSWER_SECONDS: Final = 30.0
_WIDTH: Final = 9  # of the longest name


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its name, its subject, and the function that tries it."""

    name: str
    subject: str  # what exactly, as an address
    work: Callable[[], str]  # says in a few words what it has found, or raises ``ConnectorError``
    needs: tuple[str, ...] = ()  # names of checks before it without which it cannot be done
    seconds: float = ANSWER_SECONDS  # the longest it may take
    table: str = ""  # where there are several, and it is of one


@dataclass(frozen=True, slots=True)
class Result:
    """How a check ended: ``ok``, ``FAIL``, or ``--`` for one that was skipped, after so many seconds of its own."""

    state: State
    detail: str
    seconds: float = 0.0


def run(checks: Iterable[Check], early: Sequence[Check] = ()) -> Iterator[tuple[Check, Result]]:
    """Give the result of each check; those that are begun ``early``, with the first, come last and need no other.

    A check that is out of time counts as failed; its thread is left behind and ends with the process.
    """
    begun = {check.name: WorkPool(check.name).submit(_tried, check) for check in early}
    failed: set[tuple[str, str]] = set()
    for check in chain(checks, early):
        if missing := next((name for name in check.needs if failed & {(name, ""), (name, check.table)}), None):
            result = Result("--", f"skipped: needs the {missing}")
        else:
            result = _ended(check, begun.get(check.name) or WorkPool(check.name).submit(_tried, check))
        if result.state != "ok":
            failed.add((check.name, check.table))
        yield check, result


def line(check: Check, result: Result) -> str:
    subject = "" if result.state == "FAIL" else f"{check.subject}  "
    seconds = "" if result.state == "--" else f"  {result.seconds:.2f} s"
    of_table = f"{check.table}: " if check.table else ""
    return f"{result.state:<4}  {check.name:<{_WIDTH}}  {of_table}{subject}{result.detail}{seconds}"


def as_json(check: Check, result: Result, warnings: Sequence[str] = ()) -> str:
    """The same as an object in JSON, with the warnings since the one before."""
    state = {"ok": "ok", "FAIL": "failed", "--": "skipped"}[result.state]
    told = {"check": check.name, "state": state, "subject": check.subject, "detail": result.detail}
    told |= {"table": check.table} if check.table else {}
    return json.dumps({**told, "seconds": round(result.seconds, 2), "warnings": warnings})


def _tried(check: Check) -> Result:
    begin = time.monotonic()
    state: State = "FAIL"
    try:
        detail = check.work()
        state = "ok"
    except ConnectorError as error:
        detail = str(error)
    except Exception as error:
        logger.debug("unexpected", exc_info=True)
        detail = f"{check.subject}: {error!r}. Please report this as a bug; LOGLEVEL=DEBUG shows where it was"
    return Result(state, detail, time.monotonic() - begin)


def _ended(check: Check, begun: "Future[Result]") -> Result:
    try:
        return begun.result(check.seconds)
    except TimeoutError:
        cause = f"it has not ended within {check.seconds:.0f} s"
        return Result("FAIL", f"{check.subject}: {cause}. Check the address and the network", check.seconds)
