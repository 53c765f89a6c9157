"""Where a table is written: the catalog's word counts, as far as the store and the workspace reach."""

import logging

import pytest

from app.errors import ConfigError
from app.table.existing_table import CatalogTable, TableLocation, adopted

S3 = TableLocation("s3://lake", "data/t")
WORKSPACE = TableLocation("s3://lake", "ws-1/data/t")
FOLDER = TableLocation("file:///mnt/lake", "data/t")


def found(location: str, configured: TableLocation = S3, workspace_id: str | None = None) -> TableLocation:
    return adopted(CatalogTable(location, ()), configured, workspace_id)


@pytest.mark.parametrize("table", [None, CatalogTable("", ())])
def test_without_a_registered_location_the_settings_count(table: CatalogTable | None) -> None:
    assert adopted(table, S3, None) is S3


@pytest.mark.parametrize(
    ("configured", "location", "root"),
    [
        (WORKSPACE, "s3://lake/ws-1/x/t", "ws-1/x/t"),
        (S3, "s3://lake/data/t/", "data/t"),
        (S3, " s3://lake/data/t ", "data/t"),
        (S3, "s3a://lake/old/tables/t", "old/tables/t"),
        (S3, "lake/t", "t"),
        (TableLocation("az://lake", "data/t"), "s3://lake/data/t2", "data/t2"),
        (FOLDER, "file:///mnt/lake/data/t2", "data/t2"),
    ],
)
def test_the_registered_folder_is_taken(configured: TableLocation, location: str, root: str) -> None:
    workspace_id = "ws-1" if configured == WORKSPACE else None
    assert found(location, configured, workspace_id) == TableLocation(configured.store_uri, root)


def test_another_folder_than_the_configured_one_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    found("s3://lake/data/t")
    assert caplog.messages == []

    found("s3://lake/elsewhere/t")
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert caplog.messages == [
        "the catalog has the table at s3://lake/elsewhere/t: "
        "the connector writes there, and not to s3://lake/data/t as configured"
    ]


@pytest.mark.parametrize(
    ("configured", "location"),
    [
        (S3, "s3://lake2/data/t"),
        (S3, "s3://data/t"),
        (FOLDER, "file:///mnt/lake2/data/t"),
        (FOLDER, "s3://mnt/lake/data/t"),
    ],
)
def test_another_bucket_is_refused(configured: TableLocation, location: str) -> None:
    with pytest.raises(ConfigError) as caught:
        found(location, configured)

    assert f"the catalog has it at {location}, which is not in {configured.store_uri}" in str(caught.value)
    assert "Set the storage to the table's store, or choose another TABLE_NAME" in str(caught.value)


@pytest.mark.parametrize(
    "location", ["s3://lake", "s3://lake/", "s3://lake/data/../../t", "s3://lake/./t", "s3://lake/data//t"]
)
def test_what_is_no_folder_of_its_own_is_refused(location: str) -> None:
    with pytest.raises(ConfigError, match="which is not a separate folder"):
        found(location)


def test_a_folder_above_the_configured_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="above s3://lake/data/t as configured"):
        found("s3://lake/data")


@pytest.mark.parametrize("location", ["s3://lake/ws-2/data/t", "s3://lake/ws-1", "s3://lake/ws-11/t"])
def test_another_workspace_is_refused(location: str) -> None:
    with pytest.raises(ConfigError, match=r"outside of the workspace's folder ws-1\. Deploy the connector in"):
        found(location, WORKSPACE, "ws-1")


@pytest.mark.parametrize(("location", "is_it"), [("s3://lake/data/t/", True), ("s3://lake/data/t2", False)])
def test_a_location_knows_its_names(location: str, is_it: bool) -> None:
    assert S3.is_named_by(location) is is_it
