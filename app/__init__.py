"""Quix TS Datalake Sink: a Kafka topic in, Hive-partitioned Parquet in a blob store out."""

__version__ = "0.1.0"
DOCUMENTS = "https://github.com/quixio/quix-samples/blob/main/python/destinations/quix-ts-datalake-sink/docs"
