CREATE EXTERNAL TABLE lake.`sensor_data` (
  `ts_ms` INT64, `temperature` FLOAT64, `device` STRUCT<`id` INT64, `firmware` STRING>,
  `__key` STRING, `_rescued_data` STRING
)
WITH PARTITION COLUMNS (`location` STRING, `year` STRING, `month` STRING, `day` STRING)
OPTIONS (
  format = 'PARQUET', uris = ['gs://my-lake/data/sensor-data/*.parquet'],
  hive_partition_uri_prefix = 'gs://my-lake/data/sensor-data', enable_list_inference = true
);
