"""The one place to edit when you customise the connector. docs/customise.md has examples of what can be done here."""

from collections.abc import Callable

from quixstreams.dataframe import StreamingDataFrame


def transform(sdf: StreamingDataFrame) -> StreamingDataFrame:
    """Change records on their way into the lake: filter, rename, add fields, split one record into several.

    Records must leave this function as dicts; each becomes a row. To keep only warm rooms and add Fahrenheit::

        sdf = sdf[sdf["temperature"] > 20]
        sdf["fahrenheit"] = sdf["temperature"] * 1.8 + 32
        return sdf

    Defined with two parameters, it gets the quixstreams application too, for its topics, producers and dataframes::

        def transform(sdf: StreamingDataFrame, app: Application) -> StreamingDataFrame:
            sdf[sdf["temperature"] > 60].to_topic(app.topic("alerts"))
            return sdf

    ``python main.py try < records.jsonl`` shows the rows of sample records, without Kafka.

    Args:
        sdf: records of the input topic as the deserializers gave them.

    Returns:
        The stream of records to write.
    """
    return sdf


on_stream_timeout: Callable[[bytes], object] | None = None
"""Called with each key that times out, if ``STREAM_TIMEOUT_MS`` is set. To use it, define a function here::

    def on_stream_timeout(key: bytes) -> None:
        logging.getLogger(__name__).warning("%s does not send any more", key.decode())

It gets the bytes of the Kafka key. It runs between two records, so it must not wait: nothing is consumed meanwhile.
Its exceptions are logged.
"""
