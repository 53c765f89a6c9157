"""The one place to edit when you customise the connector."""

from quixstreams.dataframe import StreamingDataFrame


def transform(sdf: StreamingDataFrame) -> StreamingDataFrame:
    """Change records on their way into the lake: filter, rename, add fields, split one record into several.

    What leaves this function must be dicts; each becomes a row. To keep only warm rooms and add Fahrenheit::

        sdf = sdf[sdf["temperature"] > 20]
        sdf["fahrenheit"] = sdf["temperature"] * 1.8 + 32
        return sdf

    Args:
        sdf: records of the input topic as the deserializers gave them.

    Returns:
        The stream of records to write.
    """
    return sdf
