"""Variables of how much is written at once, and with what."""

from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt

from app.config import parsers as parse
from app.config.catalog import CatalogVariables
from app.config.fields import env


class WritingVariables(CatalogVariables):
    section: ClassVar = "Writing"

    batch_size: PositiveInt = env("BATCH_SIZE", 1000)
    """Number of rows that are worth a batch once no more come for a second."""
    commit_interval: Annotated[float, Field(gt=0, allow_inf_nan=False)] = env("COMMIT_INTERVAL", 30.0)
    """Seconds between two commits. Each commit writes everything read so far."""
    target_file_mb: NonNegativeInt = env("TARGET_FILE_MB", 16)
    """MB of a file that is worth writing before `COMMIT_INTERVAL` is over. `0`: write as soon as `BATCH_SIZE` rows have
    come.
    """
    max_write_workers: Annotated[int, Field(ge=1, le=256)] = env("MAX_WRITE_WORKERS", 10)
    """Number of files to upload at the same time, 1 to 256."""
    max_buffer_mb: PositiveInt = env("MAX_BUFFER_MB", 64)
    """MB of rows to hold in memory."""
    compact: Annotated[parse.Schedule | None, BeforeValidator(parse.schedule)] = env("COMPACT")
    """When the connector merges small files by itself, as `compact` does: a time of day in UTC, such as `03:15`, or
    how often, such as `6h`, `90m` or `1d`. Empty: never.
    """
    spark_master: Annotated[str, BeforeValidator(parse.spark_master)] = env("SPARK_MASTER", "local[*]")
    """Cores that Spark uses: `local[*]` for all, `local[2]` for two. For compact and erase also a cluster."""
    heap_mb: Annotated[int, BeforeValidator(parse.heap_mb), Field(validate_default=True)] = env(
        "SPARK_DRIVER_MEMORY", "512m"
    )
    """Java heap of Spark, at least `512m`."""
