"""Adds ``python main.py schema``, which prints an SQL statement for reading the table, see docs/engines.md."""

from app.parts import NewCommand

_ENGINES = ("athena", "bigquery", "clickhouse", "duckdb", "spark", "trino")


def add_commands(new: NewCommand) -> None:
    schema = new("schema", "Print the statement with which an engine reads the table.")
    schema.add_argument("--for", dest="engine", required=True, choices=_ENGINES)
    work = "app.parts.schema.command:config_schema"
    new("config-schema", "Print the settings as JSON Schema.", work, needs="", tables="none")
