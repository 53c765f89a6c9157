"""The table's schema without a store."""

from app.table.schema import EMPTY, TableSchema


class MemorySchema:
    """What ``app.table.schema_store.SchemaStore`` is to the staging step; ``asked`` holds what was wanted."""

    def __init__(self, current: TableSchema = EMPTY) -> None:
        self.current = current
        self.asked: list[TableSchema] = []

    def extend(self, wanted: TableSchema) -> TableSchema:
        self.asked.append(wanted)
        self.current = self.current.merge(wanted)
        return self.current
