"""A log of an assignment in a table's folder, for who reads the table."""

from pathlib import Path

from app.journal.entry import RolledBack, log_key
from app.journal.log import AssignmentLog, Progress
from app.model import DataFile


def keep_journal(lake: Path, table_root: str, *, pending: Path, revoked: Path) -> Path:
    """Write a log that says so of these two files, and return its path."""
    waiting, undone = (str(path.relative_to(lake)) for path in (pending, revoked))
    log = AssignmentLog(
        seq=1,
        owner="aaaaaaaa",
        writer="aaaaaaaa",
        batch=1,
        state="pending",
        partitions=(Progress(topic="readings", partition=3, end=9, to=19),),
        files=(DataFile(waiting, {}, rows=10, size=1),),
        revoked=(RolledBack(key=undone, since=0),),
    )
    path = lake / log_key(table_root, "group", "aaaaaaaa")
    path.parent.mkdir(parents=True)
    path.write_bytes(log.to_body())
    return path
