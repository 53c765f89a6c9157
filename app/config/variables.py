"""All environment variables: names, defaults and rules. ``app.config.settings`` derives further values from them.

A variable that is empty counts as unset.
"""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt

from app.config import parsers as parse
from app.config.fields import env
from app.config.table import TableVariables
from app.logs import LogFormat

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Variables(TableVariables):
    """The variables of user and platform. ``None`` means unset, or a default that depends on the others.

    The last area: how much is written at once, and the process itself.
    """

    batch_size: PositiveInt = env("BATCH_SIZE", 1000)
    commit_interval: Seconds = env("COMMIT_INTERVAL", 30.0)
    target_file_mb: NonNegativeInt = env("TARGET_FILE_MB", 16)
    max_write_workers: Annotated[int, Field(ge=1, le=256)] = env("MAX_WRITE_WORKERS", 10)
    max_buffer_mb: PositiveInt | None = env("MAX_BUFFER_MB")
    spark_master: Annotated[str, BeforeValidator(parse.spark_master)] = env("SPARK_MASTER", "local[*]")
    heap_mb: Annotated[int | None, BeforeValidator(parse.heap_mb)] = env("SPARK_DRIVER_MEMORY")
    memory_limit_mb: PositiveInt | None = env("Quix__Deployment__Limits__Memory")  # by Quix Cloud
    deployment_name: str | None = env("Quix__Deployment__Name")
    replica_name: str | None = env("Quix__Deployment__ReplicaName")

    http_port: Annotated[int, Field(ge=0, le=65_535)] = env("HTTP_PORT", 8080)
    http_host: str = env("HTTP_HOST", "127.0.0.1")
    http_allowed_hosts: Annotated[tuple[str, ...], BeforeValidator(parse.host_names)] = env("HTTP_ALLOWED_HOSTS", ())
    loglevel: LogLevel = env("LOGLEVEL", "INFO")
    log_format: LogFormat = env("LOG_FORMAT", "text")
