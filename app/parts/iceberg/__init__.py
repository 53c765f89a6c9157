"""An Iceberg table instead of the catalog of Quix: pyiceberg commits what Spark has written.

table           the table in its catalog: created, widened, and appended to once for each batch
table_metadata  how far topic-partitions are, and which snapshots may go
store_io        pyiceberg's metadata files through the connector's own store

Before all that loads ``pyiceberg.catalog``, it has pyiceberg read no file in the home or in the working directory: it
could name code to load.
"""

import os
from pathlib import Path

from pyiceberg.typedef import RecursiveDict
from pyiceberg.utils.config import PYICEBERG_HOME, PYICEBERG_YML, Config

_read = Config._from_configuration_files


def _read_named() -> RecursiveDict | None:
    return _read() if Path(os.environ.get(PYICEBERG_HOME) or os.devnull, PYICEBERG_YML).is_file() else None


Config._from_configuration_files = staticmethod(_read_named)  # type: ignore[method-assign] # pyiceberg.catalog calls it
