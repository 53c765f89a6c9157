"""The layout of a table: folders of partition values, and every key and file name, as pure functions.

Folder strings are those the Quix data lake already holds: ``str()`` of bools and floats, and plain integers. Time
columns have zero-padded parts (``2024``, ``01``, ``05``, ``00``). All are escaped the way Hive and Spark escape.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app.model import BatchPart, OffsetRange, TopicPartition

RESCUED_COLUMN = "_rescued_data"
TIME_COLUMNS = ("year", "month", "day", "hour")
UTC_ZONE = "UTC"
KAFKA_PARTITIONS = ("__topic", "__partition")  # metadata that a table may be partitioned by
# The null folder, for rows without a value in a partition column. A table keeps the name that it has. A new one gets
# the name that its readers expect.
QUIX_NULL = "__None__"
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

MAX_SEGMENT_BYTES = 255  # a file name's limit on every local file system
MAX_KEY_BYTES = 1024  # S3's limit for a key
COMPUTED_BYTES = 400  # of a key: folders of columns that are in no record

# Readers skip folders whose names begin with an underscore or a dot and have no equals sign.
_DEAD_LETTER_FOLDER = "_dead_letter"
_JOURNAL_FOLDER = "_journal"
_INDEX_FOLDER = ".vidx"

# The characters that Hive's FileUtils and Spark's ExternalCatalogUtils escape, and NUL, which no key can hold.
_UNSAFE = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")

# A file's name is read from its end: no part after the topic can hold what separates it from the next.
_TOPIC = r"(?P<topic>[A-Za-z0-9._-]{1,120}(?:~[0-9a-f]{8})?)"
_NUMBER = "(?:0|[1-9][0-9]{0,18})"
_FILE_NAME = re.compile(
    rf"data_{_TOPIC}-(?P<partition>{_NUMBER})_(?P<first>[0-9]{{19}})-(?P<last>{_NUMBER})"
    rf"_(?P<owner>[0-9a-f]{{24}})-(?P<number>{_NUMBER})\.parquet"
)
# Before the owner the other form has digits, so no name has both.
_SHARED_FILE_NAME = re.compile(rf"data_{_TOPIC}_batch_(?P<owner>[0-9a-f]{{24}})-(?P<number>{_NUMBER})\.parquet")
_MERGED_FILE_NAME = re.compile(r"data_merged_[0-9a-f]{24}\.parquet")
_MAX_TOPIC = 120  # leaves room for offsets and owner in a name of 255 bytes
_MAX_OFFSET = 2**63 - 1
_MAX_PARTITION = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """How a table is partitioned, and what its files have.

    Args:
        columns: partition columns that are folders, outermost first; empty for a table without folders.
        timestamp_column: where ``year``, ``month``, ``day`` and ``hour`` come from.
        null_value: folder value of a null, missing, NaN or empty value; in the settings ``auto`` for that of the table.
        order: all levels of the table's tree in the catalog, by default just the folders.
        keeps_columns: whether the files keep the partition columns too, as text. They do in an Iceberg table.
        sort_column: orders the rows of a file; ``None`` for the order of arrival.
        stats_columns: the only columns with bounds; empty for all that can have them.
        computed_bytes: of a key that other folders need.
        time_zone: of ``year``, ``month``, ``day`` and ``hour``, by its name in the tz database.
        sources: the source field of each renamed column, by the name of the column.
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
        """Levels without folders: columns of the records, even with the name of a time part."""
        return tuple(name for name in self.order if name not in self.columns)

    def path(self, column: str) -> list[str]:
        """Returns the names on the way into objects to the value of a column that no field of the record has."""
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
    """Returns why these partition values cannot become a folder, or ``None`` when they can."""
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
    """Whether a key is a data file of the table: Parquet, not hidden by ``_`` or ``.``, and in its partitions' folders.

    Any other folder may be that of another table.
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
    """Returns the key of the file with the rejected records of one topic-partition and batch."""
    return f"{dead_letter_root(table_root)}/{file_name((part,))}"


def index_key(data_key: str) -> str:
    """Returns the key of a data file's index: ``t/place=a/data_1.parquet`` → ``t/place=a/.vidx/data_1.parquet``."""
    folder, slash, name = data_key.rpartition("/")
    return f"{folder}{slash}{_INDEX_FOLDER}/{name}"


def journal_folder(table_root: str) -> str:
    """Returns the folder of a table's journals and schema, with a slash at the end. It is deleted with the table."""
    return f"{table_root}/{_JOURNAL_FOLDER}/"


def schema_key(table_root: str) -> str:
    return f"{journal_folder(table_root)}schema.json"


def file_name(parts: Sequence[BatchPart]) -> str:
    """Returns the name of a data file, unique for ever: the assignment's token and the batch's number are in it.

    A file of one topic-partition is named after its offsets too. A file of several is not, for they may be many.
    Topics are restricted to ``[A-Za-z0-9._-]`` by Kafka, so they need no escaping; long ones are cut and hashed.
    ``parts`` are those with rows in the file, at least one, all of one batch.
    """
    offsets, owner, number = parts[0].offsets, parts[0].owner, parts[0].number
    topic = topic_in_names(offsets.tp.topic)
    if len(parts) > 1:
        return f"data_{topic}_batch_{owner}-{number}.parquet"
    return f"data_{topic}-{offsets.tp.partition}_{offsets.first:019d}-{offsets.last}_{owner}-{number}.parquet"


def part_of(name: str) -> BatchPart | None:
    """Reads the name of a file of one topic-partition; ``None`` for any other name. A long topic stays cut."""
    found = _FILE_NAME.fullmatch(name)
    if found is None:
        return None
    partition, first, last, number = (int(found[group]) for group in ("partition", "first", "last", "number"))
    if partition > _MAX_PARTITION or not first <= last <= _MAX_OFFSET or number > _MAX_OFFSET:
        return None
    return BatchPart(OffsetRange(TopicPartition(found["topic"], partition), first, last), found["owner"], number)


def shared_file_of(name: str) -> tuple[str, int] | None:
    """Reads owner and number in the name of a file of several topic-partitions; ``None`` for any other name."""
    found = _SHARED_FILE_NAME.fullmatch(name)
    if found is None or int(found["number"]) > _MAX_OFFSET:
        return None
    return found["owner"], int(found["number"])


def merged_key(table_root: str, folder_name: str, token: str) -> str:
    """Returns the key of a merged file in this folder. ``token`` is 24 hexadecimal digits that no other file has."""
    return "/".join(part for part in (table_root, folder_name, f"data_merged_{token}.parquet") if part)


def is_merged(key: str) -> bool:
    return _MERGED_FILE_NAME.fullmatch(key.rpartition("/")[2]) is not None


def topic_in_names(topic: str) -> str:
    """Returns a topic as file names show it. A cut one ends in ``~``, which Kafka allows in no topic."""
    if len(topic) <= _MAX_TOPIC:
        return topic
    return topic[:_MAX_TOPIC] + "~" + hashlib.sha256(topic.encode()).hexdigest()[:8]


def null_folder_of(values: Iterable[str]) -> str | None:
    """Finds the null folder's name among these partition values; ``None`` if there is none."""
    seen = set(values)
    return next((name for name in (QUIX_NULL, HIVE_NULL) if name in seen), None)
