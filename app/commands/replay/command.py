"""``python main.py replay``: brings records of the dead letter back to Kafka."""

import logging
from argparse import Namespace
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from quixstreams import Application

from app.bad_records.dead_letter import DeadLetter, read
from app.commands.output import print_line
from app.commands.replay.sender import PRODUCER_SETTINGS, Sender
from app.config.settings import Settings
from app.formatting import counted
from app.journal.survey import survey
from app.kafka.connection import EVERY_CLIENT
from app.kafka.topics import listing_topics
from app.monitoring.waits import Request, Waits
from app.service.kafka import asking_for_topics, new_application
from app.service.lake import find_table
from app.storage.base import ObjectStore
from app.table.existing import TableLocation
from app.table.layout import dead_letter_root

logger = logging.getLogger(__name__)


def replay(settings: Settings, options: Namespace, broker_seconds: float = 10.0) -> int:
    """Send the selected records of the table's dead letter to Kafka, or count them.

    A file is deleted only after the broker has acknowledged all of its records, and only when asked to. A broker that
    does not answer is not waited for long, because a person waits.
    """
    store, location = find_table(settings)
    folder = f"{dead_letter_root(location.root)}/"
    # List all files first: an unchanged connector rejects replayed records again, and these must not be found.
    keys = [found.key for found in store.list(folder) if found.key.endswith(".parquet")]
    left_out = survey(store, location.root).left_out
    keys = [key for key in keys if key not in left_out]
    where = f"{store.uri}/{folder}"
    if not keys and not options.dry_run:
        print_line(f"no dead letter in {where}")
        return 0
    with TemporaryDirectory(prefix="quix-replay-") as scratch:
        sender = None if options.dry_run else _new_sender(settings, location, options.to, Path(scratch), broker_seconds)
        letters = _Letters(store, Path(scratch), options, sender)
        try:
            for key in keys:
                letters.replay(key)
        finally:
            if sender:
                sent, kept = counted(sender.acknowledged, "record"), len(keys) - letters.deleted
                print_line(f"{sent} sent; {counted(letters.deleted, 'file')} deleted, {counted(kept, 'file')} kept")
                letters.print_truncated()
        if not sender:
            selected = counted(letters.reasons.total(), "record")
            print_line(f"{selected} selected in {counted(len(keys), 'file')} of {where}")
            letters.print_truncated()
            for reason, count in letters.reasons.most_common():
                print_line(f"{count:>10,}  {reason}")
    return 0


class _Letters:
    """The selected records of files in the store; without a sender they are only counted."""

    def __init__(self, store: ObjectStore, scratch: Path, options: Namespace, sender: Sender | None) -> None:
        self._store = store
        self._scratch = scratch
        self._options = options
        self._sender = sender
        self.reasons: Counter[str] = Counter()
        self.deleted = 0
        self._truncated = 0

    def replay(self, key: str) -> None:
        """Send the selected records of one file; then delete it if these are all, and it is asked for."""
        path = self._scratch / key.rpartition("/")[2]
        self._store.download(key, path)
        left_out = 0
        for letter in read(path):
            is_selected = self._is_selected(letter)
            if not is_selected or letter.record.is_truncated:
                left_out += 1
                self._truncated += is_selected
                continue
            self.reasons[letter.record.reason] += 1
            if self._sender:
                self._sender.send(letter.record)
        path.unlink()
        if self._sender:
            self._sender.finish()
            logger.info("acknowledged: all selected records of %s", key)
        if self._options.delete and not left_out:
            self._store.delete(key)
            self.deleted += 1

    def _is_selected(self, letter: DeadLetter) -> bool:
        options = self._options
        return (
            options.reason in letter.record.reason
            and (options.since is None or letter.rejected_at >= options.since)
            and (options.until is None or letter.rejected_at < options.until)
        )

    def print_truncated(self) -> None:
        if self._truncated:
            print_line(
                f"left out: {counted(self._truncated, 'record')} too big to be kept whole (column truncated). "
                "They can only be had from their topic, as long as it keeps them"
            )


def _new_sender(
    settings: Settings, location: TableLocation, to: str | None, scratch: Path, broker_seconds: float
) -> Sender:
    producing = {**EVERY_CLIENT, **PRODUCER_SETTINGS}
    application = new_application(Application, settings, location, scratch, producer_extra_config=producing)
    with asking_for_topics(settings):
        connection = application.config.broker_address
    topics = Waits().retry(Request("Kafka"), listing_topics(connection), give_up_seconds=broker_seconds)
    workspace = application.config.consumer_group_prefix if application.is_quix_app else ""
    return Sender(
        application.get_producer(),
        topics,
        input_topic=settings.input_topic,
        group=settings.consumer_group,
        workspace=workspace,
        to=to,
    )
