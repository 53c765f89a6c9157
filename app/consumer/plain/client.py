"""Creates Kafka's client of the plain lane from the public configuration of the Quix application."""

import json
import logging
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError
from quixstreams.app import ApplicationConfig

from app.errors import one_line
from app.kafka.login_errors import is_refused, login_hint

logger = logging.getLogger(__name__)

# A poll returns these errors too. The client repeats these errors twice a second.
_ALSO_POLLED = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION)


class BrokerPresence:
    """Whether Kafka is available, according to Kafka's client. For the thread that polls.

    The client reports when all brokers are unavailable. The next message or the client's statistics, which arrive every
    30 seconds, show that a broker is available again. After a refused login, the client retries automatically and
    continues at the same offset. New certificates and passwords need a new process.
    """

    def __init__(self) -> None:
        self.is_there = True

    def failed(self, error: KafkaError) -> None:
        if is_refused(error):
            logger.error(
                "logging in to Kafka: %s. %s. No record is lost: the connector retries. To use replaced certificates "
                "and passwords, restart it",
                one_line(error.str()),
                login_hint(error.str()),
            )
        elif error.code() in _ALSO_POLLED:
            logger.debug("Kafka consumer: %s", error.str())
        elif error.code() != KafkaError._ALL_BROKERS_DOWN:
            logger.error("Kafka consumer: %s", error.str())
        elif self.is_there:
            self.is_there = False
            logger.warning("Kafka is unavailable: no broker answers. Retrying; no record is lost")

    def heard(self) -> None:
        if not self.is_there:
            self.is_there = True
            logger.info("Kafka is available again")

    def counted(self, statistics: str) -> None:
        if not self.is_there:
            brokers = json.loads(statistics).get("brokers", {}).values()
            if any(broker.get("state") == "UP" for broker in brokers):
                self.heard()

    @property
    def properties(self) -> dict[str, Any]:
        return {"error_cb": self.failed, "stats_cb": self.counted, "statistics.interval.ms": 30_000}


def new_client(config: ApplicationConfig, properties: Mapping[str, Any]) -> Consumer:
    """Creates a consumer of the application's group. ``properties`` win over the application's."""
    return Consumer(
        {
            **config.consumer_extra_config,
            **config.broker_address.as_librdkafka_dict(),
            "partition.assignment.strategy": "range",  # eager: all partitions of a member move together
            "group.id": config.consumer_group,
            "enable.auto.commit": False,
            "auto.offset.reset": config.auto_offset_reset,
            "logger": logger,
            **properties,
        }
    )
