"""What a commit to an Iceberg table says of data files, and how pyiceberg is made ready for one."""

import logging
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    StatisticsCollector,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    pyarrow_to_schema,
)
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record

from app.catalog.iceberg.columns import mapping_of
from app.model import DataFile

logger = logging.getLogger(__name__)

_MAPPING: Final = "schema.name-mapping.default"  # the connector's files have no field ids
_RETRIES: Final = "commit.retry.num-retries"
_Plan = tuple[dict[int, StatisticsCollector], dict[str, int]]


def prepare(table: Table, spec_id: int) -> None:
    """Makes a table ready, in memory alone, for one try to commit files of this partition spec.

    pyiceberg would commit again without a look, and copies all snapshots twenty times a commit: those that no branch or
    tag names are left out.
    """
    metadata = table.metadata
    metadata.properties[_RETRIES] = "0"
    named = {reference.snapshot_id for reference in metadata.refs.values()}
    kept = [each for each in metadata.snapshots if each.snapshot_id in named]
    table.metadata = metadata.model_copy(update={"snapshots": kept, "snapshot_log": [], "default_spec_id": spec_id})


def map_names(transaction: Transaction) -> None:
    """Adds the columns to the table's name mapping that are not in it."""
    mapping = mapping_of(transaction.table_metadata)
    if mapping != transaction.table_metadata.name_mapping():
        transaction.set_properties({_MAPPING: mapping.model_dump_json()})


def schema_of(file: DataFile) -> pa.Schema:
    """Returns the columns of a file, by its footer."""
    return file.footer.schema.to_arrow_schema().remove_metadata()


def entries(metadata: TableMetadata, files: Iterable[tuple[DataFile, pa.Schema, Record]]) -> Iterator[IcebergFile]:
    """Yields what a manifest says of each file, by its ``schema_of`` and its values in the default spec."""
    plans: dict[pa.Schema, _Plan] = {}
    for file, arrow, partition in files:
        if arrow not in plans:
            plans[arrow] = _plan(metadata, arrow)
        yield _entry(metadata, plans[arrow], file, partition)


def _plan(metadata: TableMetadata, arrow: pa.Schema) -> _Plan:
    """Returns what statistics a file's columns get, which may be narrower or dropped, and the columns' ids."""
    schema = pyarrow_to_schema(arrow, mapping_of(metadata))
    plan = compute_statistics_plan(schema, metadata.properties)
    for field_id in plan.keys() - metadata.schema().field_ids:
        plan[field_id] = replace(plan[field_id], mode=MetricsMode(MetricModeTypes.NONE))
        _warn_of_dropped(plan[field_id].column_name)
    return plan, parquet_path_to_id_mapping(schema)


@cache  # one warning for each
def _warn_of_dropped(name: str) -> None:
    if "." in name:  # whole columns are left out of later files, with a warning
        logger.warning("%s was dropped from the table: its values are in new files, where no engine reads them", name)


def _entry(metadata: TableMetadata, plan: _Plan, file: DataFile, partition: Record) -> IcebergFile:
    statistics = data_file_statistics_from_parquet_metadata(file.footer, *plan)
    for field_id, found in list(statistics.column_aggregates.items()):
        # Spark lets NaN be the largest value of a column; Iceberg's readers would pass over the file.
        if any(isinstance(value, float) and math.isnan(value) for value in (found.current_min, found.current_max)):
            del statistics.column_aggregates[field_id]
    for name in _without_bounds(file.footer):
        statistics.column_aggregates.pop(plan[1][name], None)
    return IcebergFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.uri,
        file_format=FileFormat.PARQUET,
        partition=partition,
        file_size_in_bytes=file.size,
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def _without_bounds(footer: pq.FileMetaData) -> Iterator[str]:
    """Yields the paths of columns of which a row group has values and no bounds, as where one has more than 4 KB.

    pyiceberg would take the bounds of the other row groups for those of the file.
    """
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)] if footer.num_row_groups > 1 else []
    for index in range(footer.num_columns if groups else 0):
        if footer.schema.column(index).physical_type == "BYTE_ARRAY":
            found = [group.column(index).statistics for group in groups]
            if any(each is not None and each.num_values and not each.has_min_max for each in found):
                yield footer.schema.column(index).path
