"""Quix TS Datalake Sink: a Kafka topic in, Hive-partitioned Parquet in a blob store out."""

import os

__version__ = "0.9.0"
# Where messages and the status page lead: an address, or this folder beside main.py, which the connector also serves.
DOCUMENTS = os.environ.get("DOCS_URL", "").rstrip("/") or "docs"
