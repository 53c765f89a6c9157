"""The list of a table's files on disk."""

from contextlib import closing

import pytest

from app.commands.audit.file_ledger import FileLedger
from app.errors import FatalError
from app.model import TopicPartition
from tests.support.batches import part

TP = TopicPartition("readings", 3)


def test_a_temporary_folder_without_space_is_told() -> None:
    with closing(FileLedger(with_keys=True)) as ledger:
        ledger._database.execute("PRAGMA max_page_count = 4")  # as a full disk does
        with pytest.raises(FatalError, match=r"list of the table's files in the temporary folder: database or disk is"):
            fill(ledger)


def fill(ledger: FileLedger) -> None:
    for number in range(1_000):
        ledger.add(part(TP, number, number), "k" * 200, 1)
