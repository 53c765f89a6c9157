CREATE VIEW "sensor_data" AS
SELECT * FROM read_parquet(
  's3://my-lake/data/sensor-data/location=*/year=*/month=*/day=*/*.parquet',
  hive_partitioning = true, hive_types_autocast = false, union_by_name = true
);
