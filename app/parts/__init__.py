"""Lists the parts: optional code, such as formats, stores, catalogs and commands. Each part has a separate folder.

The core does not import parts. The tables here contain addresses ``module:object``, which are loaded when needed.
"""

from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple


class Format(NamedTuple):
    """A format of messages. quixstreams supports a format of this name, or the class ``messages`` parses the format."""

    messages: str = ""  # the class that parses many values at a time; if empty, each value is parsed separately
    keys_at_once: bool = False  # whether many message keys can be parsed at a time: as text, bytes, or by ``messages``
    is_of_keys: bool = True  # whether message keys can have this format
    needs_registry: bool = False  # whether the format needs a schema registry
    also: str = ""  # another name of the format


class CatalogKind(NamedTuple):
    """A kind of catalog. If ``is_table`` is true, the catalog defines partitions, columns and types, like Iceberg."""

    target: str  # a function that returns the catalog's address and table from the settings; ``None`` without a catalog
    new: str  # a class that is created with the target, the store, and a flag whether the query API is notified
    is_table: bool = False
    contradictions: str = ""  # a function that reports wrong settings, see ``app.config.fields.Area.contradictions``
    refusal_of_name: str = ""  # a function that returns why a column cannot have a name, or an empty text
    new_lender: str = ""  # a function that returns, for the target, a function that requests keys for S3


class Observer(NamedTuple):
    """An observer of a run. The observer is started if one of ``settings`` is not empty."""

    settings: Sequence[str]
    new: str  # a class that is created with the connector and the lane; the lane runs in its ``with`` block
    check: str = ""  # a function for ``check``, which describes the system at the address in the first setting


NewCommand = Callable[..., ArgumentParser]  # see ``app.parts.commands.command_line``

# The parser for the arguments of ``main.py``, and the function that runs the command in the arguments.
NEW_PARSER: Final = "app.parts.commands.command_line:new_parser"
RUN_COMMAND: Final = "app.parts.commands:run"
# These parts have a function ``add_commands``, which extends the command line and imports only the standard library.
# --help lists the commands in this order.
COMMANDS: Final = ("check", "try_out", "audit", "complete", "replay", "maintenance", "schema")
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
        "app.parts.iceberg.lent_keys:Lender",
    ),
}
STORES: Final = {"gs": "app.parts.gcs.store:GcsStore", "az": "app.parts.azure.store:AzureStore"}  # by URI scheme
MSK_LOGIN: Final = "app.parts.msk_iam.msk_token:MskToken"  # a class for callbacks that return tokens
PLATFORM_STORE: Final = "app.parts.quix.platform_connection:parse_connection"  # for the platform's store
VIRTUAL_INDEX: Final = "app.parts.quix.virtual_index:write_index"  # for columns with ~
REGISTRY: Final = "app.parts.registry.connection:new_registry"
UNPACKED_SIZE: Final = "app.parts.registry.registered_schemas:unpacked_size"  # for compressed values
CONSOLES: Final = ("app.parts.console.console:Console",)  # see ``app.monitoring.monitor.Console``
KEY_WATCH: Final = "app.parts.stream_timeouts.timeouts:StreamTimeouts"
RUN_END: Final = "app.parts.until.run_end:new_run_end"
OBSERVERS: Final[Mapping[str, Observer]] = {
    "maintenance": Observer(("compact", "keep"), "app.parts.maintenance.schedule:SelfMaintenance"),
    "batch_topic": Observer(("batch_topic",), "app.parts.batch_topic.batch_topic:BatchTopic"),
    "lineage": Observer(("lineage_url",), "app.parts.lineage.lineage:Lineage", "app.parts.lineage.lineage:ask"),
}
