"""Wait for the readings in the lake, and compare each with what was produced."""

import io
import os
import time

import boto3
import pyarrow.parquet as pq

BUCKET = "test-bucket"
TABLE = "data/test-readings/"
SECONDS = 180

s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name="us-east-1")


def rows() -> list[tuple[int, str, float]]:
    """Return number, folder and temperature of each row in the table."""
    found = []
    for each in s3.list_objects_v2(Bucket=BUCKET, Prefix=TABLE + "location=").get("Contents", []):
        folder = each["Key"].removeprefix(TABLE).rpartition("/")[0]
        file = pq.ParquetFile(io.BytesIO(s3.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read())).read()
        found += [(row["number"], folder, row["temperature"]) for row in file.to_pylist()]
    return sorted(found)


def folder(number: int) -> str:
    """Return the folder that the reading belongs into."""
    return f"location={'Berlin' if number < 20 else 'Rome'}/year=2024/month=01/day={15 + number % 2}"


expected = [(number, folder(number), number / 4) for number in range(40)]
end = time.monotonic() + SECONDS
found: list[tuple[int, str, float]] = []
while len(found) < len(expected) and time.monotonic() < end:
    time.sleep(2)
    try:
        found = rows()
    except s3.exceptions.NoSuchBucket:  # the connector makes it
        found = []
if found != expected:
    raise SystemExit(f"the lake has {len(found)} rows, which are not the 40 readings: {found}")
print("each reading is there once, in its folder")
