"""The application without a broker, on records that a test gives."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from quixstreams.dataframe import StreamingDataFrame
from quixstreams.models import Topic, TopicConfig

from app.consumer.assignment import Assignments
from app.consumer.offline import OfflineApplication, Sent, messages

TOPIC = "sensors"


def offline(
    folder: Path,
    records: Iterable[tuple[Any, ...]] = (),
    on_sent: Any = lambda _: None,
    max_record_bytes: int = 1_000_000,
) -> OfflineApplication:
    """An application whose input topic has these records, of (value, key, timestamp, headers)."""
    return OfflineApplication(
        records=messages(TOPIC, list(records)),
        on_sent=on_sent,
        assignments=Assignments(),
        max_record_bytes=max_record_bytes,
        broker_address="127.0.0.1:9",
        consumer_group="group",
        state_dir=folder / "state",
        auto_create_topics=False,
        loglevel=None,
    )


def dataframe(application: OfflineApplication, name: str = TOPIC, partitions: int = 1) -> StreamingDataFrame:
    """Of a topic with so many partitions."""
    topic: Topic = application.topic(name)
    config = topic.broker_config
    topic.broker_config = TopicConfig(partitions, config.replication_factor, config.extra_config)
    return application.dataframe(topic)


__all__ = ["Sent", "dataframe", "offline"]
