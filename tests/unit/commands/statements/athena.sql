CREATE EXTERNAL TABLE `sensor_data` (
  `ts_ms` bigint,
  `temperature` double,
  `device` struct<`id`:bigint,`firmware`:string>,
  `__key` string,
  `_rescued_data` string
)
PARTITIONED BY (`location` string, `year` string, `month` string, `day` string)
STORED AS PARQUET
LOCATION 's3://my-lake/data/sensor-data/';

MSCK REPAIR TABLE `sensor_data`;
