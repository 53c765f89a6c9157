CREATE TABLE `sensor_data` (
  `ts_ms` BIGINT, `temperature` DOUBLE, `device` STRUCT<`id`: BIGINT, `firmware`: STRING>,
  `__key` STRING, `_rescued_data` STRING,
  `location` STRING, `year` STRING, `month` STRING, `day` STRING
)
USING parquet
PARTITIONED BY (`location`, `year`, `month`, `day`)
LOCATION 's3a://my-lake/data/sensor-data';

MSCK REPAIR TABLE `sensor_data`;
