"""What else an operator should know: records that are set aside, partitions that move, small files."""

from dataclasses import dataclass
from typing import Final

from app import formatting
from app.monitoring.headline import Tone
from app.monitoring.metrics import Counts, Identity, Live

_MB = 2**20
_ENOUGH_FILES: Final = 20  # of the last batches; fewer say nothing about their size
_SMALL_SHARE: Final = 16  # a file is small below this share of TARGET_FILE_MB
_DEFAULT_TARGET_MB: Final = 16
_OFTEN: Final = 5  # takeovers since the start


@dataclass(frozen=True, slots=True)
class Remark:
    """``commands`` are lines for a shell."""

    tone: Tone
    title: str
    text: str
    commands: tuple[str, ...] = ()


def remarks(identity: Identity, live: Live, counts: Counts) -> list[Remark]:
    """The remarks, the gravest first."""
    found = (
        _dead_letter(identity, counts),
        _skipped(live),
        _moving(counts),
        _rescued(counts),
        _small_files(identity, counts),
    )
    return [remark for remark in found if remark]


def _dead_letter(identity: Identity, counts: Counts) -> Remark | None:
    if not counts.dead_letters:
        return None
    records = formatting.counted(counts.dead_letters, "record")
    return Remark(
        "wait",
        f"{records} in the dead letter since the start",
        f"They could not become rows, and are kept with their reasons in {identity.dead_letter}. "
        "The first command counts them by reason. After a fix, the second sends them to Kafka again",
        ("python main.py replay --dry-run", "python main.py replay"),
    )


def _skipped(live: Live) -> Remark | None:
    if not live.skipped:
        return None
    records = formatting.counted(live.skipped, "record")
    text = "They could not become rows, and are not kept. ON_BAD_RECORD=dead-letter keeps such records"
    return Remark("wait", f"{records} left out since the start (ON_BAD_RECORD=skip)", text)


def _moving(counts: Counts) -> Remark | None:
    if counts.fenced <= _OFTEN:
        return None
    text = "Does another deployment use the same CONSUMER_GROUP and table? Then stop one of them"
    return Remark("wait", f"Other members took over partitions {counts.fenced:,} times since the start", text)


def _rescued(counts: Counts) -> Remark | None:
    if not counts.rescued:
        return None
    values = formatting.counted(counts.rescued, "value")
    text = "They do not fit the type of their column, and are kept as JSON. COLUMN_TYPES sets the type of a column"
    return Remark("quiet", f"{values} in _rescued_data since the start", text)


def _small_files(identity: Identity, counts: Counts) -> Remark | None:
    batches = counts.last_batches
    files, size = sum(batch.files for batch in batches), sum(batch.size for batch in batches)
    wanted = (identity.target_file_mb or _DEFAULT_TARGET_MB) * _MB
    if files < _ENOUGH_FILES or size / files >= wanted / _SMALL_SHARE:
        return None
    in_each = round(files / len(batches))
    hints = [f"A longer COMMIT_INTERVAL (now {formatting.duration(identity.commit_interval)}) makes them larger"]
    if not identity.target_file_mb:
        hints = [f"TARGET_FILE_MB=0 writes files of any size: try {_DEFAULT_TARGET_MB}", *hints]
    if in_each > max(1, len(counts.positions)):
        hints.append(f"So do fewer HIVE_COLUMNS: a batch makes {formatting.counted(in_each, 'file')}")
    return Remark(
        "quiet",
        f"Small files: {formatting.size(size // files)} on average",
        f"The last {files:,} files are slow to read. {'. '.join(hints)}",
    )
