"""Where Spark runs."""

from pathlib import Path

import pytest

from app.errors import ConfigError
from app.service.stores import access_of_executors, uri_for_executors
from app.spark.writer import SparkWriter
from tests.support.environment import BROKER_ALONE, load

S3 = {"S3_BUCKET": "lake", "AWS_REGION": "eu-west-1", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "input": "readings"}


def test_the_connector_itself_runs_on_no_cluster(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a cluster is for the commands compact and erase"):
        SparkWriter(load(S3, SPARK_MASTER="spark://host:7077").spark, tmp_path)


def test_executors_get_the_keys_that_the_settings_have(tmp_path: Path) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL": "http://minio:9000"}
    bucket = load(S3, **keys).storage
    assert uri_for_executors(bucket) == "s3a://lake"
    assert access_of_executors(bucket) == {
        "spark.hadoop.fs.s3a.endpoint": "http://minio:9000",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-west-1",
        "spark.hadoop.fs.s3a.access.key": "id",
        "spark.hadoop.fs.s3a.secret.key": "secret",
    }
    folder = load(BROKER_ALONE, STORAGE_URL=f"file://{tmp_path}").storage
    assert (uri_for_executors(folder), access_of_executors(folder)) == (f"file://{tmp_path}", {})
