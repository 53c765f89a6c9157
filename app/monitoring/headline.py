"""Says in a few lines what is wrong, since when, what happens next, what to do, and whether records are safe."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from app import formatting
from app.errors import System
from app.model import TopicPartition
from app.monitoring.metrics import Counts, Live
from app.monitoring.plain_words import plain
from app.monitoring.progress import Progress, listed, slowest_step
from app.monitoring.waits import Trouble

Tone = Literal["good", "quiet", "wait", "bad"]  # bad: somebody has to do something

TOO_LONG_SECONDS: Final = 600.0  # a wait from here on needs somebody; the alerts take the same time
_TRY_AGAIN: Final = 75  # the exit code
_NAMES: Final[dict[System | None, str]] = {
    "Kafka": "Kafka",
    "topic": "the input topic",
    "store": "the store",
    "catalog": "the catalog",
    "Spark": "Spark",
    None: "another system",
}
_CHECKS: Final[dict[System | None, str]] = {
    "topic": "Create it again if it was not to be deleted. The connector then reads it from its first record",
    "Kafka": "Check that the brokers of KAFKA_BOOTSTRAP_SERVERS are up, and the network to them",
    "store": "Check that the store is up, that it has room, and the network to it",
    "catalog": "Check that the catalog is up, and the network to it",
}
_RETRY: Final[dict[System | None, str]] = {
    "Kafka": "The connector asks again every few seconds, and goes on by itself when Kafka answers",
    "topic": "The process ends within two minutes. Each start ends too, as long as the topic does not exist",
    None: "The connector tries again, at the latest after 30 s, and goes on by itself",
}
_UNANSWERED: Final = "The connector waits for the answer, asks again after a minute or two, and goes on by itself"
_AT_START: Final = (
    "The connector tries for a minute. If that does not help, the process ends with code 75, and its platform starts "
    "it again"
)
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
class Headline:
    """What the page says first. Empty texts are left out.

    Attributes:
        tone: its colour.
        title: what is wrong, or that nothing is.
        seconds: since when, seconds ago; ``None`` for as long as the connector has been like this.
        reason: in the words of the other side.
        next: what happens by itself.
        to_do: what somebody can do about it.
        records: what becomes of the records.
    """

    tone: Tone
    title: str
    seconds: float | None = None
    reason: str = ""
    next: str = ""
    to_do: str = ""
    records: str = ""


def headline(live: Live, counts: Counts, progress: Progress) -> Headline:
    """The most important thing about the connector now.

    Args:
        live: the state.
        counts: with partitions and the last batches.
        progress: how far the table is behind.
    """
    if live.state == "stopping":
        return _stopping(live)
    if live.failure:
        return _failing(live.failure, progress)
    if live.waits:
        return _waiting_for_others(live, progress)
    if live.fenced:
        return _taken_over(live.fenced)
    if live.state == "starting":
        title = "Starting: reaching Kafka, the store and the catalog"
        return Headline("quiet", title, next="Consuming begins when they answer. Spark starts meanwhile")
    if live.state == "paused":
        slowest, hint = _slowest(counts)
        return Headline(
            "wait",
            "Writing takes longer than a commit may",
            reason=slowest,
            next="Consuming pauses for a few seconds, and goes on by itself",
            to_do=hint,
            records=_kept(progress),
        )
    if live.state == "waiting":
        return _not_ready(live, counts, progress)
    return _running(live, counts, progress)


def _stopping(live: Live) -> Headline:
    away = f"{_not_available(live.waits)}: {_reason(live.waits[0])}" if live.waits else ""
    left = formatting.counted(live.under_way, "batch", "batches")
    return Headline(
        "quiet",
        "Stopping",
        reason=away,
        next=f"What was consumed is written and committed: {left}. The process ends after 27 s at the latest",
        records="None is lost: the next start reads again what is not committed by then",
    )


def _failing(failure: Trouble, progress: Progress) -> Headline:
    code = failure.exit_code
    if failure.system == "Spark":
        title, hint = "Spark is gone", "If this comes back, give the connector more memory (SPARK_DRIVER_MEMORY)"
        following = f"The process ends with code {code}, and its platform starts a new one"
    elif code is None:
        title, hint = "The consumer hangs", "If nothing restarts it, do so: /health/live answers 503"
        following = "The platform restarts the process, if it asks /health/live"
    elif code == _TRY_AGAIN:
        title, hint = "The process ends, and another start helps", failure.hint
        following = f"It ends with code {code}, and its platform starts a new one"
    else:
        refusal = f"{formatting.sentence(_NAMES[failure.system])} refuses a request"
        title, hint = refusal if failure.system else "The connector cannot go on", failure.hint
        following = f"The process ends with code {code}. Another start ends in the same way until this is corrected"
    return Headline(
        "bad",
        title,
        reason=_reason(failure),
        next=following,
        to_do=plain(hint),
        records=_kept(progress),
    )


def _waiting_for_others(live: Live, progress: Progress) -> Headline:
    first = live.waits[0]
    is_long = first.seconds >= TOO_LONG_SECONDS
    following = _UNANSWERED if first.is_unanswered else _RETRY.get(first.system, _RETRY[None])
    if live.state == "starting":
        following = _AT_START
    elif live.state == "paused":
        following += ". Consuming is paused meanwhile"
    return Headline(
        "bad" if is_long else "wait",
        _not_available(live.waits),
        first.seconds,
        reason=_reason(first),
        next=following,
        to_do=plain(first.hint) or _CHECKS.get(first.system, ""),
        records=_kept(progress) if first.system != "topic" else "Those that are not in the table are gone with it",
    )


def _not_available(waits: Sequence[Trouble]) -> str:
    names = list(dict.fromkeys(_NAMES[wait.system] for wait in waits))
    together = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    if all(wait.is_unanswered for wait in waits):
        return f"{formatting.sentence(together)} {'do' if len(names) > 1 else 'does'} not answer"
    return f"{formatting.sentence(together)} {'are' if len(names) > 1 else 'is'} not available"


def _taken_over(fenced: Mapping[TopicPartition, str]) -> Headline:
    reasons = list(dict.fromkeys(fenced.values()))
    return Headline(
        "wait",
        f"Another member of the group writes {listed(fenced)}",
        reason=plain(reasons[0]),
        next="Kafka takes these partitions away from this replica within seconds. Else the process ends with code 75 "
        "after 20 s, and its platform starts it again",
        to_do="If this comes again and again, another deployment uses the same CONSUMER_GROUP and table. Stop one",
        records="None is lost or written twice: the other member writes them",
    )


def _not_ready(live: Live, counts: Counts, progress: Progress) -> Headline:
    if live.unclaimed:
        return Headline(
            "quiet",
            f"Taking over {formatting.counted(len(live.unclaimed), 'partition')}",
            reason=f"They are being claimed in the journal: {listed(live.unclaimed)}",
            next="Each is consumed as soon as it is claimed",
        )
    if not counts.positions:
        return Headline(
            "quiet",
            "No partition is assigned to this replica",
            next="Kafka assigns partitions within half a minute. A replica too many gets none: it is a spare one",
        )
    if live.spark == "starting":
        return Headline(
            "quiet",
            "Spark is starting",
            next="Records are consumed meanwhile, and written as soon as Spark is up",
        )
    return Headline("wait", formatting.sentence(plain(live.detail)), records=_kept(progress))


def _running(live: Live, counts: Counts, progress: Progress) -> Headline:
    if counts.losses:
        at, what = counts.losses[-1]
        return Headline(
            "bad",
            "Running, but records are missing",
            counts.at - at,
            reason=plain(what),
            next="Later records are written. This is shown until the process ends",
            to_do="Look for a copy of the missing records, and raise the topic's retention",
            records="These are lost for the table: Kafka had them no longer when they were to be read",
        )
    if progress.lag is None or progress.is_up_to_date:
        title = "Running" if progress.lag is None else "Running: the table is up to date"
        return Headline("good", title)
    behind = f"{formatting.counted(progress.lag, 'record')} behind"
    if progress.age:
        behind += f", the oldest is {formatting.duration(progress.age)} old, in {progress.oldest}"
    if progress.stragglers:
        return Headline(
            "wait",
            f"Running, but behind in {listed(progress.stragglers)}",
            reason=behind,
            next="The other partitions are up to date",
            to_do="See whether most records have keys of these partitions, and whether their brokers are slow",
            records=_kept(progress),
        )
    if progress.shrinks_by is None:
        return Headline("good", "Running: catching up", reason=behind)
    left = progress.catch_up_seconds
    if left is not None:
        return Headline("good", f"Running: caught up in about {formatting.duration(left)}", reason=behind)
    slowest, hint = _slowest(counts)
    return Headline(
        "wait",
        "Running, but the lag does not shrink",
        reason=_sentences(behind, live.detail, slowest),
        to_do=_sentences(hint, "Add replicas, up to the number of partitions, or cores"),
        records=_kept(progress),
    )


def _slowest(counts: Counts) -> tuple[str, str]:
    """The step that takes most of the time, and what helps; empty texts where nobody knows."""
    found = slowest_step(counts.last_batches)
    if found is None:
        return "", ""
    step, share = found
    return f"the step {step} takes {share:.0%} of the time", _STEP_HINTS.get(step, "")


def _sentences(*texts: str) -> str:
    return ". ".join(formatting.sentence(text) for text in texts if text)


def _kept(progress: Progress) -> str:
    age = f". The oldest is {formatting.duration(progress.age)} old" if progress.age else ""
    return f"None is lost by this. Kafka has those that are not committed, as long as the topic keeps them{age}"


def _reason(trouble: Trouble) -> str:
    return plain(f"{trouble.doing}: {trouble.cause}")
