"""Where Spark runs."""

from pathlib import Path

import pytest

from app.errors import ConfigError
from app.spark.writer import SparkWriter
from tests.support.environment import load

S3 = {"S3_BUCKET": "lake", "AWS_REGION": "eu-west-1", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "input": "readings"}


def test_the_connector_itself_runs_on_no_cluster(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a cluster is for the commands compact and erase"):
        SparkWriter(load(S3, SPARK_MASTER="spark://host:7077").spark, tmp_path)
