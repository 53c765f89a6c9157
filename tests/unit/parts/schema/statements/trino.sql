CREATE TABLE hive.default."sensor_data" (
  "ts_ms" bigint, "temperature" double, "device" row("id" bigint, "firmware" varchar),
  "__key" varchar, "_rescued_data" varchar,
  "location" varchar, "year" varchar, "month" varchar, "day" varchar
)
WITH (
  external_location = 's3://my-lake/data/sensor-data', format = 'PARQUET',
  partitioned_by = ARRAY['location', 'year', 'month', 'day']
);

CALL hive.system.sync_partition_metadata('default', 'sensor_data', 'ADD');
