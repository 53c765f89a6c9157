"""An Iceberg table instead of the catalog of Quix: pyiceberg commits what Spark has written.

table     the table in its catalog: created, widened, and appended to once for each batch
marks     how far topic-partitions are, in the table's properties
store_io  pyiceberg's metadata files through the connector's own store
"""

import os
from pathlib import Path

from pyiceberg.typedef import RecursiveDict
from pyiceberg.utils.config import PYICEBERG_HOME, PYICEBERG_YML, Config

_read_files = Config._from_configuration_files


def _read_named_file() -> RecursiveDict | None:
    """Looks for no file in the home or in the working directory: it could name code to load."""
    folder = os.environ.get(PYICEBERG_HOME)
    return _read_files() if folder and Path(folder, PYICEBERG_YML).is_file() else None


# Before ``pyiceberg.catalog`` is imported, which reads the file.
Config._from_configuration_files = staticmethod(_read_named_file)  # type: ignore[method-assign]
