"""``python main.py rewrite``: brings old files of the table to the table's schema."""

import logging
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial

import pyarrow as pa

from app.catalog.base import Catalog
from app.commands.existing_table import require_table
from app.commands.output import print_line
from app.commands.rewrite.replaced_files import ReplacedFiles, notes
from app.commands.rewrite.rewrite_file import Rewriter, SkippedError
from app.commands.rewrite.schema_differences import differences
from app.commands.rewrite.stored_rows import NotPossibleError
from app.commands.side_by_side import side_by_side
from app.config.settings import Settings
from app.errors import ConfigError, FatalError
from app.formatting import counted
from app.journal.survey import survey
from app.service.lake import new_catalog, new_location, new_registrar, new_schema, new_spec
from app.service.spark import new_spark_writer
from app.service.stores import new_store
from app.spark.scratch import scratch_folder
from app.storage.base import ObjectStore, StoredObject
from app.table.catalog_table import CatalogTable
from app.table.layout import is_data_file
from app.table.location import TableLocation
from app.table.parquet_reader import read_footer
from app.table.schema import TableSchema
from app.table.schema_store import SchemaStore

logger = logging.getLogger(__name__)


def rewrite(settings: Settings, options: Namespace) -> int:
    """Rewrite the files that keep readers from the table's schema, or list them.

    Raises:
        ConfigError: there is no such table.
        ConnectorError: the store, the catalog or Spark fails, or files had to be left as they are.
    """
    if settings.is_iceberg:
        raise ConfigError(
            "rewriting files", "the table is one of Iceberg", "Call rewrite_data_files of Spark, or optimize of Trino"
        )
    store = new_store(settings)
    catalog = new_catalog(settings, store)
    known = catalog.check() if catalog else None
    location = new_location(settings, store, known)
    require_table(store, location)
    schema = new_schema(settings, store, location, known)
    left = sum(1 for _ in notes(store, location.root))
    if not options.dry_run:
        schema.open()
        if left:
            _finish(_new_replaced(settings, store, location, catalog, known))
    elif left:
        print_line(f"{counted(left, 'file')} of a run that was cut off: the catalog would be updated for them")
    found = _schemas(store, location.root, options.folder, settings.max_write_workers)
    left_out = survey(store, location.root).left_out  # the journals go by the sizes of files of unfinished batches
    found = {kind: [file for file in files if file.key not in left_out] for kind, files in found.items()}
    wanted = _joined(found, frozenset(settings.column_types))
    table = schema.look().merge(wanted) if options.dry_run else schema.extend(wanted)
    plan = _plan(found, table)
    of_all = f"of {counted(sum(map(len, found.values())), 'file')} in {location.uri}"
    if not plan:
        print_line(f"nothing to do: the schema of each {of_all} is the table's")
    elif options.dry_run:
        for key, reason in plan:
            print_line(f"{key}: {reason}")
        print_line(f"{len(plan):,} {of_all} would be rewritten")
    else:
        print_line(f"{len(plan):,} {of_all} to be rewritten")
        replaced = _new_replaced(settings, store, location, catalog, known)
        _rewrite(settings, store, schema, replaced, plan)
    return 0


Found = dict[pa.Schema, list[StoredObject]]
Plan = list[tuple[str, str]]


def _schemas(store: ObjectStore, root: str, folders: Sequence[str] | None, workers: int) -> Found:
    """Group the files by their schemas, of which there are few."""
    files = _data_files(store, root, folders)
    found: Found = {}
    for file, schema in side_by_side(workers, partial(_schema, store), files):
        if schema is not None:
            found.setdefault(schema, []).append(file)
    return found


def _data_files(store: ObjectStore, root: str, folders: Sequence[str] | None) -> Iterator[StoredObject]:
    """The table's data files, or those in the folders, none of them twice.

    Raises:
        ConfigError: a folder has no data files.
    """
    below = sorted({f"{root}/{name.strip('/')}/" for name in folders}) if folders else [f"{root}/"]
    outermost = [name for name in below if not any(name != other and name.startswith(other) for other in below)]
    for prefix in outermost:
        some = False
        for found in store.list(prefix):
            if is_data_file(found.key, root):
                some = True
                yield found
        if folders and not some:
            raise ConfigError(
                f"listing {store.uri}/{prefix}",
                "there are no data files",
                "Give --folder as it is below the table, such as year=2024/month=05",
            )


def _schema(store: ObjectStore, file: StoredObject) -> pa.Schema | None:
    """The schema in a file's footer, ``None`` for a file that was changed or deleted after it was listed."""
    try:
        return read_footer(store, file.key, file.size).schema.to_arrow_schema().remove_metadata()
    except FatalError:
        if file in store.list(file.key):
            raise
        logger.info("%s was changed or deleted meanwhile", file.key)
        return None


def _joined(schemas: Iterable[pa.Schema], fixed: frozenset[str]) -> TableSchema:
    """Merge the files' columns: types wider than the table's widen it, unless the user has fixed them."""
    joined = TableSchema()
    for schema in schemas:
        try:
            columns = TableSchema.from_arrow(schema).columns
        except ValueError as error:
            logger.warning("a file's schema is not taken into the table's: %s", error)
            continue
        joined = joined.merge(TableSchema({name: kind for name, kind in columns.items() if name not in fixed}))
    return joined


def _plan(found: Found, table: TableSchema) -> Plan:
    """List the files to rewrite: sorted keys, each with the differences."""
    plan: Plan = []
    for schema, files in found.items():
        reason = ", ".join(map(str, differences(schema, table)))
        if reason:
            plan += [(file.key, reason) for file in files]
    return sorted(plan)


def _new_replaced(
    settings: Settings, store: ObjectStore, location: TableLocation, catalog: Catalog | None, known: CatalogTable | None
) -> ReplacedFiles:
    return ReplacedFiles(
        store,
        location.root,
        new_registrar(settings, catalog, location, known),
        new_spec(settings, store, location, known).virtual,
        settings.bounded_columns,
    )


def _finish(replaced: ReplacedFiles) -> None:
    with scratch_folder() as scratch:
        finished = replaced.finish(scratch)
    if finished:
        print_line(f"{counted(finished, 'file')} of a run that was cut off: the catalog knows them now")


def _rewrite(settings: Settings, store: ObjectStore, schema: SchemaStore, replaced: ReplacedFiles, plan: Plan) -> None:
    with scratch_folder() as scratch, closing(new_spark_writer(settings, scratch)) as spark:
        spark_up = spark.start()
        rewriter = Rewriter(
            store=store,
            writer=spark,
            schema=schema,
            replaced=replaced,
            fixed=frozenset(settings.column_types),
            scratch=scratch,
        )
        spark_up.result()
        with closing(rewriter):
            _run(rewriter, plan)


def _run(rewriter: Rewriter, plan: Plan) -> None:
    """Rewrite the planned files; print the result for each and, however it ends, for all."""
    done = skipped = left = rescued = 0
    try:
        for number, (key, reason) in enumerate(plan, 1):
            line = f"{number:,}/{len(plan):,} {key}: {reason}"
            try:
                file = rewriter.rewrite(key)
            except SkippedError as error:
                skipped += 1
                print_line(f"{line}; skipped: {error}")
            except NotPossibleError as error:
                left += 1
                print_line(f"{line}; left as it is: {error}")
            else:
                done += 1
                rescued += file.rescued
                kept = f", {counted(file.rescued, 'value')} to _rescued_data" if file.rescued else ""
                print_line(f"{line}; {counted(file.rows, 'row')}, {file.size_before:,} → {file.size:,} bytes{kept}")
                if file.is_last:
                    raise KeyboardInterrupt
    finally:
        to_do = len(plan) - done - skipped - left
        print_line(
            f"{counted(done, 'file')} rewritten, {skipped:,} skipped, {left:,} left as they are, {to_do:,} to do; "
            f"{counted(rescued, 'value')} to _rescued_data"
        )
    if left:
        raise FatalError(
            "rewriting the table", f"{counted(left, 'file')} could not be rewritten", "The reasons are above"
        )
