"""The parts: code that a record does not need on its way from Kafka to the lake. Each part has a row and a folder.

The core reads these tables and imports no part. A row names a ``module:object`` that is loaded when it is needed.
"""

from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple


class Format(NamedTuple):
    """A format that quixstreams supports under the same name, or that the class ``messages`` parses."""

    messages: str = ""  # the class that parses many values at a time; without it, each value is parsed separately
    keys_at_once: bool = False  # whether many keys are parsed at a time too: as text, as bytes, or by ``messages``
    is_of_keys: bool = True  # whether keys may have this format
    needs_registry: bool = False  # whether the schemas are in a registry
    also: str = ""  # an alias


class CatalogKind(NamedTuple):
    """A kind of catalog: it lists a table of folders, or it is the table, with partitions, columns and types."""

    target: str  # creates the catalog's address and table from the settings; ``None`` without a catalog
    new: str  # creates the catalog from its target, the store, and whether it announces new files
    is_table: bool = False
    contradictions: str = ""  # reports wrong settings, as ``Area.contradictions`` of ``app.config.fields``
    refusal_of_name: str = ""  # returns why a column cannot have this name, or an empty text


class Observer(NamedTuple):
    """An observer accompanies a run if one of its settings is not empty."""

    settings: Sequence[str]
    new: str  # creates a context manager from the connector and its lane, which runs inside the ``with`` block
    check: str = ""  # for ``check``: describes the system at the address in the first of the settings


NewCommand = Callable[..., ArgumentParser]  # see ``app.parts.commands.command_line``

# The parser of the arguments of ``main.py``, and the function that runs their command.
NEW_PARSER: Final = "app.parts.commands.command_line:new_parser"
RUN_COMMAND: Final = "app.parts.commands:run"
# The function ``add_commands`` of these parts extends the command line. It imports only Python's standard library.
# --help lists the commands in this order.
COMMANDS: Final = ("check", "try_out", "audit", "replay", "maintenance", "schema")
FORMATS: Final[Mapping[str, Format]] = {
    "str": Format(keys_at_once=True, also="string"),
    "bytes": Format(keys_at_once=True),
    "double": Format(),
    "int": Format(also="integer"),
    "json": Format("app.convert.json_columns:JsonMessages"),
    "quix": Format(),
    "avro": Format("app.parts.avro.avro_messages:AvroMessages", keys_at_once=True, needs_registry=True),
    "json-schema": Format("app.parts.registry.registered_schemas:JsonSchemaMessages", is_of_keys=False),
    "protobuf": Format("app.parts.protobuf.protobuf_messages:ProtobufMessages", is_of_keys=False, needs_registry=True),
}
CATALOGS: Final[Mapping[str, CatalogKind]] = {
    "quix": CatalogKind("app.parts.quix.catalog_address:new_target", "app.parts.quix.catalog:QuixCatalog"),
    "iceberg": CatalogKind(
        "app.parts.iceberg.catalog_address:new_target",
        "app.parts.iceberg.table:IcebergTable",
        True,
        "app.parts.iceberg.catalog_address:contradictions",
        "app.parts.iceberg.column_names:refusal_of_name",
    ),
}
STORES: Final = {"gs": "app.parts.gcs.store:GcsStore", "az": "app.parts.azure.store:AzureStore"}  # by URI scheme
MSK_LOGIN: Final = "app.parts.msk_iam.msk_token:MskToken"  # from the settings: a callback that returns tokens
PLATFORM_STORE: Final = "app.parts.quix.platform_connection:parse_connection"  # the store bound to the deployment
VIRTUAL_INDEX: Final = "app.parts.quix.virtual_index:write_index"  # of a data file, for columns with ~
REGISTRY: Final = "app.parts.registry.connection:new_registry"
UNPACKED_SIZE: Final = "app.parts.registry.registered_schemas:unpacked_size"  # of a value that may be compressed
CONSOLES: Final = ("app.parts.console.console:Console",)  # see ``app.monitoring.monitor.Console``
KEY_WATCH: Final = "app.parts.stream_timeouts.timeouts:StreamTimeouts"
RUN_END: Final = "app.parts.until.run_end:new_run_end"
OBSERVERS: Final[Mapping[str, Observer]] = {
    "maintenance": Observer(("compact", "keep"), "app.parts.maintenance.schedule:SelfMaintenance"),
    "lineage": Observer(("lineage_url",), "app.parts.lineage.lineage:Lineage", "app.parts.lineage.lineage:ask"),
}
