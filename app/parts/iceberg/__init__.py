"""An Iceberg table instead of the catalog of Quix: pyiceberg commits the files that Spark has written.

table           creates the table in its catalog, adds columns, and appends once for each batch
table_metadata  calculates how far topic-partitions are, and which snapshots expire
store_io        reads and writes pyiceberg's metadata files through the connector's store

This module loads before ``pyiceberg.catalog``. It stops pyiceberg from reading a configuration file in the home or the
working directory, because that file could name code to load.
"""

import os
from pathlib import Path

from pyiceberg.typedef import RecursiveDict
from pyiceberg.utils.config import PYICEBERG_HOME, PYICEBERG_YML, Config

_read = Config._from_configuration_files


def _read_named() -> RecursiveDict | None:
    return _read() if Path(os.environ.get(PYICEBERG_HOME) or os.devnull, PYICEBERG_YML).is_file() else None


Config._from_configuration_files = staticmethod(_read_named)  # type: ignore[method-assign] # pyiceberg.catalog calls it
