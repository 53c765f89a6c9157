"""The layout of a table: pure functions for folders of partition values, object keys, and file names.

The Quix data lake has the same folder names: ``str()`` of booleans and floats, and plain integers. Times have leading
zeros (``2024``, ``01``, ``05``, ``00``). All names are escaped as in Hive and Spark.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app.model import BatchPart, OffsetRange, TopicPartition

RESCUED_COLUMN = "_rescued_data"
TIME_COLUMNS = ("year", "month", "day", "hour")
UTC_ZONE = "UTC"
KAFKA_PARTITIONS = ("__topic", "__partition")  # metadata that may be partition columns
# The name of the null folder, for rows without a value in a partition column. An existing table keeps its name. A new
# table uses the name that readers expect.
QUIX_NULL = "__None__"
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

MAX_SEGMENT_BYTES = 255  # the limit of a file name on every local file system
MAX_KEY_BYTES = 1024  # the limit of an object key in S3
COMPUTED_BYTES = 400  # bytes of an object key for folders of columns that are in no record

# Readers skip folders whose names begin with an underscore or a dot and have no equals sign.
_DEAD_LETTER_FOLDER = "_dead_letter"
_JOURNAL_FOLDER = "_journal"
_INDEX_FOLDER = ".vidx"

# The characters that Hive's FileUtils and Spark's ExternalCatalogUtils escape, and NUL, which no key can contain.
_UNSAFE = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")

# A file's name is parsed from its end, because no part after the topic can contain the separator that follows it.
_TOPIC = r"(?P<topic>[A-Za-z0-9._-]{1,120}(?:~[0-9a-f]{8})?)"
_NUMBER = "(?:0|[1-9][0-9]{0,18})"
_FILE_NAME = re.compile(
    rf"data_{_TOPIC}-(?P<partition>{_NUMBER})_(?P<first>[0-9]{{19}})-(?P<last>{_NUMBER})"
    rf"_(?P<owner>[0-9a-f]{{24}})-(?P<number>{_NUMBER})\.parquet"
)
# The other form has digits before the owner. Therefore a name never has both forms.
_SHARED_FILE_NAME = re.compile(rf"data_{_TOPIC}_batch_(?P<owner>[0-9a-f]{{24}})-(?P<number>{_NUMBER})\.parquet")
_MERGED_FILE_NAME = re.compile(r"data_merged_[0-9a-f]{24}\.parquet")
_MAX_TOPIC = 120  # leaves room for offsets and owner in a name of 255 bytes
_MAX_OFFSET = 2**63 - 1
_MAX_PARTITION = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """The partitions of a table, and the content of its files.

    Args:
        columns: Partition columns that are folders, outermost first; empty for a table without folders.
        timestamp_column: Column from which ``year``, ``month``, ``day`` and ``hour`` are calculated.
        null_value: Folder value for null, missing, NaN and empty values. ``auto`` in the settings keeps the table's.
        order: All levels of the table's tree in the catalog; by default ``columns``.
        keeps_columns: Whether the files contain the partition columns as text, as in an Iceberg table.
        sort_column: Column by which the rows of a file are sorted; ``None`` for the order of arrival.
        stats_columns: The only columns with bounds; empty for all columns that can have them.
        computed_bytes: Bytes of an object key that are reserved for other folders.
        time_zone: Time zone of ``year``, ``month``, ``day`` and ``hour``, by its name in the tz database.
        sources: The source field of each renamed column, by the name of the column.
    """

    columns: tuple[str, ...]
    timestamp_column: str
    null_value: str
    order: tuple[str, ...] = ()
    keeps_columns: bool = False
    sort_column: str | None = None
    stats_columns: tuple[str, ...] = ()
    computed_bytes: int = 0
    time_zone: str = UTC_ZONE
    sources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.order:
            object.__setattr__(self, "order", self.columns)

    @property
    def virtual(self) -> tuple[str, ...]:
        """Levels without folders. These are columns of the records, even if named like a time column."""
        return tuple(name for name in self.order if name not in self.columns)

    def path(self, column: str) -> list[str]:
        """Returns the path to a column's value in nested objects, for records without a field of the column's name."""
        return self.sources.get(column, column).split(".")


def escape(text: str) -> str:
    """Escapes a column name or value for a folder name: ``a/b`` becomes ``a%2Fb``."""
    return _UNSAFE.sub(lambda match: f"%{ord(match.group()):02X}", text)


def unescape(text: str) -> str:
    """Undoes ``escape``."""
    return _ESCAPED.sub(lambda match: chr(int(match.group(1), 16)), text)


def folder(values: Mapping[str, str]) -> str:
    """Joins ``{"year": "2024", "place": "a/b"}`` to ``year=2024/place=a%2Fb``; empty without partition columns."""
    return "/".join(f"{escape(column)}={escape(value)}" for column, value in values.items())


def data_key(table_root: str, values: Mapping[str, str], name: str) -> str:
    return "/".join(part for part in (table_root, folder(values), name) if part)


def too_long(table_root: str, values: Mapping[str, str], name: str) -> str | None:
    """Returns why the object key with these partition values is too long; ``None`` if it is short enough."""
    for column, value in values.items():
        size = len(f"{escape(column)}={escape(value)}".encode())
        if size > MAX_SEGMENT_BYTES:
            return f"partition column {column!r} needs a folder name of {size} bytes, {MAX_SEGMENT_BYTES} are allowed"
    size = len(data_key(table_root, values, name).encode())
    if size > MAX_KEY_BYTES:
        return f"the file's key has {size} bytes, {MAX_KEY_BYTES} are allowed"
    return None


def spec_of_key(key: str, table_root: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Reads the partition columns and (unescaped) values in a data file's key below the table's root."""
    folders = key.removeprefix(table_root).strip("/").split("/")[:-1]
    pairs = [part.partition("=") for part in folders if "=" in part]
    return tuple(unescape(name) for name, _, _ in pairs), tuple(unescape(value) for _, _, value in pairs)


def is_data_file(key: str, table_root: str) -> bool:
    """Whether a key is a data file of the table: Parquet, not hidden by ``_`` or ``.``, and in folders of partitions.

    Folders with other names may belong to other tables.
    """
    *folders, name = key.removeprefix(table_root).strip("/").split("/")
    return name.endswith(".parquet") and not name.startswith((".", "_")) and all("=" in part for part in folders)


def object_roots(table_root: str) -> tuple[str, str]:
    """Returns the prefixes of a table's keys: its folder, and the folder of its dead letter."""
    return f"{table_root}/", f"{dead_letter_root(table_root)}/"


def dead_letter_root(table_root: str) -> str:
    """Returns the folder of a table's dead letter: ``lake/readings`` → ``lake/_dead_letter/readings``."""
    root, slash, table = table_root.rpartition("/")
    return f"{root}{slash}{_DEAD_LETTER_FOLDER}/{table}"


def dead_letter_key(table_root: str, part: BatchPart) -> str:
    """Returns the key of the file with the rejected records of one topic partition and batch."""
    return f"{dead_letter_root(table_root)}/{file_name((part,))}"


def index_key(data_key: str) -> str:
    """Returns the key of a data file's index: ``t/place=a/data_1.parquet`` → ``t/place=a/.vidx/data_1.parquet``."""
    folder, slash, name = data_key.rpartition("/")
    return f"{folder}{slash}{_INDEX_FOLDER}/{name}"


def journal_folder(table_root: str) -> str:
    """Returns the folder of a table's journals and schema, with a slash at the end. The folder is inside the table."""
    return f"{table_root}/{_JOURNAL_FOLDER}/"


def schema_key(table_root: str) -> str:
    return f"{journal_folder(table_root)}schema.json"


def file_name(parts: Sequence[BatchPart]) -> str:
    """Returns the name of a data file. The assignment's token and the batch's number make the name unique.

    If a file has rows of only one topic partition, its name also contains the offsets. Kafka restricts topics to
    ``[A-Za-z0-9._-]``, so names need no escaping. Long topics are cut and hashed. ``parts`` contains the parts of the
    batch with rows in the file, at least one part.
    """
    offsets, owner, number = parts[0].offsets, parts[0].owner, parts[0].number
    topic = topic_in_names(offsets.tp.topic)
    if len(parts) > 1:
        return f"data_{topic}_batch_{owner}-{number}.parquet"
    return f"data_{topic}-{offsets.tp.partition}_{offsets.first:019d}-{offsets.last}_{owner}-{number}.parquet"


def part_of(name: str) -> BatchPart | None:
    """Parses the name of a file of one topic partition; ``None`` for any other name. A long topic is still cut."""
    match = _FILE_NAME.fullmatch(name)
    if match is None:
        return None
    partition, first, last, number = (int(match[group]) for group in ("partition", "first", "last", "number"))
    if partition > _MAX_PARTITION or not first <= last <= _MAX_OFFSET or number > _MAX_OFFSET:
        return None
    return BatchPart(OffsetRange(TopicPartition(match["topic"], partition), first, last), match["owner"], number)


def shared_file_of(name: str) -> tuple[str, int] | None:
    """Parses owner and number in the name of a file of several topic partitions; ``None`` for any other name."""
    match = _SHARED_FILE_NAME.fullmatch(name)
    if match is None or int(match["number"]) > _MAX_OFFSET:
        return None
    return match["owner"], int(match["number"])


def merged_key(table_root: str, folder_name: str, token: str) -> str:
    """Returns the key of a merged file in this folder. ``token`` is a unique text of 24 hexadecimal digits."""
    return "/".join(part for part in (table_root, folder_name, f"data_merged_{token}.parquet") if part)


def is_merged(key: str) -> bool:
    return _MERGED_FILE_NAME.fullmatch(key.rpartition("/")[2]) is not None


def topic_in_names(topic: str) -> str:
    """Returns the form of a topic in file names. A cut topic contains ``~``, which Kafka does not allow in topics."""
    if len(topic) <= _MAX_TOPIC:
        return topic
    return topic[:_MAX_TOPIC] + "~" + hashlib.sha256(topic.encode()).hexdigest()[:8]


def null_folder_of(values: Iterable[str]) -> str | None:
    """Finds the null folder's name among these partition values; ``None`` without a null folder."""
    seen = set(values)
    return next((name for name in (QUIX_NULL, HIVE_NULL) if name in seen), None)
