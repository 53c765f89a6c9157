"""What tests, demo and bench do with a Kafka cluster, however it was started."""

import ctypes
import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from dev.machine import ServiceError

Bytes = bytes | str | None
Record = tuple[Bytes, Bytes, int | None, int | None]
"""Key, value, timestamp in ms since the epoch (None: now), partition (None: by the key's hash)."""

ADMIN_TIMEOUT = 30.0  # seconds
DELIVERY_TIMEOUT = 120.0
TRANSACTION_MS = 900_000  # the longest that a broker takes by default
POLL_EVERY = 10_000  # records; delivery errors surface only in a poll

# librdkafka tells of every refused connection on stderr; those who wait for a server know that it is not there yet.
QUIET = {"log_level": 0}


class Broker:
    """A Kafka cluster that can be reached at ``bootstrap_servers``."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    def cluster_id(self, timeout: float = 2.0) -> str | None:
        """The id of the cluster that answers, None when none does within ``timeout`` seconds."""
        try:
            metadata = self._admin().list_topics(timeout=timeout)
        except KafkaException:
            return None
        return str(metadata.cluster_id)

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic that keeps its records whatever their timestamps say; return when it can be written to.

        Retention goes by the records' timestamps: under the default of seven days the broker would delete
        readings of last year minutes after they were produced.

        Raises:
            ServiceError: it exists already, or the broker refuses.
        """
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config={"retention.ms": "-1"})
        admin = self._admin()
        try:
            admin.create_topics([topic], operation_timeout=ADMIN_TIMEOUT)[name].result(ADMIN_TIMEOUT)
            self._wait_for_leaders(admin, name, partitions)
        except KafkaException as error:
            raise ServiceError(f"creating topic {name}: {error.args[0].str()}") from error

    def add_partitions(self, topic: str, total: int) -> None:
        """Give the topic more partitions; return when they can be written to.

        Raises:
            ServiceError: the broker refuses.
        """
        admin = self._admin()
        try:
            admin.create_partitions([NewPartitions(topic, total)])[topic].result(ADMIN_TIMEOUT)
            self._wait_for_leaders(admin, topic, total)
        except KafkaException as error:
            raise ServiceError(f"adding partitions to {topic}: {error.args[0].str()}") from error

    def delete_records(self, before: list[TopicPartition]) -> None:
        """Delete the records before these offsets, as retention does.

        The client's ``delete_records()`` releases a reference to the list that it does not own, up to release 2.15.0.
        Without one more, the list would be freed while it is in use, and the process would crash at any later time.

        Raises:
            KafkaException: the broker refuses.
        """
        admin = self._admin()  # has to live until it answers
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(before))
        for deleted in admin.delete_records(before).values():
            deleted.result(ADMIN_TIMEOUT)

    def produce(self, topic: str, records: Iterable[Record], *, at_once: bool = False) -> int:
        """Produce all records and return how many they were, once the broker has acknowledged each of them.

        Order within a partition is kept. A timestamp of 0 means now: librdkafka cannot send the epoch itself.

        Args:
            topic: it exists.
            records: in the order to produce them.
            at_once: in one transaction, so that readers get none of them before all are there.

        Raises:
            ServiceError: a record was not delivered.
        """
        failed: list[KafkaError] = []
        transaction = {"transactional.id": topic, "transaction.timeout.ms": TRANSACTION_MS} if at_once else {}
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "enable.idempotence": True,
                **transaction,
                "linger.ms": 20,
                "batch.size": 1_000_000,
                "queue.buffering.max.messages": 200_000,
                "topic.metadata.propagation.max.ms": 1_000,  # create_topic() has waited; a missing topic is an error
                "topic.metadata.refresh.interval.ms": 1_000,  # partitions may be added
                "delivery.report.only.error": True,  # a callback per record would cost more than the record
                **QUIET,
            }
        )

        def note_failure(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        if at_once:
            producer.init_transactions(ADMIN_TIMEOUT)
            producer.begin_transaction()
        count = 0
        for key, value, timestamp, partition in records:
            self._enqueue(producer, topic, key, value, timestamp, partition, note_failure)
            count += 1
            if count % POLL_EVERY == 0:
                producer.poll(0)
                self._check_delivered(topic, failed)
        left = producer.flush(DELIVERY_TIMEOUT)
        self._check_delivered(topic, failed)
        if left:
            raise ServiceError(f"producing to {topic}: {left} records not acknowledged in {DELIVERY_TIMEOUT:.0f} s")
        if at_once:
            producer.commit_transaction(DELIVERY_TIMEOUT)
        return count

    def count(self, topic: str) -> int:
        """How many records the topic holds, by its watermarks."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": "count", **QUIET})
        try:
            partitions = consumer.list_topics(topic, timeout=ADMIN_TIMEOUT).topics[topic].partitions
            marks = [
                consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=ADMIN_TIMEOUT)
                for partition in partitions
            ]
        except KafkaException as error:
            raise ServiceError(f"counting the records of {topic}: {error.args[0].str()}") from error
        finally:
            consumer.close()
        return sum(high - low for low, high in marks)

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, **QUIET})

    @staticmethod
    def _wait_for_leaders(admin: AdminClient, topic: str, partitions: int) -> None:
        deadline = time.monotonic() + ADMIN_TIMEOUT
        while True:
            known = admin.list_topics(topic, timeout=ADMIN_TIMEOUT).topics[topic].partitions
            if len(known) == partitions and all(partition.leader >= 0 for partition in known.values()):
                return
            if time.monotonic() > deadline:
                raise ServiceError(f"topic {topic}: no leaders of all partitions after {ADMIN_TIMEOUT:.0f} s")
            time.sleep(0.02)

    @staticmethod
    def _enqueue(
        producer: Producer,
        topic: str,
        key: Bytes,
        value: Bytes,
        timestamp: int | None,
        partition: int | None,
        on_delivery: Any,
    ) -> None:
        options: dict[str, Any] = {"timestamp": timestamp or 0}
        if partition is not None:
            options["partition"] = partition
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=on_delivery, **options)
            except BufferError:
                producer.poll(0.1)  # the local queue is full: let some of it go out
            else:
                return

    @staticmethod
    def _check_delivered(topic: str, failed: list[KafkaError]) -> None:
        if failed:
            raise ServiceError(f"producing to {topic}: {len(failed)} records not delivered, first: {failed[0].str()}")
