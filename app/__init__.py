"""Quix TS Datalake Sink: writes Kafka topics to a store as Hive-partitioned Parquet."""

import os

__version__ = "0.9.0"
# The address of the documentation in messages and on the status page; by default the folder next to main.py.
DOCUMENTS = os.environ.get("DOCS_URL", "").rstrip("/") or "docs"
