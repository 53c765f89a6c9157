"""The dependency's own sink in an application, set up by the connector's variables. A process by itself.

It runs in an environment of its own, so it imports nothing of this repository.
"""

import logging
import os

from quixstreams import Application
from quixstreams.sinks.core.quix_ts_datalake_sink import QuixTSDataLakeSink


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # It tells of assignments, which is when consuming begins, and of nothing that comes more often.
    logging.getLogger("quixstreams.app").setLevel(logging.DEBUG)
    application = Application(
        broker_address=os.environ["KAFKA_BOOTSTRAP_SERVERS"],
        consumer_group=os.environ["CONSUMER_GROUP"],
        auto_offset_reset="earliest",
        commit_every=int(os.environ["BATCH_SIZE"]),
        auto_create_topics=False,
        loglevel=None,
    )
    sink = QuixTSDataLakeSink(
        s3_prefix=os.environ["S3_PREFIX"],
        table_name=os.environ["TABLE_NAME"],
        hive_columns=os.environ["HIVE_COLUMNS"].split(","),
        on_client_connect_failure=_fail,
    )
    name = os.environ["input"]  # noqa: SIM112 - the connector's name
    topic = application.topic(name, key_deserializer="str", value_deserializer="json")
    application.dataframe(topic).sink(sink)
    application.run()


def _fail(error: Exception | None) -> None:
    raise RuntimeError("the sink could not connect") from error


if __name__ == "__main__":
    main()
