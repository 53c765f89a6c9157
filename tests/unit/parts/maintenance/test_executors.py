"""How executors of a cluster reach the store."""

from pathlib import Path

from app.parts.maintenance.merger import access_of_executors, uri_for_executors
from tests.support.environment import BROKER_ALONE, load

S3 = {"S3_BUCKET": "lake", "AWS_REGION": "eu-west-1", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "input": "readings"}


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
