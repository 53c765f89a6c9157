"""The only file to edit when you customise the connector. docs/customise.md contains examples."""

from collections.abc import Callable

from quixstreams.dataframe import StreamingDataFrame


def transform(sdf: StreamingDataFrame) -> StreamingDataFrame:
    """Change records before the connector writes them: filter records, rename or add fields, split a record.

    Return a stream of dicts. Each dict becomes a row. This example keeps only warm rooms, and adds a field::

        sdf = sdf[sdf["temperature"] > 20]
        sdf["fahrenheit"] = sdf["temperature"] * 1.8 + 32
        return sdf

    To use topics, producers or other dataframes, add a second parameter. It receives the quixstreams application::

        def transform(sdf: StreamingDataFrame, app: Application) -> StreamingDataFrame:
            sdf[sdf["temperature"] > 60].to_topic(app.topic("alerts"))
            return sdf

    To see the rows of sample records without Kafka, run ``python main.py try < records.jsonl``.

    Args:
        sdf: The records of the input topic, as the deserializers return the records.

    Returns:
        The stream of records to write.
    """
    return sdf


on_stream_timeout: Callable[[bytes], object] | None = None
"""Called with each message key that times out, if ``STREAM_TIMEOUT_MS`` is set. To use it, define a function::

    def on_stream_timeout(key: bytes) -> None:
        logging.getLogger(__name__).warning("%s does not send any more", key.decode())

The function receives the message key as bytes. The function must return quickly, because no record is consumed in the
meantime. If the function raises an exception, the connector logs the exception and continues.
"""
