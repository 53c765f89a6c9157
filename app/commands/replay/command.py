"""``python main.py replay``: brings records of the dead letter back to Kafka."""

import logging
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from quixstreams import Application

from app.bad_records.dead_letter import DeadLetter, read
from app.commands.output import print_line
from app.commands.replay.sender import PRODUCER_SETTINGS, Sender
from app.config.settings import Settings
from app.formatting import counted
from app.journal.survey import survey
from app.kafka.connection import EVERY_CLIENT, check_properties
from app.kafka.topics import listing_topics
from app.monitoring.waits import Request, Waits
from app.service.kafka import kafka_client_refused, kafka_connection
from app.service.lake import find_table
from app.storage.base import ObjectStore
from app.table.layout import dead_letter_root

logger = logging.getLogger(__name__)


def replay(settings: Settings, options: Namespace, broker_seconds: float = 10.0) -> int:
    """Send the selected records of the table's dead letter to Kafka, or count them.

    A file is deleted only after the broker has acknowledged all of its records, and only when asked to.

    Args:
        settings: the connector's settings.
        options: of the command line.
        broker_seconds: how long to wait for a broker that does not answer; short, because a person waits.

    Raises:
        ConnectorError: the store or Kafka fails; files whose records are not all acknowledged stay.
    """
    store, location = find_table(settings)
    folder = f"{dead_letter_root(location.root)}/"
    # List all files first: an unchanged connector rejects replayed records again, and these must not be found.
    keys = [found.key for found in store.list(folder) if found.key.endswith(".parquet")]
    left_out = survey(store, location.root).left_out
    keys = [key for key in keys if key not in left_out]
    with TemporaryDirectory(prefix="quix-replay-") as scratch:
        letters = _Letters(store, Path(scratch), options)
        if options.dry_run:
            _count(letters, keys, f"{store.uri}/{folder}")
        elif keys:
            sender = _new_sender(settings, options.to, Path(scratch), broker_seconds)
            _send(letters, keys, sender, delete=options.delete)
        else:
            print_line(f"no dead letter in {store.uri}/{folder}")
    return 0


class _Letters:
    """The selected records of files in the store."""

    def __init__(self, store: ObjectStore, scratch: Path, options: Namespace) -> None:
        self.store = store
        self._scratch = scratch
        self._options = options
        self.left_out = 0  # of the file read last
        self.truncated = 0  # of all files

    def of(self, key: str) -> Iterator[DeadLetter]:
        """Yield the selected records of one file."""
        path = self._scratch / key.rpartition("/")[2]
        self.store.download(key, path)
        self.left_out = 0
        for letter in read(path):
            is_selected = self._is_selected(letter)
            if is_selected and not letter.record.is_truncated:
                yield letter
            else:
                self.left_out += 1
                self.truncated += is_selected
        path.unlink()

    def _is_selected(self, letter: DeadLetter) -> bool:
        options = self._options
        return (
            options.reason in letter.record.reason
            and (options.since is None or letter.rejected_at >= options.since)
            and (options.until is None or letter.rejected_at < options.until)
        )


def _count(letters: _Letters, keys: Sequence[str], where: str) -> None:
    reasons: Counter[str] = Counter()
    for key in keys:
        reasons.update(letter.record.reason for letter in letters.of(key))
    print_line(f"{counted(reasons.total(), 'record')} selected in {counted(len(keys), 'file')} of {where}")
    _print_truncated(letters)
    for reason, count in reasons.most_common():
        print_line(f"{count:>10,}  {reason}")


def _print_truncated(letters: _Letters) -> None:
    if letters.truncated:
        print_line(
            f"left out: {counted(letters.truncated, 'record')} too big to be kept whole (column truncated). "
            "They can only be had from their topic, as long as it keeps them"
        )


def _send(letters: _Letters, keys: Sequence[str], sender: Sender, *, delete: bool) -> None:
    deleted = 0
    try:
        for key in keys:
            for letter in letters.of(key):
                sender.send(letter.record)
            sender.finish()
            logger.info("acknowledged: all selected records of %s", key)
            if delete and not letters.left_out:
                letters.store.delete(key)
                deleted += 1
    finally:
        kept = len(keys) - deleted
        sent = counted(sender.acknowledged, "record")
        print_line(f"{sent} sent; {counted(deleted, 'file')} deleted, {counted(kept, 'file')} kept")
        _print_truncated(letters)


def _new_sender(settings: Settings, to: str | None, scratch: Path, broker_seconds: float) -> Sender:
    check_properties(settings.client_properties, {})
    try:
        application = Application(
            broker_address=kafka_connection(settings),
            quix_sdk_token=settings.sdk_token.get_secret_value() if settings.sdk_token else None,
            quix_portal_api=settings.portal_api,
            producer_extra_config={**EVERY_CLIENT, **PRODUCER_SETTINGS},
            state_dir=scratch / "state",
            auto_create_topics=False,
            loglevel=None,  # logging is set up already
        )
        connection = application.config.broker_address
    except Exception as error:
        raise kafka_client_refused(settings, error) from error
    topics = Waits().retry(Request("Kafka"), listing_topics(connection), give_up_seconds=broker_seconds)
    workspace = application.config.consumer_group_prefix if application.is_quix_app else ""
    return Sender(application.get_producer(), topics, workspace=workspace, to=to)
