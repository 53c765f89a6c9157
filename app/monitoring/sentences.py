"""All sentences of the status page, as tables of conditions and texts: the headline, and the remarks below it.

The page shows the first headline and all remarks whose conditions hold.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from app import formatting
from app.errors import System
from app.monitoring.metrics import Counts, Identity, Live
from app.monitoring.plain_words import plain
from app.monitoring.progress import Progress, listed, slowest_step
from app.monitoring.waits import Trouble

Tone = Literal["good", "quiet", "wait", "bad"]  # bad: an operator has to act

TOO_LONG_SECONDS: Final = 600.0  # a longer wait needs an operator; the alerts have the same limit
_TRY_AGAIN: Final = 75  # the exit code
_MB = 2**20
_ENOUGH_FILES: Final = 20  # of the last batches; fewer give no reliable size
_SMALL_SHARE: Final = 16  # a file is small below this share of TARGET_FILE_MB
_DEFAULT_TARGET_MB: Final = 16
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
_STEP_HINTS: Final = {
    "convert": "See whether transform(), ON_BAD_RECORD=fail or values that fit no column make it handle single records",
    "stage": "Give the temporary folder (TMPDIR) a faster disk",
    "write": "Use fewer HIVE_COLUMNS, which make fewer files",
    "prepare": "Look at the store: it is slow with small writes, one for each batch",
    "upload": "Raise MAX_WRITE_WORKERS, or make larger files by a longer COMMIT_INTERVAL or fewer HIVE_COLUMNS",
    "register": "Look at the catalog: it is slow",
    "commit": "Look at the store: it is slow with small writes, one for each batch",
}


@dataclass(frozen=True, slots=True)
class Situation:
    """The connector's present state, and texts of several sentences."""

    identity: Identity
    live: Live
    counts: Counts
    progress: Progress

    @property
    def failure(self) -> Trouble:
        return self.live.failure or Trouble(None, "", "")

    @property
    def wait(self) -> Trouble:
        """The longest wait."""
        return self.live.waits[0]

    @property
    def not_available(self) -> str:
        waits = self.live.waits
        names = list(dict.fromkeys(_NAMES[wait.system] for wait in waits))
        together = formatting.sentence(" and ".join(filter(None, [", ".join(names[:-1]), names[-1]])))
        if all(wait.is_unanswered for wait in waits):
            return f"{together} {'do' if len(names) > 1 else 'does'} not answer"
        return f"{together} {'are' if len(names) > 1 else 'is'} not available"

    @property
    def next_try(self) -> str:
        if self.live.state == "starting":
            return (
                "The connector tries for a minute. If that does not help, the process ends with code 75, and its "
                "platform starts it again"
            )
        retry = "The connector tries again, at the latest after 30 s, and goes on by itself"
        if self.wait.is_unanswered:
            retry = "The connector waits for the answer, asks again after a minute or two, and goes on by itself"
        elif self.wait.system in _RETRY:
            retry = _RETRY[self.wait.system]
        return retry + (". Consuming is paused meanwhile" if self.live.state == "paused" else "")

    @property
    def behind(self) -> str:
        behind = f"{formatting.counted(self.progress.lag or 0, 'record')} behind"
        if not self.progress.age:
            return behind
        return f"{behind}, the oldest is {formatting.duration(self.progress.age)} old, in {self.progress.oldest}"

    @property
    def slowest(self) -> str:
        """The step that takes most of the time."""
        found = slowest_step(self.counts.last_batches)
        return f"the step {found[0]} takes {found[1]:.0%} of the time" if found else ""

    @property
    def slowest_hint(self) -> str:
        found = slowest_step(self.counts.last_batches)
        return _STEP_HINTS.get(found[0], "") if found else ""

    @property
    def kept(self) -> str:
        age = f". The oldest is {formatting.duration(self.progress.age)} old" if self.progress.age else ""
        return f"None is lost by this. Kafka has those that are not committed, as long as the topic keeps them{age}"

    @property
    def files(self) -> int:
        """The number of files of the last batches."""
        return sum(batch.files for batch in self.counts.last_batches)

    @property
    def file_bytes(self) -> int:
        """The average size of these files."""
        return sum(batch.size for batch in self.counts.last_batches) // max(1, self.files)

    @property
    def has_small_files(self) -> bool:
        wanted = (self.identity.target_file_mb or _DEFAULT_TARGET_MB) * _MB
        return self.files >= _ENOUGH_FILES and self.file_bytes < wanted / _SMALL_SHARE

    @property
    def larger_files(self) -> str:
        in_each = round(self.files / len(self.counts.last_batches))
        interval = formatting.duration(self.identity.commit_interval)
        any_size = f"TARGET_FILE_MB=0 writes files of any size: try {_DEFAULT_TARGET_MB}"
        fewer = f"So do fewer HIVE_COLUMNS: a batch makes {formatting.counted(in_each, 'file')}"
        return _together(
            "" if self.identity.target_file_mb else any_size,
            f"A longer COMMIT_INTERVAL (now {interval}) makes them larger",
            fewer if in_each > max(1, len(self.counts.positions)) else "",
        )


@dataclass(frozen=True, slots=True)
class Sentence:
    """A headline or a remark. Empty texts are left out.

    Attributes:
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
    reason: str = ""
    next: str = ""
    to_do: str = ""
    records: str = ""
    seconds: float | None = None
    commands: tuple[str, ...] = ()


_Rows = Sequence[tuple[Callable[[Situation], object], Callable[[Situation], Sentence]]]

HEADLINES: Final[_Rows] = (
    (
        lambda s: s.live.state == "stopping",
        lambda s: Sentence(
            "quiet",
            "Stopping",
            reason=f"{s.not_available}: {_reason(s.wait)}" if s.live.waits else "",
            next="What was consumed is written and committed: "
            f"{formatting.counted(s.live.under_way, 'batch', 'batches')}. The process ends after 27 s at the latest",
            records="None is lost: the next start reads again what is not committed by then",
        ),
    ),
    (
        lambda s: s.live.failure and s.failure.system == "Spark",
        lambda s: _failing(
            s,
            "Spark is gone",
            next=f"The process ends with code {s.failure.exit_code}, and its platform starts a new one",
            to_do="If this comes back, give the connector more memory (SPARK_DRIVER_MEMORY)",
        ),
    ),
    (
        lambda s: s.live.failure and s.failure.exit_code is None,
        lambda s: _failing(
            s,
            "The consumer hangs",
            next="The platform restarts the process, if it asks /health/live",
            to_do="If nothing restarts it, do so: /health/live answers 503",
        ),
    ),
    (
        lambda s: s.live.failure and s.failure.exit_code == _TRY_AGAIN,
        lambda s: _failing(
            s,
            "The process ends, and another start helps",
            next=f"It ends with code {_TRY_AGAIN}, and its platform starts a new one",
        ),
    ),
    (
        lambda s: s.live.failure,
        lambda s: _failing(
            s,
            f"{formatting.sentence(_NAMES[s.failure.system])} refuses a request"
            if s.failure.system
            else "The connector cannot go on",
            next=f"The process ends with code {s.failure.exit_code}. "
            "Another start ends in the same way until this is corrected",
        ),
    ),
    (
        lambda s: s.live.waits,
        lambda s: Sentence(
            "wait" if s.wait.seconds < TOO_LONG_SECONDS else "bad",
            s.not_available,
            reason=_reason(s.wait),
            next=s.next_try,
            to_do=plain(s.wait.hint) or _CHECKS.get(s.wait.system, ""),
            records="Those that are not in the table are gone with it" if s.wait.system == "topic" else s.kept,
            seconds=s.wait.seconds,
        ),
    ),
    (
        lambda s: s.live.fenced,
        lambda s: Sentence(
            "wait",
            f"Another member of the group writes {listed(s.live.fenced)}",
            reason=plain(next(iter(s.live.fenced.values()))),
            next="Kafka takes these partitions away from this replica within seconds. Else the process ends with code "
            "75 after 20 s, and its platform starts it again",
            to_do="If this comes again and again, another deployment uses the same CONSUMER_GROUP and table. Stop one",
            records="None is lost or written twice: the other member writes them",
        ),
    ),
    (
        lambda s: s.live.state == "starting",
        lambda _: Sentence(
            "quiet",
            "Starting: reaching Kafka, the store and the catalog",
            next="Consuming begins when they answer. Spark starts meanwhile",
        ),
    ),
    (
        lambda s: s.live.state == "paused",
        lambda s: Sentence(
            "wait",
            "Writing takes longer than a commit may",
            reason=s.slowest,
            next="Consuming pauses for a few seconds, and goes on by itself",
            to_do=s.slowest_hint,
            records=s.kept,
        ),
    ),
    (
        lambda s: s.live.state == "waiting" and s.live.unclaimed,
        lambda s: Sentence(
            "quiet",
            f"Taking over {formatting.counted(len(s.live.unclaimed), 'partition')}",
            reason=f"They are being claimed in the journal: {listed(s.live.unclaimed)}",
            next="Each is consumed as soon as it is claimed",
        ),
    ),
    (
        lambda s: s.live.state == "waiting" and not s.counts.positions,
        lambda _: Sentence(
            "quiet",
            "No partition is assigned to this replica",
            next="Kafka assigns partitions within half a minute. A replica too many gets none: it is a spare one",
        ),
    ),
    (
        lambda s: s.live.state == "waiting" and s.live.spark == "starting",
        lambda _: Sentence(
            "quiet",
            "Spark is starting",
            next="Records are consumed meanwhile, and written as soon as Spark is up",
        ),
    ),
    (
        lambda s: s.live.state == "waiting",
        lambda s: Sentence("wait", formatting.sentence(plain(s.live.detail)), records=s.kept),
    ),
    (
        lambda s: s.counts.losses,
        lambda s: Sentence(
            "bad",
            "Running, but records are missing",
            reason=plain(s.counts.losses[-1][1]),
            next="Later records are written. This is shown until the process ends",
            to_do="Look for a copy of the missing records, and raise the topic's retention",
            records="These are lost for the table: Kafka had them no longer when they were to be read",
            seconds=s.counts.at - s.counts.losses[-1][0],
        ),
    ),
    (lambda s: s.progress.lag is None, lambda _: Sentence("good", "Running")),
    (lambda s: s.progress.is_up_to_date, lambda _: Sentence("good", "Running: the table is up to date")),
    (
        lambda s: s.progress.stragglers,
        lambda s: Sentence(
            "wait",
            f"Running, but behind in {listed(s.progress.stragglers)}",
            reason=s.behind,
            next="The other partitions are up to date",
            to_do="See whether most records have keys of these partitions, and whether their brokers are slow",
            records=s.kept,
        ),
    ),
    (
        lambda s: s.progress.shrinks_by is None,
        lambda s: Sentence("good", "Running: catching up", reason=s.behind),
    ),
    (
        lambda s: s.progress.catch_up_seconds,
        lambda s: Sentence(
            "good",
            f"Running: caught up in about {formatting.duration(s.progress.catch_up_seconds or 0.0)}",
            reason=s.behind,
        ),
    ),
    (
        lambda _: True,
        lambda s: Sentence(
            "wait",
            "Running, but the lag does not shrink",
            reason=_together(s.behind, s.live.detail, s.slowest),
            to_do=_together(s.slowest_hint, "Add replicas, up to the number of partitions, or cores"),
            records=s.kept,
        ),
    ),
)

REMARKS: Final[_Rows] = (
    (
        lambda s: s.counts.dead_letters,
        lambda s: Sentence(
            "wait",
            f"{formatting.counted(s.counts.dead_letters, 'record')} in the dead letter since the start",
            f"They could not become rows, and are kept with their reasons in {s.identity.dead_letter}. "
            "The first command counts them by reason. After a fix, the second sends them to Kafka again",
            commands=("python main.py replay --dry-run", "python main.py replay"),
        ),
    ),
    (
        lambda s: s.live.skipped,
        lambda s: Sentence(
            "wait",
            f"{formatting.counted(s.live.skipped, 'record')} left out since the start (ON_BAD_RECORD=skip)",
            "They could not become rows, and are not kept. ON_BAD_RECORD=dead-letter keeps such records",
        ),
    ),
    (
        lambda s: s.counts.fenced > _OFTEN,
        lambda s: Sentence(
            "wait",
            f"Other members took over partitions {s.counts.fenced:,} times since the start",
            "Does another deployment use the same CONSUMER_GROUP and table? Then stop one of them",
        ),
    ),
    (
        lambda s: s.counts.rescued,
        lambda s: Sentence(
            "quiet",
            f"{formatting.counted(s.counts.rescued, 'value')} in _rescued_data since the start",
            "They do not fit the type of their column, and are kept as JSON. COLUMN_TYPES sets the type of a column",
        ),
    ),
    (
        lambda s: s.has_small_files,
        lambda s: Sentence(
            "quiet",
            f"Small files: {formatting.size(s.file_bytes)} on average",
            f"The last {s.files:,} files are slow to read. {s.larger_files}",
        ),
    ),
)


def headline(situation: Situation) -> Sentence:
    """Returns the most important thing about the connector now."""
    return next(says(situation) for when, says in HEADLINES if when(situation))


def remarks(situation: Situation) -> list[Sentence]:
    """Returns the remarks for an operator, the gravest first."""
    return [says(situation) for when, says in REMARKS if when(situation)]


def _failing(situation: Situation, title: str, *, next: str, to_do: str = "") -> Sentence:  # noqa: A002 - as the field
    failure = situation.failure
    return Sentence("bad", title, _reason(failure), next, to_do or plain(failure.hint), situation.kept)


def _reason(trouble: Trouble) -> str:
    return plain(f"{trouble.doing}: {trouble.cause}")


def _together(*texts: str) -> str:
    return ". ".join(formatting.sentence(text) for text in texts if text)
