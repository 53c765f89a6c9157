"""A journal in a table's folder, for who reads the table."""

from pathlib import Path

from app.journal.entry import JournaledFile, JournalEntry, RolledBack, journal_key
from app.model import TopicPartition


def keep_journal(lake: Path, table_root: str, *, pending: Path, revoked: Path) -> None:
    """Write a journal that says so of these two files."""
    waiting, undone = (str(path.relative_to(lake)) for path in (pending, revoked))
    entry = JournalEntry(
        seq=1,
        owner="aaaaaaaa",
        batch=1,
        state="pending",
        start=10,
        end=19,
        topic_id="",
        files=(JournaledFile(key=waiting, size=1, rows=10, partition_values={}),),
        revoked=(RolledBack(key=undone, since=0),),
    )
    path = lake / journal_key(table_root, "group", TopicPartition("readings", 3))
    path.parent.mkdir(parents=True)
    path.write_bytes(entry.to_body())
