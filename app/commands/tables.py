"""The tables that a command works on."""

from argparse import Namespace
from collections.abc import Sequence

from app.config.settings import Settings
from app.errors import ConfigError
from app.service.lake import tables_of_group
from app.service.stores import new_store


def tables_of(settings: Settings, options: Namespace) -> Sequence[Settings]:
    """Settings of each table that ``--table`` names; without it, of all that this consumer group has had.

    ``check`` finds the topics that are there itself.
    """
    named = vars(options).get("table")
    if not named and (not settings.has_tables or options.command in ("check", "config-schema")):
        return [settings]
    if named or options.command == "try":  # whose records are those of one topic
        return [settings.of_table(each) for each in dict.fromkeys(named or [None])]
    store = new_store(settings)
    if not (tables := [*tables_of_group(settings, store)]):
        cause = f"consumer group {settings.consumer_group} has written none of input={settings.input_topic}"
        hint = f"Name one with --table, such as {settings.table}"
        raise ConfigError(f"looking for tables in {store.uri}/{settings.root}", cause, hint)
    return tables


def tables_beside(settings: Settings) -> Sequence[str]:
    """Names of the tables that this consumer group has had, where there are several."""
    return [each.table for each in tables_of_group(settings, new_store(settings))] if settings.has_tables else []
