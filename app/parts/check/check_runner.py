"""Runs checks one after the other. Each check has a time limit."""

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
_WIDTH: Final = 9  # number of characters of the longest name of a check


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    subject: str  # what is checked, for example an address
    work: Callable[[], str]  # a function that returns the result in a few words, or raises ``ConnectorError``
    needs: tuple[str, ...] = ()  # names of earlier checks; if an earlier check fails, this check is skipped
    seconds: float = ANSWER_SECONDS  # the time limit
    table: str = ""  # the name of the table; empty for a single table


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a check (``--`` for a skipped check), and the duration in seconds."""

    state: State
    detail: str
    seconds: float = 0.0


def run(checks: Iterable[Check], early: Sequence[Check] = ()) -> Iterator[tuple[Check, Result]]:
    """Yield the result of each check. The checks in ``early`` start first, and their results are yielded last.

    A check fails if it exceeds its time limit. The thread of the check then continues until the process ends.
    """
    futures = {check.name: WorkPool(check.name).submit(_run, check) for check in early}
    failed: set[tuple[str, str]] = set()
    for check in chain(checks, early):
        if missing := next((name for name in check.needs if failed & {(name, ""), (name, check.table)}), None):
            result = Result("--", f"skipped: needs the {missing}")
        else:
            result = _wait(check, futures.get(check.name) or WorkPool(check.name).submit(_run, check))
        if result.state != "ok":
            failed.add((check.name, check.table))
        yield check, result


def line(check: Check, result: Result) -> str:
    subject = "" if result.state == "FAIL" else f"{check.subject}  "
    seconds = "" if result.state == "--" else f"  {result.seconds:.2f} s"
    of_table = f"{check.table}: " if check.table else ""
    return f"{result.state:<4}  {check.name:<{_WIDTH}}  {of_table}{subject}{result.detail}{seconds}"


def as_json(check: Check, result: Result, warnings: Sequence[str] = ()) -> str:
    """Return the result as JSON. ``warnings`` are the warnings since the previous check."""
    state = {"ok": "ok", "FAIL": "failed", "--": "skipped"}[result.state]
    fields = {"check": check.name, "state": state, "subject": check.subject, "detail": result.detail}
    fields |= {"table": check.table} if check.table else {}
    return json.dumps({**fields, "seconds": round(result.seconds, 2), "warnings": warnings})


def _run(check: Check) -> Result:
    begin = time.monotonic()
    state: State = "FAIL"
    try:
        detail, state = check.work(), "ok"
    except ConnectorError as error:
        detail = str(error)
    except Exception as error:
        logger.debug("unexpected", exc_info=True)
        detail = f"{check.subject}: {error!r}. Please report this as a bug; LOGLEVEL=DEBUG shows where it happened"
    return Result(state, detail, time.monotonic() - begin)


def _wait(check: Check, future: "Future[Result]") -> Result:
    try:
        return future.result(check.seconds)
    except TimeoutError:
        cause = f"no answer within {check.seconds:.0f} s"
        return Result("FAIL", f"{check.subject}: {cause}. Check the address and the network", check.seconds)
