-- Athena finds new folders without MSCK REPAIR TABLE, but no rows in folders of other values than these.
-- If there are other values, or before the year 2036, print this statement again and recreate the table.
-- A query that sets no values looks for 9,984 folders. More than 1,000,000 are refused.
-- Redshift Spectrum, EMR and Glue need MSCK REPAIR TABLE for new folders.
CREATE EXTERNAL TABLE `sensor_data` (
  `ts_ms` bigint,
  `temperature` double,
  `device` struct<`id`:bigint,`firmware`:string>,
  `__key` string,
  `_rescued_data` string
)
PARTITIONED BY (`location` string, `year` string, `month` string, `day` string)
STORED AS PARQUET
LOCATION 's3://my-lake/data/sensor-data/'
TBLPROPERTIES (
  'projection.enabled' = 'true',
  'storage.location.template' = 's3://my-lake/data/sensor-data/location=${location}/year=${year}/month=${month}/day=${day}/',
  'projection.location.type' = 'enum',
  'projection.location.values' = 'Berlin,Oslo',
  'projection.year.type' = 'enum',
  'projection.year.values' = '2024,2026,2027,2028,2029,2030,2031,2032,2033,2034,2035,__HIVE_DEFAULT_PARTITION__',
  'projection.month.type' = 'enum',
  'projection.month.values' = '01,02,03,04,05,06,07,08,09,10,11,12,__HIVE_DEFAULT_PARTITION__',
  'projection.day.type' = 'enum',
  'projection.day.values' = '01,02,03,04,05,06,07,08,09,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,__HIVE_DEFAULT_PARTITION__'
);
