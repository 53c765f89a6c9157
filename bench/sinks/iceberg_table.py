"""An empty Iceberg table in a bucket, as a user makes one before Kafka Connect runs, and what a table has committed."""

from collections.abc import Mapping, Sequence

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestamptzType

from bench.sinks.base import PREFIX, TABLE
from bench.timeline import LandedFile
from bench.totals import WrongRowsError
from dev.iceberg_catalog import LocalIcebergCatalog

COLUMNS = {
    "ts_ms": TimestamptzType(),
    "device": StringType(),
    "location": StringType(),
    "temperature": DoubleType(),
    "humidity": DoubleType(),
    "status": StringType(),
    "battery": LongType(),
    "seq": LongType(),
}


def _schema(renamed: Mapping[str, str]) -> Schema:
    fields = enumerate(COLUMNS.items(), start=1)
    return Schema(*(NestedField(number, renamed.get(name, name), kind) for number, (name, kind) in fields))


SCHEMA = _schema({})
# The fewest partitions that hold what the Hive columns year, month, day and location do.
PARTITIONS = PartitionSpec(
    PartitionField(SCHEMA.find_field("ts_ms").field_id, 1_000, DayTransform(), "day"),
    PartitionField(SCHEMA.find_field("location").field_id, 1_001, IdentityTransform(), "location"),
)
# The table as rows of ``TOTALS_SQL``: the device is the key, and the folders' values follow from the time.
SOURCE = """(
SELECT device AS __key, location, strftime(time, '%Y') AS year, strftime(time, '%m') AS month,
       strftime(time, '%d') AS day, epoch_ms(ts_ms) AS ts_ms, seq, temperature, humidity, battery
FROM (SELECT *, make_timestamp(epoch_us(ts_ms)) AS time
      FROM read_parquet('{folder}/**/*.parquet', hive_partitioning = false))
)"""


def create_table(catalog: LocalIcebergCatalog, bucket: str, renamed: Mapping[str, str]) -> None:
    """Make an empty table in the bucket; its namespace has the bucket's name, so each run has a table of its own.

    Args:
        renamed: columns with another name than the messages' field, by that field.
    """
    client = _client(catalog)
    client.create_namespace(bucket)
    client.create_table((bucket, TABLE), _schema(renamed), f"s3://{bucket}/{PREFIX}/{TABLE}", PARTITIONS)


class CommittedSnapshots:
    """Rows and files in the current snapshot of a bucket's table, as the catalog tells them."""

    def __init__(self, catalog: LocalIcebergCatalog, bucket: str) -> None:
        self._client = _client(catalog)
        self._table = (bucket, TABLE)

    def rows(self) -> int:
        return int(self._summary().get("total-records", 0))

    def check(self, files: Sequence[LandedFile]) -> None:
        """Compare with the files in the bucket.

        Raises:
            WrongRowsError: the table has other ones.
        """
        summary = self._summary()
        found = [str(len(files)), str(sum(file.rows for file in files))]
        listed = [summary["total-data-files"], summary["total-records"]]
        if found != listed:
            raise WrongRowsError(f"files and rows: {found} in the bucket, {listed} in the table")

    def _summary(self) -> Mapping[str, str]:
        """What Iceberg tells of the current snapshot; empty before the first one."""
        try:
            snapshot = self._client.load_table(self._table).current_snapshot()
        except NoSuchTableError:  # the connector makes it by itself
            return {}
        return snapshot.summary.additional_properties if snapshot and snapshot.summary else {}

    def close(self) -> None:
        """Nothing is held."""


def _client(catalog: LocalIcebergCatalog) -> RestCatalog:
    return RestCatalog("bench", uri=catalog.url, **catalog.storage)
