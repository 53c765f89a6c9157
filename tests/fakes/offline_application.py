"""The application without a broker, on records that a test gives."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from quixstreams.dataframe import StreamingDataFrame
from quixstreams.models import Topic, TopicConfig

from app.consumer.offline import OfflineApplication, Sent, messages
from app.monitoring.metrics import Metrics
from app.service.build import new_bad_records, new_sink
from tests.support.environment import load

TOPIC = "sensors"


def offline(folder: Path, records: Iterable[tuple[Any, ...]] = (), tell: Any = lambda _: None) -> OfflineApplication:
    """An application whose input topic has these records, of (value, key, timestamp, headers)."""
    settings = load()
    return OfflineApplication(
        records=messages(TOPIC, list(records)),
        tell=tell,
        lake_sink=new_sink(settings, new_bad_records(settings), Metrics()),
        on_turn=lambda: None,
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
