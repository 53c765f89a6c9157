"""All sentences of the status page: the headline, and the remarks below it.

Each function yields what is to be said now, the gravest first. The page shows the first headline and all remarks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from math import inf
from typing import Final, Literal

from app.errors import System
from app.formatting import counted, duration, sentence, size
from app.model import EACH_TOPIC
from app.parts.console.shown_status import ShownStatus, listed
from app.retries import Trouble
from app.table.layout import dead_letter_root

Tone = Literal["good", "quiet", "wait", "bad"]  # bad: an operator has to act

TOO_LONG_SECONDS: Final = 600.0  # a longer wait needs an operator; the alerts have the same limit
_TRY_AGAIN: Final = 75  # the exit code
_MB = 2**20
_ENOUGH_FILES: Final = 20  # of the last batches; fewer give no reliable size
_SMALL_SHARE: Final = 16  # a file is small below this share of TARGET_FILE_MB
_DEFAULT_TARGET_MB: Final = 16
_MISSED: Final = 2.1  # intervals; the alert has the same limit
_NAMED: Final = 3  # of tables, and topics
_DELETED = "Kafka does not have it. Once it does, it is read from its first record"
_OFTEN: Final = 5  # takeovers since the start

_NAMES: Final[dict[System | None, str]] = {
    "Kafka": "Kafka",
    "topic": "the input topic",
    "store": "the store",
    "catalog": "the catalog",
    "registry": "the schema registry",
    "Spark": "Spark",
    None: "another system",
}
_CHECKS: Final[dict[System | None, str]] = {
    "topic": "Create it again if it was not to be deleted. The connector then reads it from its first record",
    "Kafka": "Check that the brokers of KAFKA_BOOTSTRAP_SERVERS are up, and the network to them",
    "store": "Check that the store is up, that it has room, and the network to it",
    "catalog": "Check that the catalog is up, and the network to it",
    "registry": "Check that the schema registry is up, the SCHEMA_REGISTRY_ variables, and the network to it",
}
_RETRY: Final[dict[System | None, str]] = {
    "Kafka": "The connector asks again every few seconds, and goes on by itself when Kafka answers",
    "topic": "The process ends within two minutes. Each start ends too, as long as the topic does not exist",
}
_SMALL_WRITES: Final = "Look at the store: it is slow with small writes, one for each batch"
# The steps of a batch in operators' words, and what helps if one is slow; metrics and log have names of their own.
STEPS: Final = {
    "convert": (
        "convert",
        "See whether transform(), ON_BAD_RECORD=fail or values that fit no column make it handle single records",
    ),
    "stage": ("stage", "Give the temporary folder (TMPDIR) a faster disk"),
    "spark": ("write", "Use fewer HIVE_COLUMNS, which make fewer files"),
    "intend": ("prepare", _SMALL_WRITES),
    "upload": (
        "upload",
        "Raise MAX_WRITE_WORKERS, or make larger files by a longer COMMIT_INTERVAL or fewer HIVE_COLUMNS",
    ),
    "register": ("register", "Look at the catalog: it is slow"),
    "done": ("commit", _SMALL_WRITES),
}


@dataclass(frozen=True, slots=True)
class Sentence:
    """A headline or a remark. Empty texts are left out.

    Attributes:
        page: the page of the documents that tells more, without ``.md``, and a heading on it.
        title: what is wrong, or that nothing is.
        reason: in the words of the other side, or more about it.
        next: what happens by itself.
        to_do: what somebody can do about it.
        records: what becomes of the records.
        seconds: for how long it has been so; ``None`` for as long as the connector's state.
        commands: lines for a shell.
    """

    tone: Tone
    title: str
    page: str
    reason: str = ""
    next: str = ""
    to_do: str = ""
    records: str = ""
    seconds: float | None = None
    commands: tuple[str, ...] = ()


def headline(status: ShownStatus) -> Sentence:
    """Returns the most important thing about the connector now."""
    return next(chain(_ending(status), _in_part(status), _waiting(status), _consuming(status)))


def _ending(s: ShownStatus) -> Iterator[Sentence]:
    live, failure = s.live, s.live.failure
    if live.state == "stopping":
        yield Sentence(
            "quiet",
            "Stopping",
            "operations",
            reason=f"{_not_available(live.waits)}: {_reason(live.waits[0])}" if live.waits else "",
            next="What was consumed is written and committed: "
            f"{counted(live.under_way, 'batch', 'batches')}. The process ends after 27 s at the latest",
            records="None is lost: the next start reads again what is not committed by then",
        )
    if failure is None:
        return
    to_do, code = failure.hint, failure.exit_code
    if failure.system == "Spark":
        title = "Spark is gone"
        next_ = f"The process ends with code {code}, and its platform starts a new one"
        to_do = "If this comes back, give the connector more memory (SPARK_DRIVER_MEMORY)"
    elif code is None:
        title, next_ = "The consumer hangs", "The platform restarts the process, if it asks /health/live"
        to_do = "If nothing restarts it, do so: /health/live answers 503"
    elif code == _TRY_AGAIN:
        title = "The process ends, and another start helps"
        next_ = f"It ends with code {_TRY_AGAIN}, and its platform starts a new one"
    else:
        refuses = f"{sentence(_NAMES[failure.system])} refuses a request"
        title = refuses if failure.system else "The connector cannot go on"
        next_ = f"The process ends with code {code}. Another start ends in the same way until this is corrected"
    yield Sentence("bad", title, "operations#exit-codes", _reason(failure), next_, to_do, _kept(s))


def _in_part(s: ShownStatus) -> Iterator[Sentence]:
    lane = s.live.consumption
    if lane.suspended:
        suspended = min(lane.suspended.values(), key=lambda each: each.since)
        names = sorted(map(s.table_of, lane.suspended))
        when = "by the next run" if suspended.again_at == inf else f"in {duration(suspended.again_at - s.counts.at)}"
        yield Sentence(
            "bad",
            f"{counted(len(names), 'table')} suspended: {', '.join(names[:_NAMED])}",
            "monitoring#lakesinktableaside",
            reason=_reason(suspended.trouble),
            next=f"It is tried again {when}, after {counted(suspended.tries, 'try', 'tries')}. Other tables go on",
            to_do=suspended.trouble.hint,
            records="None is lost by this. Kafka has those that are not in the table, as long as the topic keeps them",
            seconds=s.counts.at - suspended.since,
        )
    if programs := s.counts.lasting_programs:
        yield Sentence(
            "bad",
            f"Another program has partitions in the consumer group {s.settings.consumer_group}: {programs[0]}",
            "troubleshooting#rows-of-some-partitions-are-missing",
            next="The connector writes the records of the other partitions",
            to_do="Stop that program, or set CONSUMER_GROUP to a group that only this connector uses",
            records="The table lacks what the other program reads. Kafka has it, as long as the topic keeps it",
            seconds=s.counts.at - s.counts.programs_since,
        )


def _waiting(s: ShownStatus) -> Iterator[Sentence]:
    live, lane = s.live, s.live.consumption
    if live.waits:
        wait = live.waits[0]
        yield Sentence(
            "wait" if wait.seconds < TOO_LONG_SECONDS else "bad",
            _not_available(live.waits),
            "guarantees#what-happens-when",
            reason=_reason(wait),
            next=_next_try(s, wait),
            to_do=wait.hint or _CHECKS.get(wait.system, ""),
            records="Those that are not in the table are gone with it" if wait.system == "topic" else _kept(s),
            seconds=wait.seconds,
        )
    if lane.fenced:
        yield Sentence(
            "wait",
            f"Another member of the group writes {listed(lane.fenced)}",
            "operations#replicas",
            reason=next(iter(lane.fenced.values())),
            next="Kafka takes these partitions away from this replica within seconds. Else the process ends with code "
            "75 after 20 s, and its platform starts it again",
            to_do="If this comes again and again, another deployment uses the same CONSUMER_GROUP and table. Stop one",
            records="None is lost or written twice: the other member writes them",
        )
    if live.state == "starting":
        yield Sentence(
            "quiet",
            "Starting: reaching Kafka, the store and the catalog",
            "operations",
            next="Consuming begins when they answer. Spark starts meanwhile",
        )
    if live.state == "paused":
        slowest, hint = _slowest(s)
        yield Sentence(
            "wait",
            "Writing takes longer than a commit may",
            "operations#batches-and-files",
            reason=slowest,
            next="Consuming pauses for a few seconds, and goes on by itself",
            to_do=hint,
            records=_kept(s),
        )
    if live.state != "waiting":
        return
    if lane.unclaimed:
        yield Sentence(
            "quiet",
            f"Taking over {counted(len(lane.unclaimed), 'partition')}",
            "operations#replicas",
            reason=f"They are being claimed in the journal: {listed(lane.unclaimed)}",
            next="Each is consumed as soon as it is claimed",
        )
    elif not s.counts.positions:
        yield Sentence(
            "quiet",
            "No partition is assigned to this replica",
            "operations#replicas",
            next="Kafka assigns partitions within half a minute. A replica too many gets none: it is a spare one",
        )
    elif live.spark == "starting":
        next_ = "Records are consumed meanwhile, and written as soon as Spark is up"
        yield Sentence("quiet", "Spark is starting", "operations", next=next_)
    else:
        yield Sentence("wait", sentence(live.ready.detail), "monitoring#http-endpoints", records=_kept(s))


def _consuming(s: ShownStatus) -> Iterator[Sentence]:
    if s.counts.losses:
        at, lost = s.counts.losses[-1]
        yield Sentence(
            "bad",
            "Running, but records are missing",
            "guarantees",
            reason=lost,
            next="Later records are written. This is shown until the process ends",
            to_do="Look for a copy of the missing records, and raise the topic's retention",
            records="These are lost for the table: Kafka had them no longer when they were to be read",
            seconds=s.counts.at - at,
        )
    if s.counts.lag is None:
        yield Sentence("good", "Running", "operations")
    if s.is_up_to_date:
        yield Sentence("good", "Running: the table is up to date", "operations")
    behind = f"{counted(s.counts.lag or 0, 'record')} behind"
    if s.age:
        behind += f", the oldest is {duration(s.age)} old, in {s.oldest}"
    if s.stragglers:
        yield Sentence(
            "wait",
            f"Running, but behind in {listed(s.stragglers)}",
            "operations#replicas",
            reason=behind,
            next="The other partitions are up to date",
            to_do="See whether most records have keys of these partitions, and whether their brokers are slow",
            records=_kept(s),
        )
    tone: Tone = "wait" if s.is_late else "good"
    if s.shrinks_by is None or s.catch_up_seconds:
        end = f"caught up in about {duration(s.catch_up_seconds)}" if s.catch_up_seconds else "catching up"
        yield Sentence(tone, f"Running: {end}", "operations#replicas", reason=behind)
    full = "the buffer is full: consuming waits for room" if s.live.consumption.is_full else ""
    slowest, hint = _slowest(s)
    yield Sentence(
        "wait",
        "Running, but the lag does not shrink",
        "operations#replicas",
        reason=_together(behind, full, slowest),
        to_do=_together(hint, "Add replicas, up to the number of partitions, or cores"),
        records=_kept(s),
    )


def remarks(s: ShownStatus) -> Iterator[Sentence]:
    """Yields the remarks for an operator, the gravest first."""
    totals = s.counts.totals
    if totals.dead_letters:
        dead_letter = f"{s.location.store_uri}/{dead_letter_root(s.location.root)}"
        yield Sentence(
            "wait",
            f"{counted(totals.dead_letters, 'record')} in the dead letter since the start",
            "dead-letters",
            f"They could not become rows, and are kept with their reasons in {dead_letter}. "
            "The first command counts them by reason. After a fix, the second sends them to Kafka again",
            commands=("python main.py replay --dry-run", "python main.py replay"),
        )
    if s.live.skipped:
        yield Sentence(
            "wait",
            f"{counted(s.live.skipped, 'record')} left out since the start (ON_BAD_RECORD=skip)",
            "settings#input",
            "They could not become rows, and are not kept. ON_BAD_RECORD=dead-letter keeps such records",
        )
    deleted = dict.fromkeys(s.live.consumption.deleted, _DELETED)
    if left_out := {**s.live.consumption.left_out, **deleted}:
        yield Sentence(
            "wait",
            f"{counted(len(left_out), 'topic')} not written by this replica: {', '.join(sorted(left_out)[:_NAMED])}",
            "many-topics#topics-that-come-and-go",
            _together(*(f"{topic}: {why}" for topic, why in sorted(left_out.items())[:_NAMED])),
        )
    if totals.fenced > _OFTEN:
        yield Sentence(
            "wait",
            f"Other members took over partitions {totals.fenced:,} times since the start",
            "operations#replicas",
            "Does another deployment use the same CONSUMER_GROUP and table? Then stop one of them",
        )
    if totals.rescued:
        yield Sentence(
            "quiet",
            f"{counted(totals.rescued, 'value')} in _rescued_data since the start",
            "guarantees",
            "They do not fit the type of their column, and are kept as JSON. COLUMN_TYPES sets the type of a column",
        )
    yield from _maintenance(s)
    yield from _small_files(s)


def _maintenance(s: ShownStatus) -> Iterator[Sentence]:
    last, which = s.counts.maintenance, "a" if EACH_TOPIC in s.location.name else "the"
    if s.settings.keep and last and last.refused:
        yield Sentence(
            "wait",
            f"KEEP={s.settings.keep} would erase {last.refused:.0f} % of {which} table",
            "maintenance#keep-only-400-days",
            "Its last run has erased nothing. If all of that may go, set KEEP_CONFIRMED to the same as KEEP",
        )
    if s.settings.keep and last and last.clock:
        clock = f"KEEP has erased nothing: this machine's clock is {duration(abs(last.clock))} off the store's"
        yield Sentence("wait", clock, "maintenance#keep-only-400-days", "Set the clock of the machine (NTP)")
    if last and last.failed:
        yield Sentence(
            "wait",
            f"The last compaction left {counted(int(last.failed), 'folder')}",
            "maintenance#compact",
            "The log of the replica that ran it has the reasons. The command shows what the next run would do",
            commands=("python main.py compact --dry-run",),
        )
    if s.compacted_at and s.counts.at - s.compacted_at > _MISSED * (s.compaction_seconds or 0):
        yield Sentence(
            "wait",
            f"No compaction came to its end for {duration(s.counts.at - s.compacted_at)}",
            "maintenance#compact",
            "The log has the reasons, in lines that begin with compact. It may need more than a tenth of a core, "
            "or a longer interval in COMPACT",
        )


def _small_files(s: ShownStatus) -> Iterator[Sentence]:
    batches, wanted_mb = s.counts.last_batches, s.settings.target_file_mb
    files = sum(batch.files for batch in batches)
    average = sum(batch.size for batch in batches) // max(1, files)
    if files < _ENOUGH_FILES or average >= (wanted_mb or _DEFAULT_TARGET_MB) * _MB / _SMALL_SHARE:
        return
    in_each = round(files / len(batches))
    fewer = f"So do fewer HIVE_COLUMNS: a batch makes {counted(in_each, 'file')}"
    advice = _together(
        "" if wanted_mb else f"TARGET_FILE_MB=0 writes files of any size: try {_DEFAULT_TARGET_MB}",
        f"A longer COMMIT_INTERVAL (now {duration(s.settings.commit_interval)}) makes them larger",
        fewer if in_each > max(1, len(s.counts.positions)) else "",
    )
    compacts = s.settings.compact is not None
    yield Sentence(
        "quiet",
        f"Small files: {size(average)} on average",
        "maintenance#compact",
        _together(
            f"The last {files:,} files are slow to read",
            "COMPACT merges those of the past" if compacts else "The command merges those of the past",
            advice,
        ),
        commands=() if compacts else ("python main.py compact",),
    )


# --- texts of several sentences -------------------------------------------------------------------------------------


def _not_available(waits: tuple[Trouble, ...]) -> str:
    names = list(dict.fromkeys(_NAMES[wait.system] for wait in waits))
    together = sentence(" and ".join(filter(None, [", ".join(names[:-1]), names[-1]])))
    if all(wait.is_unanswered for wait in waits):
        return f"{together} {'do' if len(names) > 1 else 'does'} not answer"
    return f"{together} {'are' if len(names) > 1 else 'is'} not available"


def _next_try(s: ShownStatus, wait: Trouble) -> str:
    if s.live.state == "starting":
        return (
            "The connector tries again for as long as its log says. If that does not help, the process ends with "
            "code 75, and its platform starts it again"
        )
    retry = _RETRY.get(wait.system, "The connector tries again, at the latest after 30 s, and goes on by itself")
    if wait.is_unanswered:
        retry = "The connector waits for the answer, asks again after a minute or two, and goes on by itself"
    return retry + (". Consuming is paused meanwhile" if s.live.state == "paused" else "")


def _slowest(s: ShownStatus) -> tuple[str, str]:
    """Returns which step takes most of the time of the last batches, and what helps."""
    seconds = {step: sum(batch.seconds.get(step, 0.0) for batch in s.counts.last_batches) for step in STEPS}
    total = sum(seconds.values())
    if not total:
        return "", ""
    step = max(seconds, key=seconds.__getitem__)
    name, hint = STEPS[step]
    return f"the step {name} takes {seconds[step] / total:.0%} of the time", hint


def _kept(s: ShownStatus) -> str:
    age = f". The oldest is {duration(s.age)} old" if s.age else ""
    return f"None is lost by this. Kafka has those that are not committed, as long as the topic keeps them{age}"


def _reason(trouble: Trouble) -> str:
    return f"{trouble.doing}: {trouble.cause}"


def _together(*texts: str) -> str:
    return ". ".join(sentence(text) for text in texts if text)
