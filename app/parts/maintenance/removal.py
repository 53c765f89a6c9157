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
from app.table.layout import is_merged
from app.table.type_names import type_name

_TOKEN_DIGITS = 24
_MARK_DIGITS = 8  # of the token; the other digits make the name unique


def _is_exact(kind: pa.DataType) -> bool:
    return not (pa.types.is_nested(kind) or pa.types.is_floating(kind))


_KINDS = {"__offset": pa.types.is_integer, "__timestamp": pa.types.is_timestamp}


@dataclass(frozen=True, slots=True)
class Removal:
    """The rows to omit: the rows that meet all SQL ``conditions``.

    If ``newest_by`` contains the columns of a key, first each row is omitted if the files contain a newer row of its
    key. Then a key is omitted if all its remaining rows meet the conditions.
    """

    conditions: Sequence[str] = ()
    newest_by: Sequence[str] = ()

    @property
    def is_erasure(self) -> bool:
        """Whether files stay unchanged if they contain no rows to omit."""
        return bool(self.conditions) and not self.newest_by

    @property
    def _mark(self) -> str:
        text = json.dumps([sorted(self.newest_by), *self.conditions])
        return sha256(text.encode()).hexdigest()[:_MARK_DIGITS] if self.newest_by else ""

    def new_token(self) -> str:
        """Return a unique token for the name of a merged file. With ``newest_by``, the token begins with a mark."""
        return (self._mark + secrets.token_hex(_TOKEN_DIGITS // 2))[:_TOKEN_DIGITS]

    def is_done(self, key: str) -> bool:
        """Return whether a file's name shows that a run with this removal has merged the file."""
        return is_merged(key) and key.rpartition("/")[2].startswith(f"data_merged_{self._mark}")

    def require_columns(self, columns: Mapping[str, pa.DataType], folder_columns: Collection[str]) -> None:
        """Raise ``ConfigError`` if a column of the key, or of the rows' order, is missing or cannot be compared."""
        for name in (*self.newest_by, *parse.ORDER_COLUMNS) if self.newest_by else ():
            kind = columns.get(name)
            if kind is None and name not in folder_columns:
                cause = f"the table has no column {name!r}"
            elif kind is not None and not _KINDS.get(name, _is_exact)(kind):
                cause = f"the column {name!r} has the type {type_name(kind)}, which has no exact order or equality"
            else:
                continue
            hint = "Correct --newest-by or COMPACT_NEWEST_BY; METADATA_COLUMNS adds columns only to new records"
            raise ConfigError("keeping the newest row of each key", cause, hint)


NOTHING = Removal()
EVERY_ROW = Removal(("true",))  # all rows meet this condition: files are deleted, and not read


def removal_of(settings: Settings, options: Namespace) -> Removal:
    """Return the removal of ``compact``. Options override settings. Raise ``ConfigError`` if both contradict."""
    doing = "choosing the rows that compact keeps"
    try:
        key = parse.columns(options.newest_by or "") or settings.compact_newest_by
    except ValueError as error:
        raise ConfigError(doing, f"--newest-by {error}") from None
    where = options.drop_where or settings.compact_drop_where
    chosen = settings.model_copy(update={"compact_newest_by": key, "compact_drop_where": where})
    for variable, problem in chain(chosen.contradictions(), chosen.incomplete()):
        raise ConfigError(doing, f"{variable} {problem}")
    return Removal((where,) if where else (), key)
