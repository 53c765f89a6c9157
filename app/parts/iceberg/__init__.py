"""An Iceberg table instead of the catalog of Quix: pyiceberg commits what Spark has written.

table           the table in its catalog: created, widened, and appended to once for each batch
table_metadata  how far topic-partitions are, and which snapshots may go
store_io        pyiceberg's metadata files through the connector's own store
"""

import app.parts.iceberg.config_file  # noqa: F401 - before all that loads pyiceberg.catalog
