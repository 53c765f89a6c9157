"""The common parts of the journal's documents: the objects that documents list, and the object keys of documents.

The folder of a consumer group contains a claim for each topic partition (``app.journal.journal``) and a log for each
assignment (``app.journal.log``).
"""

import hashlib
from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetPydanticSchema, ValidationError
from pydantic_core import core_schema

from app.model import DataFile, TopicPartition
from app.storage.document import Form
from app.table.layout import journal_folder

_LONGEST_NAME = 150  # bytes of a folder's name before the hash; a folder's name may have 255 bytes
_REMEDY = (
    "If a newer release wrote it, update this one. Otherwise restore the object. If you delete it, the connector "
    "continues from the offset committed in Kafka, and rows may be duplicated"
)
_LOGS = "generations.d"  # assignments were first named generations; no topic's folder contains a dot


class Stored(BaseModel):
    """Base class of the journal's documents and of their parts."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)


class _FileForm(Stored):
    """The stored fields of a data file."""

    key: str
    size: int = Field(ge=0)
    rows: int = Field(ge=0)
    partition_values: dict[str, str]


def _file_schema(_: object, form: GetCoreSchemaHandler) -> core_schema.CoreSchema:
    def stored(file: DataFile) -> dict[str, Any]:
        return {name: getattr(file, name) for name in _FileForm.model_fields}

    return core_schema.json_or_python_schema(
        core_schema.no_info_after_validator_function(lambda fields: DataFile(**dict(fields)), form(_FileForm)),
        core_schema.is_instance_schema(DataFile),
        serialization=core_schema.plain_serializer_function_ser_schema(stored),
    )


JournaledFile = Annotated[DataFile, GetPydanticSchema(_file_schema)]
"""A data file in a document of the journal."""


class RolledBack(Stored):
    """An object whose batch was rolled back. ``since`` is the time of the roll back, in seconds since the epoch.

    ``removed`` is true if readers no longer see the object's rows; see ``app.journal.late_uploads``.
    """

    key: str
    since: int
    removed: bool = False


_M = TypeVar("_M", bound=BaseModel)


def parse(model: type[_M], body: bytes) -> _M:
    """Parse a document. Raise ``ValueError`` with the wrong field if a document is damaged or from a newer release."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{where}: {first['msg']}" if where else first["msg"]) from None


def form_of(model: type[_M], what: str = "the journal", remedy: str = _REMEDY) -> Form[_M]:
    return Form(what, partial(parse, model), lambda document: document.model_dump_json().encode(), remedy)


def check_keys(keys: Iterable[str], roots: tuple[str, ...]) -> None:
    """Raise ``ValueError`` for an object key without a prefix of ``roots``. The connector must not touch the object."""
    for key in keys:
        if not key.startswith(roots) or ".." in key.split("/"):
            raise ValueError(f"it lists {key}, which is not below {' or '.join(roots)}")


def group_folder(table_root: str, group: str) -> str:
    """Return the folder of a consumer group. All folders of this module end with a slash."""
    return f"{journal_folder(table_root)}{_to_folder_name(group)}/"


def topic_folder(table_root: str, group: str, topic: str) -> str:
    """Return the folder of a topic's claims. In this folder, only keys of claims end in ``.json``."""
    return f"{group_folder(table_root, group)}{_to_folder_name(topic)}/"


def claim_key(table_root: str, group: str, tp: TopicPartition) -> str:
    return f"{topic_folder(table_root, group, tp.topic)}{tp.partition}.json"


def logs_folder(table_root: str, group: str) -> str:
    return f"{group_folder(table_root, group)}{_LOGS}/"


def log_key(table_root: str, group: str, owner: str) -> str:
    return f"{logs_folder(table_root, group)}{owner}.json"


def is_log(key: str) -> bool:
    """Whether this key of a journal's document is the key of a log. Otherwise it is the key of a claim."""
    return key.split("/")[-2:-1] == [_LOGS]


def _to_folder_name(text: str) -> str:
    """Percent-encode the text, including dots, for a folder's name. A text that is too long is cut and hashed."""
    encoded = quote(text, safe="").replace(".", "%2E").replace("~", "%7E")
    if len(encoded) <= _LONGEST_NAME:
        return encoded
    return f"{encoded[:_LONGEST_NAME]}~{hashlib.sha256(text.encode()).hexdigest()[:8]}"
