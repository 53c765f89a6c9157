"""The rules of the architecture, read from the imports: downwards only, and each library at one place."""

import ast
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# From the bottom to the top. A module imports only from lines below its own.
LAYERS = (
    ("app", "app.catalog", "app.storage"),
    ("app.model",),
    ("app.errors", "app.live", "app.metrics"),
    (
        "app.bad_rows",
        "app.commit_mark",
        "app.error_text",
        "app.end_offsets",
        "app.exact_json",
        "app.figures",
        "app.history",
        "app.http_headers",
        "app.http_server",
        "app.java_log",
        "app.jvm",
        "app.lenient_json",
        "app.lineage",
        "app.log_lines",
        "app.message_headers",
        "app.process_memory",
        "app.ranges",
        "app.recent_warnings",
        "app.row_size",
        "app.sparse",
        "app.scratch",
        "app.sizing",
        "app.staged_file",
        "app.storage.azure_grant",
        "app.status_style",
        "app.topology",
        "app.user_code",
    ),
    (
        "app.audit",
        "app.chart",
        "app.encodings",
        "app.exposition",
        "app.file_ledger",
        "app.journal_entry",
        "app.kafka_watch",
        "app.parquet_options",
        "app.starting",
        "app.topic_ids",
        "app.type_names",
    ),
    (
        "app.bad_records",
        "app.leaves",
        "app.rescue",
        "app.retry",
        "app.revocations",
        "app.schema",
        "app.setting_values",
        "app.status_page",
        "app.start_position",
        "app.stretches",
        "app.timestamps",
    ),
    ("app.big_messages", "app.customised", "app.fitting", "app.internal_topics", "app.other_sinks"),
    ("app.columns", "app.schema_differences"),
    ("app.json_lines", "app.pieces"),
    (
        "app.assignment",
        "app.broker",
        "app.fences",
        "app.flush_wait",
        "app.handover",
        "app.health",
        "app.kafka_errors",
        "app.listening",
        "app.metadata",
        "app.observe",
        "app.positions",
        "app.rejections",
        "app.silence",
        "app.sweeper",
        "app.transform",
    ),
    ("app.checkpoints", "app.monitor", "app.refit", "app.stream_timeouts"),
    ("app.catalog.base", "app.connection", "app.partitioning", "app.records", "app.storage.base"),
    ("app.buffer", "app.catalog.entries", "app.file_groups", "app.location", "app.whole_batches"),
    ("app.batch_conversion",),
    (
        "app.catalog.rest",
        "app.dead_letter",
        "app.sidecar",
        "app.statistics",
        "app.storage.azure_errors",
        "app.storage.content",
        "app.storage.gcs_errors",
        "app.storage.os_errors",
        "app.storage.s3_errors",
        "app.variables.base",
    ),
    (
        "app.footers",
        "app.group",
        "app.journal_object",
        "app.storage.azure_identity",
        "app.storage.conditional",
        "app.storage.probe",
        "app.storage.s3_config",
        "app.variables.kafka",
    ),
    (
        "app.first_offsets",
        "app.journal",
        "app.storage.azure_client",
        "app.storage.gcs_client",
        "app.storage.s3_client",
        "app.storage.s3_sender",
        "app.unsettled",
        "app.variables.store",
    ),
    ("app.storage.gcs_bucket", "app.variables.table"),
    ("app.variables",),
    (
        "app.catalog.query_api",
        "app.catalog.quix",
        "app.custody",
        "app.offset_columns",
        "app.settings",
        "app.spark",
        "app.storage.azure",
        "app.storage.gcs",
        "app.storage.local",
        "app.storage.s3",
    ),
    ("app.claims", "app.schema_keeper", "app.sink", "app.staging", "app.table"),
    ("app.admission", "app.raw_lane", "app.watchful_sink"),
    ("app.application", "app.delivery", "app.registrar"),
    ("app.job", "app.parcels", "app.recovery", "app.offline", "app.replaced_files", "app.topics"),
    ("app.pipeline", "app.rewriter", "app.stores", "app.watching", "app.wiring"),
    (
        "app.commands.answers",
        "app.commands.arguments",
        "app.commands.audit_report",
        "app.commands.checking",
        "app.commands.sender",
        "app.lake",
    ),
    ("app.overview",),
    (
        "app.commands.audit",
        "app.commands.check",
        "app.commands.replay",
        "app.commands.rewrite",
        "app.commands.try_out",
        "app.service",
    ),
    ("app.commands",),
    ("main",),
)
HEIGHTS = {module: height for height, modules in enumerate(LAYERS) for module in modules}

# Where a library, or a module that stands for one, may be imported.
HOMES = {
    "pyspark": ("app.spark",),
    "py4j": ("app.spark",),
    "boto3": ("app.storage.s3*",),
    "botocore": ("app.storage.s3*",),
    "s3transfer": ("app.storage.s3*",),
    "azure": ("app.storage.azure*",),
    "google": ("app.storage.gcs*",),
    "requests": ("app.catalog.*", "app.storage.azure*", "app.storage.gcs*"),
    "prometheus_client": ("app.exposition",),
    "app.spark": ("app.commands.check", "app.commands.rewrite", "app.service"),
    "app.storage.local": ("app.stores",),
    "app.storage.gcs": ("app.stores",),
    "app.storage.s3": ("app.stores",),
    "app.storage.azure": ("app.stores",),
    "app.catalog.query_api": ("app.lake",),
    "app.catalog.quix": ("app.lake",),
    "app.settings": (
        "app.commands",
        "app.commands.*",
        "app.lake",
        "app.overview",
        "app.service",
        "app.stores",
        "app.watching",
        "app.wiring",
        "main",
    ),
    "app.variables": ("app.settings", "app.variables", "app.variables.*"),
    "app.setting_values": ("app.settings", "app.variables", "app.variables.*", "app.connection"),
}


def modules() -> dict[str, Path]:
    """All modules of the connector by their names."""
    paths = [ROOT / "main.py", *(ROOT / "app").rglob("*.py")]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def imports(path: Path) -> Iterator[str]:
    """Full names of what a module imports, also inside its functions: ``app.errors``, ``app.errors.DataError``."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import, which these rules do not see"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_within(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")


def imported_modules(path: Path) -> set[str]:
    """Which of the connector's own modules a module imports."""
    return {
        max(found, key=len) for name in imports(path) if (found := [own for own in HEIGHTS if is_within(name, own)])
    }


def test_each_module_has_its_place() -> None:
    assert sorted(modules()) == sorted(HEIGHTS), "a new module belongs into LAYERS, a removed one out of it"


@pytest.mark.parametrize("module", modules())
def test_imports_point_downwards_only(module: str) -> None:
    not_below = {name for name in imported_modules(modules()[module]) if HEIGHTS[name] >= HEIGHTS[module]}
    assert not not_below, f"{module} imports from its own layer or above"


@pytest.mark.parametrize("library", HOMES)
def test_each_library_is_imported_at_its_home_only(library: str) -> None:
    importers = {name for name, path in modules().items() if any(is_within(found, library) for found in imports(path))}
    assert importers, f"nobody imports {library} any more: its rule can go"
    assert {name for name in importers if not any(fnmatch(name, home) for home in HOMES[library])} == set()


def test_the_rules_see_every_form_of_import(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text(
        "import app.errors\n"
        "from app import observe\n"
        "from app.storage import s3 as store\n"
        "from app.storage.s3_errors import translated\n"
        "def late():\n"
        "    from app.model import Row\n"
    )
    found = {"app.errors", "app.observe", "app.storage.s3", "app.storage.s3_errors", "app.model"}
    assert imported_modules(source) == found
