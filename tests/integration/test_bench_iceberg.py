"""The benchmark's Iceberg table on a real store: its first version, and what is read of later ones."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from bench.sinks import iceberg_table
from bench.sinks.iceberg import CommittedSnapshots
from dev.minio import LocalMinio


def test_the_rows_of_the_newest_version_count(s3_server: LocalMinio, bucket: str, tmp_path: Path) -> None:
    iceberg_table.create_table(s3_server, bucket, tmp_path / "catalog.db")
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as database:
        ((location,),) = database.execute("SELECT metadata_location FROM iceberg_tables").fetchall()
    key = location.removeprefix(f"s3://{bucket}/")
    client = s3_server.client()
    metadata = json.loads(client.get_object(Bucket=bucket, Key=key)["Body"].read())
    snapshots = CommittedSnapshots(s3_server, bucket)
    assert snapshots.rows() == 0

    for version, rows in ((1, 30), (2, 75)):
        metadata["snapshots"].append({"snapshot-id": version, "summary": {"total-records": str(rows)}})
        metadata["current-snapshot-id"] = version
        later = key.replace("/00000-", f"/0000{version}-")
        client.put_object(Bucket=bucket, Key=later, Body=json.dumps(metadata).encode())
        assert snapshots.rows() == rows

    snapshots.close()
