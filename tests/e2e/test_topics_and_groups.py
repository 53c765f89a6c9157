"""Topics and consumer groups that change while a connector runs or rests: nothing is passed over or doubled."""

from contextlib import closing
from pathlib import Path

from confluent_kafka.admin import AdminClient

from dev.broker import QUIET
from dev.kafka import LocalKafka
from tests.e2e.records import records
from tests.e2e.scenario import Scenario
from tests.support.waiting import wait_until

FATAL = 1


def test_a_deleted_topic_stays_deleted_and_the_status_page_says_so(tmp_path: Path) -> None:
    """Though the broker creates topics for clients that ask for them, as Kafka does by default."""
    with (
        LocalKafka(settings={"auto.create.topics.enable": "true"}) as kafka,
        closing(Scenario(kafka, tmp_path)) as scenario,
    ):
        connector = scenario.connector()
        scenario.produce(records(100))
        scenario.wait_until_committed(100, connector)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, **QUIET})
        deleted = admin.delete_topics([scenario.topic])[scenario.topic]
        wait_until(deleted.done, "the end of the topic")
        deleted.result()

        connector.wait_until(lambda: ">The input topic is not available<" in connector.page(), "the page to say it")
        assert connector.wait() == FATAL
        assert scenario.topic not in admin.list_topics(timeout=30).topics
