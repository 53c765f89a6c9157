"""Runs checks side by side, each within its time, and gives each result as soon as it is known."""

import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal

from app.errors import ConnectorError

logger = logging.getLogger(__name__)

State = Literal["ok", "FAIL", "--"]


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its name, its subject, and the function that tries it.

    Args:
        name: one word.
        subject: what exactly, as an address.
        work: does it, and says in a few words what it has found; raises ``ConnectorError``.
        seconds: the longest it may take.
        needs: names of checks without which this one cannot be done.
        after: names of checks whose end is waited for, however they end.
    """

    name: str
    subject: str
    work: Callable[[], str]
    seconds: float
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """How a check ended: ``ok``, ``FAIL``, or ``--`` for one that was skipped, after so many seconds of its own."""

    state: State
    detail: str
    seconds: float = 0.0


def run(checks: Sequence[Check]) -> Iterator[tuple[Check, Result]]:
    """Run all checks at once, those that need others after them, and give each result when it is known.

    The result of the last check comes last. A check that is out of time counts as failed; its thread is left behind and
    ends with the process.
    """
    results: Mapping[str, Future[Result]] = {check.name: Future() for check in checks}
    ended: queue.SimpleQueue[Check] = queue.SimpleQueue()
    for check in checks:
        threading.Thread(target=_run_in_turn, args=(check, results, ended), name=check.name, daemon=True).start()
    last = checks[-1]
    for check in (ended.get() for _ in checks):
        if check is not last:
            yield check, results[check.name].result()
    yield last, results[last.name].result()


def line(check: Check, result: Result, width: int) -> str:
    """One line of the answer; names are ``width`` characters wide."""
    begin = f"{result.state:<4}  {check.name:<{width}}  "
    if result.state == "FAIL":
        return f"{begin}{result.detail}  {result.seconds:.2f} s"
    if result.state == "--":
        return f"{begin}{check.subject}  {result.detail}"
    return f"{begin}{check.subject}  {result.detail}  {result.seconds:.2f} s"


def as_json(check: Check, result: Result) -> str:
    """The same as an object in JSON."""
    state = {"ok": "ok", "FAIL": "failed", "--": "skipped"}[result.state]
    told = {"check": check.name, "state": state, "subject": check.subject, "detail": result.detail}
    return json.dumps({**told, "seconds": round(result.seconds, 2)})


def _run_in_turn(check: Check, results: Mapping[str, Future[Result]], ended: "queue.SimpleQueue[Check]") -> None:
    for name in check.after:
        results[name].result()
    missing = next((name for name in check.needs if results[name].result().state != "ok"), None)
    results[check.name].set_result(Result("--", f"skipped: needs the {missing}") if missing else _tried(check))
    ended.put(check)


def _tried(check: Check) -> Result:
    begin = time.monotonic()
    done: Future[str] = Future()
    threading.Thread(target=_fulfil, args=(done, check), name=f"{check.name}-work", daemon=True).start()
    state, detail = _ended(check, done)
    return Result(state, detail, time.monotonic() - begin)


def _ended(check: Check, done: "Future[str]") -> tuple[State, str]:
    try:
        return "ok", done.result(timeout=check.seconds)
    except ConnectorError as error:
        return "FAIL", str(error)
    except Exception as error:
        if not done.done():
            cause = f"it has not ended within {check.seconds:.0f} s"
            return "FAIL", f"{check.subject}: {cause}. Check the address and the network"
        logger.debug("unexpected", exc_info=True)
        return "FAIL", f"{check.subject}: {error!r}. Please report this as a bug; LOGLEVEL=DEBUG shows where it was"


def _fulfil(done: "Future[str]", check: Check) -> None:
    try:
        done.set_result(check.work())
    except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
        done.set_exception(error)
