"""What tests/e2e/test_iceberg.py promises, with catalogs that people run: each of them in one site."""

import pytest

from tests.e2e.test_iceberg import (  # noqa: F401 - each test once more, with the sites of here
    Site,
    test_a_catalog_that_is_away_is_waited_for,
    test_compact_merges_while_members_write_and_others_compact,
    test_each_row_is_there_once_though_a_member_dies_at_work,
    test_engines_read_every_value_and_partition,
)

SERVERS = ("nessie",)


@pytest.fixture(params=SERVERS)
def site(request: pytest.FixtureRequest) -> Site:
    catalog = request.getfixturevalue(request.param)
    return Site(catalog, catalog.minio, catalog.warehouse.removeprefix("s3://"))
