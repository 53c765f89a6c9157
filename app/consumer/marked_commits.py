"""Writes the connector's mark beside each committed offset; see ``app.journal.group_offsets``."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import TopicPartition as KafkaTopicPartition

from app.journal.group_offsets import mark_of
from app.model import TopicPartition


def mark_commits(consumer: Any, topic_id: Callable[[TopicPartition], str]) -> None:
    """Make this consumer of quixstreams write a mark with each commit, also with those of the framework.

    Args:
        consumer: its ``commit`` is replaced.
        topic_id: the id that the partition's topic had when it was claimed; empty where that is not known.
    """
    commit = consumer.commit

    def commit_marked(*, offsets: list[KafkaTopicPartition], asynchronous: bool) -> Any:
        return commit(offsets=[_marked(tp, topic_id) for tp in offsets], asynchronous=asynchronous)

    consumer.commit = commit_marked


def _marked(tp: KafkaTopicPartition, topic_id: Callable[[TopicPartition], str]) -> KafkaTopicPartition:
    mark = mark_of(tp.offset, topic_id(TopicPartition(tp.topic, tp.partition)))
    return KafkaTopicPartition(tp.topic, tp.partition, tp.offset, mark)
