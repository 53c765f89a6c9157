"""Builds the parts from the settings."""

import shutil
from dataclasses import replace
from math import inf
from pathlib import Path
from pkgutil import resolve_name

from app.bad_records.refusals import BadRecords
from app.config.settings import Settings
from app.convert.batch import BatchConverter
from app.convert.json_parser import JsonMessages
from app.convert.rows import Rules
from app.convert.ruled_messages import RuledMessages
from app.convert.whole_batches import WholeBatches
from app.delivery.batch_limits import BatchLimits
from app.delivery.stage import Stager
from app.service.formats import Formats
from app.service.lake import Lake
from app.spark.scratch import is_in_memory
from app.timings import Timings


def new_stager(settings: Settings, lake: Lake, bad_records: BadRecords, formats: Formats | None = None) -> Stager:
    """Steps 1 and 2; without ``formats`` of rows alone."""
    spec = lake.spec
    columns, types = frozenset(spec.columns), settings.column_types
    limit, kind = settings.column_limit, settings.catalog_kind
    rules = Rules(spec.timestamp_column, columns, types, settings.timestamp_as, limit, not kind.is_table)
    if kind.refusal_of_name:
        rules = replace(rules, refuse=resolve_name(kind.refusal_of_name))
    field_rules = settings.field_rules
    whole_batches = None
    if formats:
        parser, read_key, ask_with = formats.parser, formats.read_key, formats.ask_with
        if field_rules:
            parser = RuledMessages(parser or JsonMessages(), field_rules)
        whole_batches = WholeBatches(spec, rules, settings.metadata_columns, parser, read_key, ask_with)
    converter = BatchConverter(
        spec=spec,
        table_root=lake.location.root,
        schema=lake.schema,
        rules=rules,
        metadata=settings.metadata_columns,
        bad_records=bad_records,
        whole_batches=whole_batches,
        read_message=formats.read if formats else None,
        field_rules=field_rules,
    )
    return Stager(converter, lake.location.root, spec, lake.registrar.computed)


def new_batch_limits(settings: Settings, timings: Timings, scratch: Path, commit_seconds: float = inf) -> BatchLimits:
    """The limits of the settings, of this machine's memory and of the scratch folder's disk."""
    memory = settings.memory
    limits = BatchLimits(
        batch_size=settings.batch_size,
        target_file_bytes=settings.target_file_mb * 2**20,
        gather_seconds=timings.gather_seconds,
        max_record_bytes=memory.max_record_bytes,
        max_buffer_bytes=memory.buffer_mb * 2**20,
        max_sort_bytes=memory.sort_mb * 2**20,
        commit_seconds=commit_seconds,
    )
    return limits.fitted(disk_bytes=shutil.disk_usage(scratch).total, is_disk_memory=is_in_memory(scratch))
