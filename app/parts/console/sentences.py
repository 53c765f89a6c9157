"""Writes the sentences of the status page: the headline, and the remarks below the headline.

Each function yields the sentences that apply now, the most serious first. The page shows one headline and all remarks.
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

TOO_LONG_SECONDS: Final = 600.0  # after this time, an operator must act; the alerts have the same limit
_TRY_AGAIN: Final = 75  # the exit code of a temporary failure
_MB = 2**20
_ENOUGH_FILES: Final = 20  # minimum number of files in the last batches for a reliable average size
_SMALL_SHARE: Final = 16  # a file is small below TARGET_FILE_MB divided by this number
_DEFAULT_TARGET_MB: Final = 16
_MISSED: Final = 2.1  # number of maintenance periods; the alert has the same limit
_NAMED: Final = 3  # maximum number of names of tables or topics in a sentence
_DELETED = "It does not exist in Kafka. If it is created again, the connector reads it from its first record"

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
    "topic": "If it was deleted by mistake, create it again. The connector then reads it from its first record",
    "Kafka": "Check that the brokers of KAFKA_BOOTSTRAP_SERVERS are up, and check the network",
    "store": "Check that the store is up and has free space, and check the network",
    "catalog": "Check that the catalog is up, and check the network",
    "registry": "Check that the schema registry is up, and check the SCHEMA_REGISTRY_ variables and the network",
}
_RETRY: Final[dict[System | None, str]] = {
    "Kafka": "The connector retries every few seconds, and continues automatically when Kafka answers",
    "topic": "The process ends within two minutes. Each restart ends too, until the topic exists",
}
_SMALL_WRITES: Final = "Check the store: small writes are slow, and each batch needs one"
# For each step of a batch: the name that the page shows, and a hint for a slow step. Metrics and logs use the keys.
STEPS: Final = {
    "convert": (
        "convert",
        "Check whether transform(), ON_BAD_RECORD=fail or values that fit no column require single-record processing",
    ),
    "stage": ("stage", "Give the temporary folder (TMPDIR) a faster disk"),
    "spark": ("write", "Use fewer HIVE_COLUMNS, which make fewer files"),
    "intend": ("prepare", _SMALL_WRITES),
    "upload": (
        "upload",
        "Raise MAX_WRITE_WORKERS, or write larger files with a longer COMMIT_INTERVAL or fewer HIVE_COLUMNS",
    ),
    "register": ("register", "Check the catalog: it is slow"),
    "done": ("commit", _SMALL_WRITES),
}


@dataclass(frozen=True, slots=True)
class Sentence:
    """A headline or a remark. The page does not show empty texts.

    Attributes:
        page: The page of the documentation and a heading, for example ``operations#memory``.
        title: The problem, or the state if there is no problem.
        reason: The error message of the other system, or details.
        next: The next action of the connector.
        to_do: The advice for the operator.
        records: The consequence for the records.
        seconds: The duration of the problem; ``None`` if the problem began with the connector's present state.
        commands: Shell commands that the operator can run.
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
    return next(chain(_ending(status), _in_part(status), _waiting(status), _consuming(status)))


def _ending(s: ShownStatus) -> Iterator[Sentence]:
    live, failure = s.live, s.live.failure
    if live.state == "stopping":
        yield Sentence(
            "quiet",
            "Stopping",
            "operations",
            reason=f"{_not_available(live.waits)}: {_reason(live.waits[0])}" if live.waits else "",
            next="The connector writes and commits the consumed records: "
            f"{counted(live.under_way, 'batch', 'batches')}. The process ends after 27 s at the latest",
            records="No record is lost: the next start reads uncommitted records again",
        )
    if failure is None:
        return
    to_do, code = failure.hint, failure.exit_code
    if failure.system == "Spark":
        title = "Spark is gone"
        next_ = f"The process ends with code {code}, and its platform restarts it"
        to_do = "If this happens again, give the connector more memory (SPARK_DRIVER_MEMORY)"
    elif code is None:
        title, next_ = "The consumer hangs", "If the platform probes /health/live, it restarts the process"
        to_do = "If nothing restarts the process, restart it: /health/live answers 503"
    elif code == _TRY_AGAIN:
        title = "The process ends, and a restart helps"
        next_ = f"The process ends with code {_TRY_AGAIN}, and its platform restarts it"
    else:
        refuses = f"{sentence(_NAMES[failure.system])} refuses a request"
        title = refuses if failure.system else "The connector cannot continue"
        next_ = f"The process ends with code {code}. Each restart ends in the same way until this is corrected"
    yield Sentence("bad", title, "operations#exit-codes", _reason(failure), next_, to_do, _kept(s))


def _in_part(s: ShownStatus) -> Iterator[Sentence]:
    lane = s.live.consumption
    if lane.suspended:
        suspended = min(lane.suspended.values(), key=lambda table: table.since)
        names, tries = sorted(map(s.table_of, lane.suspended)), counted(suspended.tries, "try", "tries")
        when = "in the next run" if suspended.again_at == inf else f"in {duration(suspended.again_at - s.counts.at)}"
        yield Sentence(
            "bad",
            f"{counted(len(names), 'table')} suspended: {', '.join(names[:_NAMED])}",
            "monitoring#lakesinktableaside",
            reason=_reason(suspended.trouble),
            next=f"The connector retries {when}, after {tries}. Other tables continue",
            to_do=suspended.trouble.hint,
            records="No record is lost by this: Kafka keeps those that are not in the table for the topic's retention",
            seconds=s.counts.at - suspended.since,
        )
    if programs := s.counts.lasting_programs:
        yield Sentence(
            "bad",
            f"Another program has partitions in the consumer group {s.settings.consumer_group}: {programs[0]}",
            "troubleshooting#rows-of-some-partitions-are-missing",
            next="The connector writes the records of the other partitions",
            to_do="Stop that program, or set CONSUMER_GROUP to a group that only this connector uses",
            records="The table lacks the records of the other program. Kafka keeps them for the topic's retention",
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
            records="Those that are not in the table are lost with it" if wait.system == "topic" else _kept(s),
            seconds=wait.seconds,
        )
    if lane.fenced:
        yield Sentence(
            "wait",
            f"Another member of the group writes {listed(lane.fenced)}",
            "operations#replicas",
            reason=next(iter(lane.fenced.values())),
            next="Kafka revokes these partitions from this replica within seconds. Otherwise the process ends with "
            "code 75 after 20 s, and its platform restarts it",
            to_do="If this happens often, another deployment uses the same CONSUMER_GROUP and table. Stop one of them",
            records="No record is lost or duplicated: the other member writes them",
        )
    if live.state == "starting":
        yield Sentence(
            "quiet",
            "Starting: connecting to Kafka, the store and the catalog",
            "operations",
            next="Consuming begins when they answer. Spark starts at the same time",
        )
    if live.state == "paused":
        slowest, hint = _slowest(s)
        yield Sentence(
            "wait",
            "Writing takes longer than a commit may",
            "operations#batches-and-files",
            reason=slowest,
            next="Consuming pauses for a few seconds, and continues automatically",
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
            reason=f"The connector claims them in the journal: {listed(lane.unclaimed)}",
            next="Each partition is consumed as soon as it is claimed",
        )
    elif not s.counts.positions:
        yield Sentence(
            "quiet",
            "No partition is assigned to this replica",
            "operations#replicas",
            next="Kafka assigns partitions within half a minute. If there are more replicas than partitions, some "
            "stay without one as spares",
        )
    elif live.spark == "starting":
        next_ = "The connector consumes records meanwhile, and writes them as soon as Spark runs"
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
            next="Later records are written. This message stays until the process ends",
            to_do="Look for a copy of the missing records, and raise the topic's retention",
            records="These records are lost for the table: Kafka deleted them before they were read",
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
            to_do="Check whether most records have keys of these partitions, and whether their brokers are slow",
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
        reason=_join(behind, full, slowest),
        to_do=_join(hint, "Add replicas, up to the number of partitions, or cores"),
        records=_kept(s),
    )


def remarks(s: ShownStatus) -> Iterator[Sentence]:
    """Yield the remarks for an operator. The most serious remark is first."""
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
            f"{counted(s.live.skipped, 'record')} skipped since the start (ON_BAD_RECORD=skip)",
            "settings#input",
            "They could not become rows, and are not kept. ON_BAD_RECORD=dead-letter keeps these records",
        )
    deleted = dict.fromkeys(s.live.consumption.deleted, _DELETED)
    if left_out := {**s.live.consumption.left_out, **deleted}:
        yield Sentence(
            "wait",
            f"{counted(len(left_out), 'topic')} not written by this replica: {', '.join(sorted(left_out)[:_NAMED])}",
            "many-topics#topics-that-come-and-go",
            _join(*(f"{topic}: {why}" for topic, why in sorted(left_out.items())[:_NAMED])),
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
            "The last run has erased nothing. If these rows may be erased, set KEEP_CONFIRMED to the value of KEEP",
        )
    if s.settings.keep and last and last.clock:
        clock = f"KEEP has erased nothing: the clocks of machine and store differ by {duration(abs(last.clock))}"
        yield Sentence("wait", clock, "maintenance#keep-only-400-days", "Synchronise the machine's clock (NTP)")
    if last and last.failed:
        yield Sentence(
            "wait",
            f"The last compaction failed in {counted(int(last.failed), 'folder')}",
            "maintenance#compact",
            "The log of the replica that ran it contains the reasons. The command shows the plan of the next run",
            commands=("python main.py compact --dry-run",),
        )
    if s.compacted_at and s.counts.at - s.compacted_at > _MISSED * (s.compaction_seconds or 0):
        yield Sentence(
            "wait",
            f"No compaction has completed for {duration(s.counts.at - s.compacted_at)}",
            "maintenance#compact",
            "The log contains the reasons, in lines that begin with compact. Compaction may need more than a tenth of "
            "a core, or a longer interval in COMPACT",
        )


def _small_files(s: ShownStatus) -> Iterator[Sentence]:
    batches, target_mb = s.counts.last_batches, s.settings.target_file_mb
    files = sum(batch.files for batch in batches)
    average = sum(batch.size for batch in batches) // max(1, files)
    if files < _ENOUGH_FILES or average >= (target_mb or _DEFAULT_TARGET_MB) * _MB / _SMALL_SHARE:
        return
    files_a_batch = round(files / len(batches))
    fewer = f"Fewer HIVE_COLUMNS also make them larger: a batch writes {counted(files_a_batch, 'file')}"
    advice = _join(
        "" if target_mb else f"TARGET_FILE_MB=0 writes files of any size: try {_DEFAULT_TARGET_MB}",
        f"A longer COMMIT_INTERVAL (now {duration(s.settings.commit_interval)}) makes them larger",
        fewer if files_a_batch > max(1, len(s.counts.positions)) else "",
    )
    compacts = s.settings.compact is not None
    yield Sentence(
        "quiet",
        f"Small files: {size(average)} on average",
        "maintenance#compact",
        _join(
            f"The last {files:,} files are slow to read",
            "COMPACT merges older files" if compacts else "The command merges older files",
            advice,
        ),
        commands=() if compacts else ("python main.py compact",),
    )


# --- texts that several sentences use -------------------------------------------------------------------------------


def _not_available(waits: tuple[Trouble, ...]) -> str:
    names = list(dict.fromkeys(_NAMES[wait.system] for wait in waits))
    systems = sentence(" and ".join(filter(None, [", ".join(names[:-1]), names[-1]])))
    if all(wait.is_unanswered for wait in waits):
        return f"{systems} {'do' if len(names) > 1 else 'does'} not answer"
    return f"{systems} {'are' if len(names) > 1 else 'is'} not available"


def _next_try(s: ShownStatus, wait: Trouble) -> str:
    if s.live.state == "starting":
        return (
            "The connector retries for the time that its log shows. If that does not help, the process ends with "
            "code 75, and its platform restarts it"
        )
    retry = _RETRY.get(wait.system, "The connector retries, at the latest after 30 s, and continues automatically")
    if wait.is_unanswered:
        retry = "The connector waits for the answer, retries after a minute or two, and continues automatically"
    return retry + (". Consuming is paused meanwhile" if s.live.state == "paused" else "")


def _slowest(s: ShownStatus) -> tuple[str, str]:
    """Return a text about the slowest step of the last batches, and a hint for this step."""
    seconds = {step: sum(batch.seconds.get(step, 0.0) for batch in s.counts.last_batches) for step in STEPS}
    total = sum(seconds.values())
    if not total:
        return "", ""
    step = max(seconds, key=seconds.__getitem__)
    name, hint = STEPS[step]
    return f"the step {name} takes {seconds[step] / total:.0%} of the time", hint


def _kept(s: ShownStatus) -> str:
    age = f". The oldest is {duration(s.age)} old" if s.age else ""
    return f"No record is lost by this: Kafka keeps uncommitted records for the topic's retention{age}"


def _reason(trouble: Trouble) -> str:
    return f"{trouble.doing}: {trouble.cause}"


def _join(*texts: str) -> str:
    return ". ".join(sentence(text) for text in texts if text)
