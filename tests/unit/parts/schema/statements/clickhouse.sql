CREATE TABLE `sensor_data` (
  `ts_ms` Nullable(Int64), `temperature` Nullable(Float64),
  `device` Tuple(`id` Nullable(Int64), `firmware` Nullable(String)),
  `__key` Nullable(String), `_rescued_data` Nullable(String),
  `location` String, `year` String, `month` String, `day` String
)
ENGINE = S3(
  'https://my-lake.s3.eu-west-1.amazonaws.com/data/sensor-data/location=*/year=*/month=*/day=*/*.parquet',
  'key', 'secret', 'Parquet'
);
