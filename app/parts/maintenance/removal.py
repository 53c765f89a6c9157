"""The rows that ``compact`` and ``erase`` omit from merged files."""

import json
import secrets
from argparse import Namespace
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain

import pyarrow as pa

from app.config import parsers as parse
from app.config.settings import Settings
from app.errors import ConfigError
from app.table.layout import UTC_ZONE, is_merged
from app.table.type_names import type_name

_TYPES = {"__offset": pa.int64(), "__timestamp": pa.timestamp("us", UTC_ZONE)}


@dataclass(frozen=True, slots=True)
class Removal:
    """The rows to omit: the rows that meet all SQL ``conditions``.

    If ``newest_by`` contains the columns of a key, first each row with a newer row of its key is omitted. Then a key is
    omitted if all its remaining rows meet the conditions.
    """

    conditions: Sequence[str] = ()
    newest_by: Sequence[str] = ()

    @property
    def is_erasure(self) -> bool:
        """Whether files stay unchanged if they contain no rows to omit."""
        return bool(self.conditions) and not self.newest_by

    @property
    def _mark(self) -> str:
        """The first digits of the token in the names of merged files. Other keys and conditions have other marks."""
        text = json.dumps([sorted(self.newest_by), *self.conditions])
        return sha256(text.encode()).hexdigest()[:8] if self.newest_by else ""

    def new_token(self) -> str:
        """Return a unique token for the name of a merged file."""
        return (self._mark + secrets.token_hex(12))[:24]

    def is_done(self, key: str) -> bool:
        """Return whether a file's name shows that a run with this removal has merged the file."""
        return is_merged(key) and key.rpartition("/")[2].startswith(f"data_merged_{self._mark}")

    def require_columns(self, columns: Mapping[str, pa.DataType], folder_columns: Collection[str]) -> None:
        """Raise ``ConfigError`` if a column of the key, or of the rows' order, is missing or cannot be compared."""
        for name in (*self.newest_by, *parse.ORDER_COLUMNS) if self.newest_by else ():
            cause = "" if name in folder_columns else f"the table has no column {name!r}"
            if kind := columns.get(name):
                is_exact = not (pa.types.is_nested(kind) or pa.types.is_floating(kind))
                is_valid = is_exact and kind == _TYPES.get(name, kind)
                cause = "" if is_valid else f"{name!r} has the type {type_name(kind)}, without an exact order"
            if cause:
                hint = "Correct --newest-by or COMPACT_NEWEST_BY; METADATA_COLUMNS adds columns only to new records"
                raise ConfigError("keeping the newest row of each key", cause, hint)


NOTHING = Removal()
EVERY_ROW = Removal(("true",))  # all rows meet this condition: files are deleted, and not read


def removal_of(settings: Settings, options: Namespace) -> Removal:
    """Return the removal of ``compact``. Options override settings. Raise ``ConfigError`` if both contradict."""
    key = tuple(options.newest_by.split(",")) if options.newest_by else settings.compact_newest_by
    where = options.drop_where or settings.compact_drop_where
    chosen = settings.model_copy(update={"compact_newest_by": key, "compact_drop_where": where})
    for variable, problem in chain(chosen.contradictions(), chosen.incomplete()):
        raise ConfigError("choosing the rows that compact keeps", f"{variable} {problem}")
    return Removal((where,) if where else (), key)
