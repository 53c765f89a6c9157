"""Kafka to Hive-partitioned Parquet with Spark Structured Streaming. A process by itself.

It runs in an environment of its own, so it imports nothing of this repository.
"""

import json
import os

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

SCHEMA = (
    "ts_ms BIGINT, device STRING, location STRING, temperature DOUBLE, humidity DOUBLE, "
    "status STRING, battery BIGINT, seq BIGINT"
)
PARTITION = {"year": "yyyy", "month": "MM", "day": "dd"}


def main() -> None:
    settings = json.loads(os.environ["STREAMING"])
    builder = SparkSession.builder.master("local[*]").appName("structured-streaming")
    for name, value in settings["spark"].items():
        builder = builder.config(name, value)
    records = (
        builder.getOrCreate()
        .readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings["servers"])
        .option("subscribe", settings["topic"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", settings["trigger"])
        .load()
    )
    rows = records.select(
        f.col("key").cast("string").alias("__key"), f.from_json(f.col("value").cast("string"), SCHEMA).alias("v")
    ).select("__key", "v.*")
    time = f.timestamp_millis("ts_ms")
    rows = rows.withColumns({name: f.date_format(time, pattern) for name, pattern in PARTITION.items()})
    (
        rows.writeStream.partitionBy(*PARTITION, "location")
        .format("parquet")
        .option("checkpointLocation", settings["checkpoint"])
        .start(settings["table"])
        .awaitTermination()
    )


if __name__ == "__main__":
    main()
