"""The only file to edit when you customise the connector. docs/customise.md contains examples."""

from collections.abc import Callable

from quixstreams.dataframe import StreamingDataFrame


def transform(sdf: StreamingDataFrame) -> StreamingDataFrame:
    """Change records before the connector writes them: filter, rename, add fields, split one record into several.

    Return a stream of dicts: each dict becomes a row. This example keeps warm rooms only, and adds Fahrenheit::

        sdf = sdf[sdf["temperature"] > 20]
        sdf["fahrenheit"] = sdf["temperature"] * 1.8 + 32
        return sdf

    To use topics, producers or other dataframes, add a second parameter. It receives the quixstreams application::

        def transform(sdf: StreamingDataFrame, app: Application) -> StreamingDataFrame:
            sdf[sdf["temperature"] > 60].to_topic(app.topic("alerts"))
            return sdf

    To see the rows of sample records without Kafka, run ``python main.py try < records.jsonl``.

    Args:
        sdf: the records of the input topic, as the deserializers return them.

    Returns:
        The stream of records to write.
    """
    return sdf


on_stream_timeout: Callable[[bytes], object] | None = None
"""Called with each key that times out, if ``STREAM_TIMEOUT_MS`` is set. To use it, define a function here::

    def on_stream_timeout(key: bytes) -> None:
        logging.getLogger(__name__).warning("%s does not send any more", key.decode())

The function receives the bytes of the Kafka key. It must not wait, because no record is consumed until it returns.
If it raises an exception, the connector logs the exception and continues.
"""
