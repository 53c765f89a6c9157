"""Compares the ends of partitions in the journals with Kafka's offsets at a time. Nothing is written or claimed."""

import json
import time
from argparse import Namespace
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from typing import Any

from quixstreams import Application

from app.config.settings import Settings
from app.consumer.plain.client import new_client
from app.errors import ConfigError
from app.journal.first_offsets import begun_at
from app.journal.journal import Journal
from app.journal.recovery import is_recreated
from app.kafka.questions import GroupOffsets
from app.kafka.topics import listing_topics, new_admin, prefix_of
from app.parts.commands import print_line
from app.parts.commands.find_tables import find_table
from app.parts.until.run_end import readable_ends
from app.retries import Request, Waits
from app.service.kafka_client import new_application, open_topic
from app.service.tables import topics_among
from app.spark.scratch import scratch_folder

_LOOK_SECONDS = 10.0


def complete(settings: Settings, options: Namespace) -> int:
    """Return 0 if the tables contain all records before ``--to``. Return 1 if records are missing after ``--wait``."""
    moment, seconds = options.to.isoformat(), options.wait.total_seconds()
    if options.to > datetime.now(UTC):
        raise ConfigError("checking the table", f"--to {moment} is in the future", "Set a time in the past")
    end = time.monotonic() + seconds
    with scratch_folder() as scratch:
        application = new_application(Application, settings, settings.location, scratch)
        look = partial(_list_partitions, settings, application, options.to)
        while True:
            partitions = Waits().retry(Request("Kafka"), look, give_up_seconds=max(_LOOK_SECONDS, seconds))
            is_complete = all(each["state"] == "complete" for each in partitions)
            if is_complete or (seconds := end - time.monotonic()) <= 0:
                break
            time.sleep(min(_LOOK_SECONDS, seconds))
    if options.json:
        print_line(json.dumps({"to": moment, "complete": is_complete, "partitions": partitions}, indent=2))
    else:
        for partition in partitions:
            print_line("{state:<16}  {topic}[{partition}]  {reached} of {needed}".format_map(partition))
    return 0 if is_complete else 1


def _list_partitions(settings: Settings, application: Application, moment: datetime) -> list[dict[str, Any]]:
    """Return all partitions of Kafka's topics, including topics without a table. A missing topic is an error."""
    connection, prefix = application.config.broker_address, prefix_of(application)
    visible, partitions = listing_topics(connection)(), list[dict[str, Any]]()
    with closing(new_client(application.config, {"enable.partition.eof": True})) as consumer:
        consumer.poll(0)  # a login by callback creates its token here
        offsets = GroupOffsets(consumer, new_admin(connection))
        topics = topics_among(settings, visible, prefix, needs_all=True)
        for topic in topics or [open_topic(settings, application, visible).name]:
            store, location, *_ = find_table(settings.of_topic(topic.removeprefix(prefix)))
            journal = Journal(store, location.root, application.config.consumer_group)
            partitions += compare(journal, offsets, topic, moment)
    return partitions


def compare(journal: Journal, offsets: GroupOffsets, topic: str, moment: datetime) -> list[dict[str, Any]]:
    """Return how far each partition of the topic is.

    The table contains all records before the offset ``reached`` (-1 if unknown), and needs those before ``needed``.
    """
    ends = offsets.uncommitted_ends(topic)
    needed, committed = offsets.since(moment, ends), offsets.committed_offsets(ends)
    claims = {tp: claim for tp in ends if (claim := journal.claim(tp).read())}
    logs = {owner: journal.log(owner).read() for owner in {each.owner for each in claims.values()}}
    readable = offsets.ends(topic)  # after the logs: a log is ahead only if Kafka lost records
    ids = offsets.topic_id(topic), offsets.cluster_id()  # after the ends, which may otherwise be of a recreated topic
    begun, reached = begun_at(journal, topic, ids[0]), dict.fromkeys(ends, 0)
    states = {tp: "open transaction" if readable[tp] < end else "incomplete" for tp, end in needed.items()}
    for tp in ends:
        log = logs[claims[tp].owner] if tp in claims else None
        progress = log.of(tp) if log else None
        if tp not in claims:  # either offset may be later than the first offset that will be read
            reached[tp], states[tp] = min(begun.get(str(tp.partition), 0), committed.get(tp, 0)), "unclaimed"
        elif log is None or progress is None:
            reached[tp], states[tp] = -1, "damaged"
        elif is_recreated(progress, *ids) or progress.end >= readable[tp]:
            reached[tp], states[tp] = -1, "recreated"
        elif log.state == "kept" and progress.to is not None:  # ``end`` contains this batch already
            states[tp] = "unsettled"
        else:
            reached[tp] = progress.end + 1
    unsure = {tp: end for tp, end in needed.items() if reached[tp] < end <= readable[tp]}
    needed |= readable_ends(offsets, topic, unsure, None)
    states |= {tp: "complete" for tp, end in needed.items() if reached[tp] >= end}
    return [
        {"topic": tp.topic, "partition": tp.partition, "state": states[tp], "reached": reached[tp], "needed": end}
        for tp, end in sorted(needed.items())
    ]
