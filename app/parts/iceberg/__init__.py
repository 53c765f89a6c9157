"""Writes an Iceberg table instead of a table in the catalog of Quix: pyiceberg commits the files written by Spark.

table           creates the table in the Iceberg catalog, adds columns, and commits the files of each batch
table_metadata  reads the end offsets from the table's properties, and selects snapshots to expire
lent_keys       requests keys for S3 from the catalog
store_io        reads and writes pyiceberg's metadata files through the connector's store

This package loads before ``pyiceberg.catalog``. pyiceberg would read a configuration file in the home directory or the
working directory. That file could name code to load, so this module prevents the reading.
"""

import os
from pathlib import Path

from pyiceberg.typedef import RecursiveDict
from pyiceberg.utils.config import PYICEBERG_HOME, PYICEBERG_YML, Config

_read = Config._from_configuration_files


def _read_named() -> RecursiveDict | None:
    return _read() if Path(os.environ.get(PYICEBERG_HOME) or os.devnull, PYICEBERG_YML).is_file() else None


Config._from_configuration_files = staticmethod(_read_named)  # type: ignore[method-assign] # pyiceberg.catalog calls it
