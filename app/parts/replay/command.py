import logging
import re
from argparse import Namespace
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import KafkaError, KafkaException
from quixstreams import Application
from quixstreams.kafka import Producer

from app.bad_records.dead_letter import DeadLetter, read
from app.config.settings import Settings
from app.errors import ConfigError, ConnectorError, FatalError, RetryableError
from app.formatting import counted
from app.journal.journal import survey
from app.kafka.connection import EVERY_CLIENT
from app.kafka.topics import listing_topics
from app.model import Rejected
from app.parts.commands import print_line
from app.parts.commands.find_tables import find_table
from app.retries import Request, Waits
from app.service.kafka_client import asking_for_topics, new_application
from app.service.user_transform import REPARTITIONED
from app.storage.base import ObjectStore
from app.table.existing_table import TableLocation
from app.table.layout import dead_letter_root

logger = logging.getLogger(__name__)

_REPLAYED_FROM = "quix-replayed-from"
_PRODUCER_SETTINGS = {
    "acks": "all",
    "enable.idempotence": True,  # keeps the order, and prevents duplicates by retries
    "message.max.bytes": 1_000_000_000,  # only the topic's limit applies
    "message.timeout.ms": 60_000,
}
_EARLIEST_MS = 1  # used instead of 0, because Kafka's client replaces the timestamp 0 by the present time
_BROKER_SECONDS = 10.0  # time limit of the first answer
_FLUSH_SECONDS = 1.0  # short, because a signal is only handled between two flushes
_LASTING = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_RECORD,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError._UNKNOWN_PARTITION,
    }
)
_HINT = "Run the command again; this sends earlier records twice"


def replay(settings: Settings, options: Namespace) -> int:
    """Send the selected records of the table's dead letter to Kafka, or only count these records.

    With ``--delete``, a file is deleted after the broker has acknowledged all records of the file.
    """
    store, location, *_ = find_table(settings)
    folder = f"{dead_letter_root(location.root)}/"
    # All files are listed first. If the connector rejects replayed records again, the new files must not be replayed.
    keys = [stored.key for stored in store.list(folder) if stored.key.endswith(".parquet")]
    left_out = survey(store, location.root).left_out
    keys = [key for key in keys if key not in left_out]
    where = f"{store.uri}/{folder}"
    if not keys and not options.dry_run:
        print_line(f"no dead letter in {where}")
        return 0
    with TemporaryDirectory(prefix="quix-replay-") as scratch:
        sender = None if options.dry_run else _new_sender(settings, location, options.to, Path(scratch))
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


class Sender:
    """Sends records to their original topics and partitions, or to the topic ``to``.

    Without ``to``, this group must read the topics. ``workspace`` is the platform's prefix of topics.
    """

    def __init__(
        self, producer: Producer, topics: Collection[str], settings: Settings, workspace: str, to: str | None
    ) -> None:
        self._producer = producer
        self._topics = frozenset(topics)
        self._settings = settings
        input_topic = settings.input_topic
        # The name of a repartition topic contains the group, and then the input topic or another repartition topic.
        nested = rf"(?:repartition\.)+{re.escape(input_topic.replace('--', '.'))}\."
        names = rf"{REPARTITIONED}{re.escape(settings.consumer_group)}--(?:{re.escape(input_topic)}--|{nested})"
        self._repartitioned = re.compile(names)
        self._workspace = workspace
        self._to = self._existing(to) if to else None
        self._failure: ConnectorError | None = None
        self.acknowledged = 0

    def send(self, record: Rejected) -> None:
        """Put the record into the client's queue. Raise the error if an earlier record was not delivered."""
        tp, offset = record.tp, record.offset
        topic = self._to or self._topic_of(tp.topic)
        origin = f"{tp.topic}/{tp.partition}/{offset}"

        def delivered(error: KafkaError | None, _: object) -> None:
            if error is None:
                self.acknowledged += 1
            else:
                self._failure = self._failure or _translate(error, origin, topic)

        try:
            self._producer.produce(
                topic,
                key=record.key,
                value=record.value,
                headers=[*(record.headers or ()), (_REPLAYED_FROM, origin.encode())],  # type: ignore[list-item]
                partition=None if self._to else tp.partition,
                timestamp=_EARLIEST_MS if record.timestamp == 0 else record.timestamp,
                on_delivery=delivered,
            )
        except KafkaException as error:
            raise _translate(error.args[0], origin, topic) from None
        except BufferError:
            raise RetryableError(f"sending {origin} to topic {topic}", "the client's queue is full", _HINT) from None
        self._raise_failure()

    def finish(self) -> None:
        """Wait until the broker has acknowledged all records."""
        try:
            while self._producer.flush(_FLUSH_SECONDS):
                self._raise_failure()
        except KafkaException as error:  # for example without the right to write
            raise _translate(error.args[0], "records", self._to or self._settings.input_topic) from None
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure:
            raise self._failure

    def _topic_of(self, topic: str) -> str:
        """Return the topic. Refuse topics that this group does not read, because other programs may write files."""
        name = topic.removeprefix(f"{self._workspace}-") if self._workspace else topic
        if not (self._settings.reads(topic) or self._settings.reads(name) or self._repartitioned.match(name)):
            cause = f"the input topic is {self._settings.input_topic}"
            raise ConfigError(f"sending records to topic {topic}", cause, "Set the topic with --to")
        return self._existing(topic)

    def _existing(self, topic: str) -> str:
        for name in (topic, f"{self._workspace}-{topic}"):
            if name in self._topics:
                return name
        raise ConfigError(f"finding topic {topic}", "it does not exist", "Create it, or set another topic with --to")


class _Letters:
    """Reads the selected records in files of the dead letter. Without a sender, records are only counted."""

    def __init__(self, store: ObjectStore, scratch: Path, options: Namespace, sender: Sender | None) -> None:
        self._store = store
        self._scratch = scratch
        self._options = options
        self._sender = sender
        self.reasons: Counter[str] = Counter()
        self.deleted = 0
        self._truncated = 0

    def replay(self, key: str) -> None:
        """Send the selected records of a file. With ``--delete``, delete the file if all of its records were sent."""
        path = self._scratch / key.rpartition("/")[2]
        self._store.download(key, path)
        skipped = 0
        for letter in read(path):
            is_selected = self._is_selected(letter)
            if not is_selected or letter.record.is_truncated:
                skipped += 1
                self._truncated += is_selected
                continue
            self.reasons[letter.record.reason] += 1
            if self._sender:
                self._sender.send(letter.record)
        path.unlink()
        if self._sender:
            self._sender.finish()
            logger.info("acknowledged: all selected records of %s", key)
        if self._options.delete and not skipped:
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
                f"skipped: {counted(self._truncated, 'record')} too large to be kept completely (column truncated). "
                "Only their topic contains them, until its retention ends"
            )


def _new_sender(settings: Settings, location: TableLocation, to: str | None, scratch: Path) -> Sender:
    producing = {**EVERY_CLIENT, **_PRODUCER_SETTINGS}
    application = new_application(Application, settings, location, scratch, producer_extra_config=producing)
    with asking_for_topics(settings):
        connection = application.config.broker_address
    topics = Waits().retry(Request("Kafka"), listing_topics(connection), give_up_seconds=_BROKER_SECONDS)
    workspace = application.config.consumer_group_prefix if application.is_quix_app else ""
    return Sender(application.get_producer(), topics, settings, workspace, to)


def _translate(error: KafkaError, origin: str, topic: str) -> ConnectorError:
    doing = f"sending {origin} to topic {topic}"
    if error.code() in _LASTING:
        hint = "Check the topic's settings, partitions and the user's rights, or set another topic with --to"
        return FatalError(doing, error.str(), hint)
    return RetryableError(doing, error.str(), _HINT)
