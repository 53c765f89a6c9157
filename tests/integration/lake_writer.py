"""A table made of batches by the connector's own steps: staged by the shared schema, written by Spark, stored."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from app.catalog.registrar import Registrar
from app.model import Row, TopicPartition
from app.spark.writer import SparkWriter
from app.storage.base import ObjectStore
from app.table.existing_table import TableLocation
from app.table.layout import PartitionSpec
from app.table.schema import TableSchema
from app.table.schema_store import SchemaStore
from tests.support.batches import NOON, batch_of, spec, stage, stager

TABLE = "data/readings"


class LakeWriter:
    """Writes one batch after the other into a table, by a connected store and a started writer."""

    def __init__(
        self,
        store: ObjectStore,
        writer: SparkWriter,
        scratch: Path,
        types: Mapping[str, pa.DataType] | None = None,
        partitions: PartitionSpec = spec("place"),  # noqa: B008 - frozen
    ) -> None:
        self._store = store
        self._partitions = partitions
        self._writer = writer
        self._scratch = scratch
        self._batches = 0
        self._offset = 0
        self._types = types or {}
        self._registrar = Registrar(None, TableLocation(store.uri, TABLE), partitions, "readings", None)
        self._keeper = SchemaStore(store, TABLE, self._types)
        self._keeper.open()

    @property
    def schema(self) -> TableSchema:
        return self._keeper.current

    def write(self, *values: dict[str, Any], metadata: Sequence[str] = ()) -> list[str]:
        """Write the records as one batch; gives the keys of its files, index files among them."""
        self._batches += 1
        rows = [Row(value, "k", NOON, self._offset + index, [("h", b"1")]) for index, value in enumerate(values)]
        self._offset += len(values)
        batch = batch_of({TopicPartition("readings", 0): rows})
        staging = stager(self._partitions, table_root=TABLE, schema=self._keeper, metadata=metadata, types=self._types)
        folder = self._scratch / f"batch-{self._batches}"
        folder.mkdir()
        staged = stage(staging, batch, folder / "staged.parquet", self._batches)
        assert staged.file is not None
        assert not staged.rejected
        files = self._writer.write(staged.file, folder / "out")
        indexes = self._registrar.write_indexes(files, folder)
        stored = [self._store.upload(file.path, file.key).key for file in files]
        return stored + [self._store.upload(index.path, index.key).key for index in indexes]
