"""The parts: all that a record does not need on its way from Kafka to the lake, one row and one folder each.

The core reads these tables and imports no part: a row names what is loaded when it is needed, as ``module:object``.
"""

from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple


class Format(NamedTuple):
    """A format that quixstreams has by the same name, or that the class ``messages`` reads."""

    messages: str = ""  # what reads many values at once; without it each is read by itself
    keys_at_once: bool = False  # whether many keys are read at once too: as text, as they are, or by ``messages``
    is_of_keys: bool = True  # whether keys may have it
    needs_registry: bool = False  # whether its schemas are in a registry
    also: str = ""  # another name of it


class CatalogKind(NamedTuple):
    """A kind of catalog: it lists a table of folders, or it is the table itself, with partitions, columns and types."""

    target: str  # from the settings: its address and the table in it, or ``None`` without a catalog
    new: str  # from its target, the store, and whether it announces new files
    is_table: bool = False
    contradictions: str = ""  # of the settings, as ``Area.contradictions`` of ``app.config.fields``
    refusal_of_name: str = ""  # why no column can have a name, if so


class Observer(NamedTuple):
    """What accompanies a run where one of the settings is not empty."""

    settings: Sequence[str]
    new: str  # from the connector and its lane: a context manager, inside whose ``with`` block the lane runs
    check: str = ""  # for ``check``, from the settings: a few words about the system at the address in the first one


NewCommand = Callable[..., ArgumentParser]  # see ``app.parts.commands.command_line``

# What reads the arguments of ``main.py``, and what runs the command that they name.
NEW_PARSER: Final = "app.parts.commands.command_line:new_parser"
RUN_COMMAND: Final = "app.parts.commands:run"
# Parts whose function ``add_commands`` extends the command line, of Python's own library alone; in the order of --help.
COMMANDS: Final = ("check", "try_out", "audit", "replay", "maintenance", "schema")
FORMATS: Final[Mapping[str, Format]] = {
    "str": Format(keys_at_once=True, also="string"),
    "bytes": Format(keys_at_once=True),
    "double": Format(),
    "int": Format(also="integer"),
    "json": Format("app.convert.json_parser:JsonMessages"),
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
STORES: Final = {"gs": "app.parts.gcs.store:GcsStore", "az": "app.parts.azure.store:AzureStore"}  # by their scheme
MSK_LOGIN: Final = "app.parts.msk_iam.msk_token:MskToken"  # from the settings: a callback that makes tokens
PLATFORM_STORE: Final = "app.parts.quix.platform_connection:parse_connection"  # bound to the deployment
VIRTUAL_INDEX: Final = "app.parts.quix.virtual_index:write_index"  # of a data file, for columns with ~
REGISTRY: Final = "app.parts.registry.connection:new_registry"
# Of a message in one of the formats that quixstreams has not: its value may be packed.
UNPACKED_SIZE: Final = "app.parts.registry.registered_schemas:unpacked_size"
CONSOLES: Final = ("app.parts.console.console:Console",)  # see ``app.monitoring.monitor.Console``
KEY_WATCH: Final = "app.parts.stream_timeouts.timeouts:StreamTimeouts"
RUN_END: Final = "app.parts.until.run_end:new_run_end"
OBSERVERS: Final[Mapping[str, Observer]] = {
    "maintenance": Observer(("compact", "keep"), "app.parts.maintenance.schedule:SelfMaintenance"),
    "lineage": Observer(("lineage_url",), "app.parts.lineage.lineage:Lineage", "app.parts.lineage.lineage:ask"),
}
