"""Steps 1 and 2: portions of a batch → Arrow tables by the table's schema → one Parquet file that Spark reads fast."""

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path

import pyarrow.compute as pc

from app.convert.batch import BatchConverter, Converted
from app.convert.chunks import Rows
from app.convert.kafka_columns import KAFKA_TIMESTAMP
from app.convert.values import Rescue
from app.convert.whole_batches import Patiently
from app.delivery.open_batch import OpenBatch, with_folders
from app.errors import cut
from app.formatting import counted
from app.model import Batch
from app.table.existing import Computed, likely_meant
from app.table.layout import KAFKA_PARTITIONS, TIME_COLUMNS, PartitionSpec, folder

logger = logging.getLogger(__name__)

_MOST_NAMED = 1_000  # columns, since the start
_NAMED = 5  # columns, in one line
_SHOWN = 80  # characters of a name
_EXAMPLE = 300


class Stager:
    """Converts and stages batches; to be used by one thread.

    ``computed`` returns the folder columns that are in no record.
    """

    def __init__(
        self,
        converter: BatchConverter,
        table_root: str,
        spec: PartitionSpec,
        computed: Callable[[], Sequence[Computed]] = tuple,
    ) -> None:
        self._converter = converter
        self._table_root = table_root
        self._table = table_root.rpartition("/")[2]
        self._spec = spec
        self._computed = computed
        self._named: set[str] = set()
        self._has_rows = False

    def open(self, number: int, path: Path) -> OpenBatch:
        """Begin the batch of this number with this staged file.

        Groups of its rows are integers rather than the partition columns themselves because Spark's dynamic partition
        write then sorts by one int: 1.5 times as fast as by four strings, and no value can upset it.
        """
        return OpenBatch(number, path, self._table_root, self._spec, self._computed())

    def convert(self, batch: Batch, patiently: Patiently) -> Converted:
        """Step 1 for a portion of a batch; arguments and errors as those of ``BatchConverter``."""
        converted = self._converter.convert(batch, patiently)
        self._warn_of_rescued(converted.rescued)
        if converted.rows and not self._has_rows:
            self._has_rows = True
            self._warn_of_missing(converted.rows, converted.rescued)
        return converted

    def _warn_of_missing(self, rows: Rows, rescued: Mapping[str, Rescue]) -> None:
        """Log each column that the settings name and the first rows lack: most often it is misspelled."""
        null, timestamp = self._spec.null_value, self._spec.timestamp_column
        sources = {each.name: each.source for each in self._computed()}
        missing = {
            sources.get(column, column): (
                "HIVE_COLUMNS",
                f"go to {folder({column: null})}. Rows cannot change their folder later",
            )
            for column, values in with_folders(rows, self._spec, self._computed())[1].items()
            if pc.all(pc.equal(values, null)).as_py()
        }
        unmet = self._converter.field_rules.unmet()
        inside = {name for column in self._spec.columns if "." in (name := self._spec.sources.get(column, ""))}
        missing |= {
            name: (setting, "are written as they came") for name, setting in unmet.items() if name not in inside
        }
        if not rows.has_timestamps and timestamp != KAFKA_TIMESTAMP:
            outcome = f"have the Kafka timestamp there. Name {KAFKA_TIMESTAMP} if that is meant"
            missing[timestamp] = "TIMESTAMP_COLUMN", outcome
        names = (*TIME_COLUMNS, *KAFKA_PARTITIONS, *rows.table.column_names, *rescued)
        for column, (setting, outcome) in missing.items():
            first = f"the first {counted(len(rows.parts), 'row')} of {self._table}"
            said = f"none of {first} has a value in {column}, so they {outcome}"
            logger.warning("%s: %s. %s", setting, said, likely_meant(column, names, setting) or "Check the name")

    def _warn_of_rescued(self, rescued: Mapping[str, Rescue]) -> None:
        """Log each column once, in one line a batch: names come with the data, of any length and number."""
        if len(self._named) >= _MOST_NAMED:
            return
        news = {key: rescue for name, rescue in rescued.items() if (key := name[:_SHOWN]) not in self._named}
        if not news:
            return
        self._named.update(islice(news, _MOST_NAMED - len(self._named)))
        named = [f"column {cut(repr(key), _SHOWN)}: {cut(one.example, _EXAMPLE)}" for key, one in news.items()]
        more = f"; {len(news) - _NAMED:,} more columns" if len(news) > _NAMED else ""
        last = "" if len(self._named) < _MOST_NAMED else ". No further columns are named, batches count their values"
        logger.warning(
            "table %s: %s%s; such values are kept in _rescued_data. COLUMN_TYPES can fix a column's type%s",
            self._table,
            "; ".join(named[:_NAMED]),
            more,
            last,
        )
