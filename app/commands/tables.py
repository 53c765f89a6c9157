"""The tables that a command works on."""

from argparse import Namespace
from collections.abc import Sequence

from app.config.settings import Settings
from app.errors import ConfigError
from app.journal.entry import group_folder
from app.journal.first_offsets import noted_topics
from app.service.stores import new_store


def tables_of(settings: Settings, options: Namespace) -> Sequence[Settings]:
    """Settings of each table that ``--table`` names; without it, of all that this consumer group has had.

    Kafka is not asked: a topic may be gone while its table has rows. ``check`` finds the topics that are there itself.
    """
    named = vars(options).get("table")
    if not named and (not settings.has_tables or options.command in ("check", "config-schema")):
        return [settings]
    if named or options.command == "try":  # whose records are those of one topic
        return [settings.of_table(each) for each in dict.fromkeys(named or [None])]
    store, group = new_store(settings), settings.consumer_group
    names = (group, f"{settings.workspace_id}-{group}")  # as the platform has it
    noted = (found.key.rpartition("/")[2] for name in names for found in store.list(noted_topics(settings.root, name)))

    def is_ours(topic: str) -> bool:
        root = f"{settings.root}/{settings.of_topic(topic).table}"  # a catalog may have the table elsewhere
        return settings.catalog is not None or any(next(store.list(group_folder(root, each)), None) for each in names)

    if not (topics := {topic for topic in noted if settings.has_table(topic) and is_ours(topic)}):
        cause = f"consumer group {group} has written none of input={settings.input_topic}"
        hint = f"Name one with --table, such as {settings.table}"
        raise ConfigError(f"looking for tables in {store.uri}/{settings.root}", cause, hint)
    return [settings.of_topic(topic) for topic in sorted(topics)]
