"""Which store and which catalog the settings lead to."""

import json
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

from app.parts.iceberg.catalog_address import IcebergTarget
from app.parts.quix.catalog_address import QuixTarget
from app.storage.targets import LocalTarget, S3Target
from tests.support.environment import (
    BROKER_ALONE,
    CONNECTION,
    CREDENTIALS,
    ON_PLATFORM,
    PLATFORM_BUCKET,
    connection,
    load,
    problems,
)


class TestStore:
    def test_every_field_of_s3(self) -> None:
        storage = load(
            AWS_ACCESS_KEY_ID="key",
            AWS_SECRET_ACCESS_KEY="secret",
            AWS_SESSION_TOKEN="session",
            AWS_ENDPOINT_URL="http://minio:9000/",
            AWS_REGION="nyc3",
            CREATE_BUCKET="true",
        ).storage
        assert storage == S3Target("lake", "nyc3", "http://minio:9000", "key", "secret", "session", may_create=True)
        assert load().storage == S3Target("lake", "us-east-1", may_create=False)

    @pytest.mark.parametrize(("name", "session"), [("ü", "--"), ("my_lake sink", "my_lake-sink"), ("a" * 99, "a" * 64)])
    def test_a_role_has_a_session_of_the_name_of_the_deployment(self, name: str, session: str) -> None:
        storage = load(S3_ROLE_ARN="arn:aws:iam::123456789012:role/lake", Quix__Deployment__Name=name).storage
        assert isinstance(storage, S3Target)
        assert storage.role_session == session

    @pytest.mark.parametrize("url", ["s3://lake", "s3://lake/", "S3://lake"])
    def test_storage_url_of_a_bucket(self, url: str) -> None:
        assert load(BROKER_ALONE, STORAGE_URL=url) != load()
        assert load(BROKER_ALONE, STORAGE_URL=url).storage == load().storage
        assert load(BROKER_ALONE, STORAGE_URL=url).root == "data"

    @pytest.mark.parametrize(("url", "folder"), [("file:///lake", "/lake"), ("file:///my%20lake", "/my lake")])
    def test_storage_url_of_a_folder(self, url: str, folder: str) -> None:
        assert load(BROKER_ALONE, STORAGE_URL=url).storage == LocalTarget(Path(folder))


class TestPlatformStorage:
    def test_as_the_platform_writes_it(self) -> None:
        assert load(ON_PLATFORM).storage == S3Target(
            "quix-lake", "eu-west-1", "https://gateway.example.com", "platform-key", "platform-secret"
        )

    def test_the_folder_is_in_the_workspace(self) -> None:
        assert load(ON_PLATFORM).root == "acme-prod/data-lake/time-series"
        assert load(ON_PLATFORM, S3_PREFIX="data").root == "acme-prod/data"
        assert load(ON_PLATFORM, Quix__Workspace__Id="").root == "data-lake/time-series"

    @pytest.mark.parametrize(
        ("provider", "endpoint_url"),
        [("S3", None), *((name, "https://storage.googleapis.com") for name in ("Gcp", "GCP", "gcs"))],
    )
    def test_clouds_need_no_address(self, provider: str, endpoint_url: str | None) -> None:
        section = {name: value for name, value in PLATFORM_BUCKET.items() if name != "ServiceUrl"}
        storage = load(ON_PLATFORM, **{CONNECTION: connection(provider, S3Compatible=section)}).storage
        assert isinstance(storage, S3Target)
        assert storage.endpoint_url == endpoint_url

    @pytest.mark.parametrize("own", [{"S3_BUCKET": "mine"}, {"STORAGE_URL": "s3://mine"}])
    def test_the_users_store_wins(self, own: dict[str, str]) -> None:
        settings = load(ON_PLATFORM, **own, **{CONNECTION: "{}"})  # which need not fit where it is not used
        assert settings.storage.uri == "s3://mine"
        assert settings.root == "data"

    @pytest.mark.parametrize(
        "variables",
        [
            {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"},
            {"AWS_ENDPOINT_URL": "https://s3.example.com"},
            {"GCS_CREDENTIALS_JSON": CREDENTIALS},
            {"AZURE_STORAGE_ACCOUNT": "acme"},
            {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=acme;AccountKey=aHVzaA=="},
        ],
    )
    def test_access_to_another_store_without_that_store(self, variables: dict[str, str]) -> None:
        (problem,) = problems(ON_PLATFORM, **variables)
        assert "is for your own store: set S3_BUCKET or STORAGE_URL as well" in problem

    def test_a_connection_that_is_wrong_is_the_only_problem(self) -> None:
        access = {"AWS_ENDPOINT_URL": "https://s3.example.com", CONNECTION: "{}"}
        (problem,) = problems(ON_PLATFORM, **access)
        assert problem.startswith(CONNECTION)

    @pytest.mark.parametrize("provider", ["S3", "s3", "Minio", "MINIO", "minio", "S3Compatible", "s3_compatible"])
    def test_provider_in_any_case(self, provider: str) -> None:
        settings = load(ON_PLATFORM, **{CONNECTION: connection(provider)})
        assert settings.storage.uri == "s3://quix-lake"

    def test_keys_in_snake_case_and_unknown_fields(self) -> None:
        document = {
            "provider": "minio",
            "version": 3,
            "azure_blob_storage": None,
            "s3_compatible": {
                "bucket_name": "b-1",
                "access_key_id": "k",
                "secret_access_key": "s",
                "service_url": "http://minio:9000",
                "use_ssl": False,
            },
        }
        storage = load(ON_PLATFORM, AWS_REGION="eu-central-1", **{CONNECTION: json.dumps(document)}).storage
        assert isinstance(storage, S3Target)
        assert (storage.bucket, storage.endpoint_url, storage.region) == ("b-1", "http://minio:9000", "eu-central-1")

    def test_the_id_of_a_user_lets_in_with_the_token_beside_it(self) -> None:
        user = {**PLATFORM_BUCKET, "AccessKeyId": "0b6f7a3e-3c0d-4f5e-9a51-8d4f2f6f1c11"}
        storage = load(ON_PLATFORM, **{CONNECTION: connection(S3Compatible=user)}).storage
        assert isinstance(storage, S3Target)
        assert (storage.secret_key, storage.session_token) == ("platform-secret", "platform-secret")

    @pytest.mark.parametrize("section", ["LocalStorage", "local_storage"])
    @pytest.mark.parametrize("key", ["DirectoryPath", "directory_path"])
    def test_local(self, section: str, key: str) -> None:
        settings = load(ON_PLATFORM, **{CONNECTION: connection("local", **{section: {key: "/lake"}})})
        assert settings.storage == LocalTarget(Path("/lake"))
        assert settings.root == "acme-prod/data-lake/time-series"

    @pytest.mark.parametrize(
        ("document", "reason"),
        [
            ('{"Provider": "S3"', "must be a JSON object"),
            ("{}", "must have a field Provider that is S3, Minio, S3Compatible, Gcp, Azure or Local"),
            ('{"Provider": "Azure"}', "must have an object AzureBlobStorage"),
            ('{"Provider": "Azure", "AzureBlobStorage": {}}', "must have AzureBlobStorage.ContainerName and"),
            ('{"Provider": "S3", "S3Compatible": "x"}', "must have an object S3Compatible"),
            ('{"Provider": "Local", "LocalStorage": {}}', "must have LocalStorage.DirectoryPath"),
            ('{"Provider": "Local", "LocalStorage": {"DirectoryPath": "lake"}}', "wrong LocalStorage.DirectoryPath"),
        ],
    )
    def test_refused(self, document: str, reason: str) -> None:
        (problem,) = problems(ON_PLATFORM, **{CONNECTION: document})
        assert problem.startswith(f"{CONNECTION}: ")
        assert reason in problem

    @pytest.mark.parametrize("field", ["BucketName", "AccessKeyId", "SecretAccessKey", "ServiceUrl"])
    def test_a_missing_field_is_named(self, field: str) -> None:
        rest = {name: value for name, value in PLATFORM_BUCKET.items() if name != field}
        for section in (rest, {**rest, field: None}, {**rest, field: ""}):
            (problem,) = problems(ON_PLATFORM, **{CONNECTION: connection(S3Compatible=section)})
            assert problem == f"{CONNECTION}: must have S3Compatible.{field}; or set S3_BUCKET or STORAGE_URL"

    @pytest.mark.parametrize(
        ("field", "value"), [("ServiceUrl", "https://u:hush@gateway"), ("BucketName", "hush/x"), ("Region", "hush!")]
    )
    def test_a_wrong_field_is_named_and_not_shown(self, field: str, value: str) -> None:
        document = connection(S3Compatible={**PLATFORM_BUCKET, field: value})
        (problem,) = problems(ON_PLATFORM, **{CONNECTION: document})
        assert f"has a wrong S3Compatible.{field}" in problem
        assert "hush" not in problem


class TestCatalog:
    PLATFORM: ClassVar = {
        "Quix__Lakehouse__Catalog__Url": "https://catalog.quix.example/api",
        "Quix__Lakehouse__Catalog__AuthToken": "platform-token",
    }

    @pytest.mark.parametrize(
        ("variables", "url", "token"),
        [
            ({}, "https://catalog.quix.example/api", "platform-token"),
            ({"Quix__Lakehouse__Catalog__Url": "", "CATALOG_URL": "https://c"}, "https://c", None),
            ({"CATALOG_AUTH_TOKEN": "mine"}, "https://catalog.quix.example/api", "mine"),
            ({"CATALOG_URL": "https://catalog.quix.example/v2/"}, "https://catalog.quix.example/v2", "platform-token"),
            ({"CATALOG_URL": "https://CATALOG.quix.example:443"}, "https://CATALOG.quix.example:443", "platform-token"),
            ({"CATALOG_URL": "https://other.example"}, "https://other.example", None),
            ({"CATALOG_URL": "https://catalog.quix.example:8443"}, "https://catalog.quix.example:8443", None),
            ({"CATALOG_URL": "http://catalog.quix.example"}, "http://catalog.quix.example", None),
            ({"CATALOG_URL": "http://catalog.quix.example:443"}, "http://catalog.quix.example:443", None),
        ],
    )
    def test_the_platforms_token_stays_with_its_host(
        self, variables: dict[str, str], url: str, token: str | None
    ) -> None:
        catalog = load(**(self.PLATFORM | variables)).catalog
        assert isinstance(catalog, QuixTarget)
        assert (catalog.url, catalog.token) == (url, token)


LENT = {"CATALOG_VENDED_CREDENTIALS": "true", "ON_BAD_RECORD": "skip"}
LOGIN = {"CATALOG_CLIENT_ID": "me", "CATALOG_CLIENT_SECRET": "hush"}


class TestIceberg:
    def test_the_catalog_is_that_of_the_settings_and_not_the_platforms(self) -> None:
        catalog = load(
            CATALOG_TYPE="iceberg",
            CATALOG_URL="https://c/",
            **LOGIN,
            CATALOG_WAREHOUSE="w",
            Quix__Lakehouse__Catalog__Url="https://platform",
        ).catalog
        assert isinstance(catalog, IcebergTarget)
        assert catalog.properties == {"uri": "https://c", "credential": "me:hush", "warehouse": "w"}
        assert "hush" not in repr(catalog)

    @pytest.mark.parametrize(
        ("variables", "named"),
        [
            ({"CATALOG_URL": ""}, "CATALOG_URL"),
            ({"AUTO_DISCOVER": "false"}, "AUTO_DISCOVER"),
            ({"HIVE_COLUMNS": "a,~b"}, "HIVE_COLUMNS"),
            ({"HIVE_COLUMNS": "a.b"}, "HIVE_COLUMNS"),
            ({"HIVE_COLUMNS": "bucket(4,a)", "DROP_COLUMNS": "a", "COLUMN_TYPES": "a:int"}, "DROP_COLUMNS"),
            *(
                ({"HIVE_COLUMNS": odd}, f"must have {odd.partition(', ')[0]} in a form such as day(at)")
                for odd in (
                    "DAY(at)",
                    "bucket(0,x)",
                    "bucket(device,16)",
                    "bucket(16, a(b))",
                    "day[at]",
                )
            ),
            ({"HIVE_COLUMNS": "Hours (utc)"}, "must have Hours (utc) in a form"),
            ({"NULL_PARTITION": "none"}, "NULL_PARTITION"),
            ({"HIVE_COLUMNS": "bucket(4,a)", "CATALOG_TYPE": "quix"}, "only Iceberg has transforms"),
            ({"TIMESTAMP_COLUMN": "a.b"}, "TIMESTAMP_COLUMN"),
            ({"COLUMN_TYPES": "a.b:double"}, "COLUMN_TYPES"),
            ({"CATALOG_CLIENT_SECRET": "s"}, "CATALOG_CLIENT_SECRET"),
            ({"CATALOG_CLIENT_ID": "me"}, "CATALOG_CLIENT_SECRET"),
            ({**LOGIN, "CATALOG_AUTH_TOKEN": "t"}, "CATALOG_AUTH_TOKEN"),
            (LENT | {"STORAGE_URL": "gs://lake", "S3_BUCKET": ""}, "is only for S3: set S3_BUCKET"),
            (LENT | {"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "s"}, "must not be set with CATALOG_VENDED"),
            (LENT | {"input": "a,b", "TABLE_NAME": ""}, "must be one topic with CATALOG_VENDED"),
            (LENT | {"ON_BAD_RECORD": "dead-letter"}, "must be skip or fail with CATALOG_VENDED"),
            (LENT | {"CREATE_BUCKET": "true"}, "must be false with CATALOG_VENDED"),
            (LENT | {"CATALOG_TYPE": "quix"}, "has no effect without CATALOG_TYPE=iceberg"),
        ],
    )
    def test_what_does_not_fit_is_named(self, variables: dict[str, str], named: str) -> None:
        base = {"CATALOG_TYPE": "iceberg", "CATALOG_URL": "https://c"}
        assert named in "".join(problems(**(base | variables)))

    def test_transforms_have_columns_with_the_types_of_the_settings(self) -> None:
        settings = load(
            CATALOG_TYPE="iceberg",
            CATALOG_URL="https://c",
            HIVE_COLUMNS="place,day(at), bucket( 16 , id ),bucket(2,place),temp(C),truncate(3,code)",
            TIMESTAMP_AS="at",
            COLUMN_TYPES="id:int",
        )
        assert settings.partitions[:4] == ("place", "day(at)", "bucket(16,id)", "bucket(2,place)")
        assert settings.spec.columns == ("place", "temp(C)")
        assert isinstance(settings.catalog, IcebergTarget)
        assert settings.catalog.transforms == [
            ("day", "at", pa.timestamp("us", "UTC")),
            ("bucket[16]", "id", pa.int32()),
            ("bucket[2]", "place", pa.string()),
            ("truncate[3]", "code", None),  # a table that exists has its type
        ]

    def test_the_librarys_own_variables_can_name_the_catalog(self) -> None:
        catalog = load(CATALOG_TYPE="Iceberg", PYICEBERG_CATALOG__DEFAULT__TYPE="glue").catalog
        assert isinstance(catalog, IcebergTarget)
