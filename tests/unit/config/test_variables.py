"""What may be written into each variable, and what is said about other values."""

import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from quixstreams.models.serializers import DESERIALIZERS

from tests.support.environment import load, problems

TOPIC = {"STREAM_TIMEOUT_TOPIC": "quiet"}
CATALOG = {"CATALOG_TYPE": "iceberg", "CATALOG_URL": "http://catalog"}

NO_FOLDERS = ("file://lake", "file:///", "file:///a/../b")
NO_ZONES = ("Prague", "europe/prague", "+02:00", "localtime", "Factory")
NESTED = {"HIVE_COLUMNS": "meta.region"}
RENAMED = {"HIVE_COLUMNS": "region", "RENAME_COLUMNS": "meta.region:region"}
SALT = {"HASH_SALT": "s"}
LOGIN = {"KAFKA_SECURITY_PROTOCOL": "sasl_ssl", "KAFKA_SASL_MECHANISM": "scram-sha-512"}
LOGIN |= {"KAFKA_SASL_USERNAME": "user", "KAFKA_SASL_PASSWORD": "pw"}
PAIR = {"KAFKA_SECURITY_PROTOCOL": "SSL", "KAFKA_SSL_CERTIFICATE": __file__, "KAFKA_SSL_KEY": __file__}
PLAIN = {**LOGIN, "KAFKA_SASL_MECHANISM": "PLAIN"}
OAUTH = {**LOGIN, "KAFKA_SASL_MECHANISM": "oauthbearer", "KAFKA_OAUTH_TOKEN_URL": "https://login.example.com/o/token/"}
TOKEN_URL = "KAFKA_OAUTH_TOKEN_URL"
NO_OAUTH = "has no effect without KAFKA_SASL_MECHANISM=OAUTHBEARER"
REGISTRY = {"KAFKA_VALUE_DESERIALIZER": "avro", "SCHEMA_REGISTRY_URL": "https://registry"}
REGISTRY_USER = {**REGISTRY, "SCHEMA_REGISTRY_USERNAME": "u"}
AZURE = {"S3_BUCKET": "", "STORAGE_URL": "az://lake"}
AZURE_STRING = {**AZURE, "AZURE_STORAGE_CONNECTION_STRING": "AccountName=acme;AccountKey=aHVzaA=="}
AZURE_KEY = {**AZURE, "AZURE_STORAGE_ACCOUNT": "acme", "AZURE_STORAGE_KEY": "k"}
BESIDE_STRING = "must not be set together with AZURE_STORAGE_CONNECTION_STRING"
NEWEST = {"COMPACT_NEWEST_BY": "a"}
ORDERED = {**NEWEST, "METADATA_COLUMNS": "__offset,__timestamp", "HIVE_COLUMNS": "__partition"}


class TestSingleValues:
    @pytest.mark.parametrize(
        ("variable", "value", "attribute", "expected"),
        [
            ("COMMIT_INTERVAL", "0.5", "commit_interval", 0.5),
            ("AWS_REGION", "us-gov-west-1", "aws_region", "us-gov-west-1"),
            ("MAX_WRITE_WORKERS", "256", "max_write_workers", 256),
            ("HTTP_ALLOWED_HOSTS", "lake.example, sink,", "http_allowed_hosts", ("lake.example", "sink")),
            ("AUTO_DISCOVER", "False", "auto_discover", False),
            ("AUTO_OFFSET_RESET", "Earliest", "auto_offset_reset", "earliest"),
            ("AUTO_OFFSET_RESET", "20261101T0200+02", "auto_offset_reset", datetime(2026, 11, 1, tzinfo=UTC)),
            ("AUTO_OFFSET_RESET", "-7d", "auto_offset_reset", timedelta(days=7)),
            ("LOGLEVEL", "debug", "loglevel", "DEBUG"),
            ("NULL_PARTITION", "__HIVE_DEFAULT_PARTITION__", "null_partition", "__HIVE_DEFAULT_PARTITION__"),
            ("SPARK_DRIVER_MEMORY", "512M", "heap_mb", 512),
            ("SPARK_MASTER", "local[*, 4]", "spark_master", "local[*, 4]"),
            ("SPARK_MASTER", "spark://host:7077", "spark_master", "spark://host:7077"),
            ("SPARK_MASTER", "yarn", "spark_master", "yarn"),
            ("HIVE_COLUMNS", " year , month,place", "partitions", ("year", "month", "place")),
            ("HIVE_COLUMNS", "a/b,Größe", "partitions", ("a/b", "Größe")),
            ("HIVE_COLUMNS", "~.a", "partitions", ("~.a",)),
            ("COLUMN_TYPES", "a:bigint,B:string", "column_types", {"a": pa.int64(), "B": pa.string()}),
            ("METADATA_COLUMNS", "__offset, __topic", "metadata_columns", ("__offset", "__topic")),
            ("S3_PREFIX", "/lake/raw/", "root", "lake/raw"),
            ("TABLE_NAME", "v1.2_t-x", "table", "v1.2_t-x"),
            ("COLUMN_TYPES", "a:bigint, ", "column_types", {"a": pa.int64()}),
            ("KAFKA_BOOTSTRAP_SERVERS", "a:1, b.c:2,[::1]:3", "broker_address", "a:1,b.c:2,[::1]:3"),
        ],
    )
    def test_is_read(self, variable: str, value: str, attribute: str, expected: object) -> None:
        assert getattr(load(**{variable: value}), attribute) == expected

    @pytest.mark.parametrize(
        ("variable", "value", "allowed"),
        [
            (
                "AUTO_OFFSET_RESET",
                "newest",
                "must be earliest, latest, a time such as 2026-11-01T00:00:00Z, or a span before now such as -7d",
            ),
            ("AUTO_OFFSET_RESET", "20261101", "must be earliest, latest, a time"),
            ("AUTO_OFFSET_RESET", "-99999999999d", "must be earliest, latest, a time"),
            ("AUTO_OFFSET_RESET", "-1000000d", "must be earliest, latest, a time"),
            ("BATCH_SIZE", "0", "must be greater than 0"),
            ("MAX_WRITE_WORKERS", "257", "must be less than or equal to 256"),
            ("HTTP_PORT", "65536", "must be less than or equal to 65535"),
            ("HTTP_ALLOWED_HOSTS", "http://lake.example", "must be host names, separated by commas"),
            ("HTTP_FRAME_ANCESTORS", "https://a.example; script-src *", "must be origins such as https://portal.exam"),
            ("COMMIT_INTERVAL", "0", "must be greater than 0"),
            ("COMMIT_INTERVAL", "inf", "must be a finite number"),
            ("AUTO_DISCOVER", "maybe", "must be a valid boolean"),
            ("LOGLEVEL", "LOUD", "must be 'DEBUG', 'INFO', 'WARNING', 'ERROR' or 'CRITICAL'"),
            ("KAFKA_SSL_CA_LOCATION", "/no/such/ca.pem", "must be a file that the connector can read"),
            ("KAFKA_BOOTSTRAP_SERVERS", "http://kafka:9092", "must be host:port"),
            ("KAFKA_BOOTSTRAP_SERVERS", "a:1,,b:2", "must be host:port"),
            ("AZURE_STORAGE_ACCOUNT", "https://acme", "must be only the account's name"),
            ("S3_BUCKET", "s3://lake", "must be only the bucket's name"),
            ("STORAGE_URL", "ftp://lake", "must be s3://bucket, gs://bucket, az://container or file:///folder"),
            ("STORAGE_URL", "az://My--lake", "must be only the container's name"),
            ("STORAGE_URL", "az://" + 33 * "a-" + "a", "must be only the container's name"),
            ("STORAGE_URL", "s3://lake/raw", "set the path in S3_PREFIX"),
            *(("STORAGE_URL", url, "must be the full path of a folder") for url in NO_FOLDERS),
            ("S3_PREFIX", "a//b", "must be a path such as lake/raw"),
            ("AWS_REGION", "mars", "must be an AWS region, such as eu-west-1"),
            ("AWS_ENDPOINT_URL", "http://minio:port", "must be an address such as https://host:port/path"),
            ("AZURE_ENDPOINT_URL", "http://azure..local", "must be an address such as https://host:port/path"),
            ("CATALOG_URL", "ftp://catalog", "must be an address such as https://host:port/path"),
            ("TABLE_NAME", "a/b", "must be made of letters, digits"),
            ("S3_PREFIX", "data/_dead_letter", "beginning with a letter or digit"),
            ("NULL_PARTITION", "a/b", "must be auto or a folder name"),
            *(("TIME_ZONE", zone, "must be the name of a time zone") for zone in NO_ZONES),
            ("TIME_ZONE", "Europe/Prague", "has no effect without year, month, day or hour in HIVE_COLUMNS"),
            ("HIVE_COLUMNS", "a,,b", "none of them empty"),
            ("S3_ROLE_ARN", "arn:aws:iam::1234:role/lake", "must be the ARN of a role"),
            ("S3_ROLE_EXTERNAL_ID", "word", "has no effect without S3_ROLE_ARN"),
            ("HIVE_COLUMNS", "a,b,a", "repeated columns: a"),
            ("HIVE_COLUMNS", "a,~a", "repeated columns: a"),
            ("HIVE_COLUMNS", "a,~", "must have a name after each ~"),
            ("COLUMN_TYPES", "speed:fast", "'fast' is not a type. Types are boolean, int, bigint, double"),
            ("COLUMN_TYPES", "_rescued_data:bigint", "must not contain _rescued_data, which is always text"),
            ("METADATA_COLUMNS", "__topic,offset", "any of __topic, __partition, __offset, __timestamp, __headers"),
            ("METADATA_COLUMNS", "__topic,__topic", "repeated columns: __topic"),
            ("HIVE_COLUMNS", "__partition,~__offset", "must not contain __offset: nearly each record would"),
            ("ON_BAD_RECORD", "ignore", "must be 'dead-letter', 'skip' or 'fail'"),
            ("HIVE_COLUMNS", "a\tb", "none of them empty or with control characters"),
            ("HIVE_COLUMNS", ".a", 'must not contain a name that begins with "."'),
            ("SPARK_MASTER", "mesos://host:5050", "for compact and erase also spark://HOST:PORT"),
            ("SPARK_MASTER", "local[0]", "must be local, local[N] or local[*]"),
            ("SPARK_DRIVER_MEMORY", "511m", "must be a size such as 1g or 512m, at least 512m"),
            ("SPARK_DRIVER_MEMORY", "1gb", "must be a size such as 1g or 512m, at least 512m"),
        ],
    )
    def test_is_refused_with_what_is_allowed(self, variable: str, value: str, allowed: str) -> None:
        (problem,) = [line for line in problems(**{variable: value}) if line.startswith(f"{variable}=")]
        assert problem.startswith(f"{variable}={json.dumps(value)}: ")
        assert allowed in problem

    def test_a_table_of_iceberg_has_folders_of_a_zone_and_of_a_field_inside_objects(self) -> None:
        layout = {"HIVE_COLUMNS": "region,day", "RENAME_COLUMNS": "meta.region:region", "TIME_ZONE": "Asia/Tokyo"}
        spec = load(**CATALOG, **layout).spec
        assert (spec.time_zone, spec.path("region"), spec.path("day")) == ("Asia/Tokyo", ["meta", "region"], ["day"])

    def test_every_deserializer_of_the_framework_is_known(self) -> None:
        for name in DESERIALIZERS:
            settings = load(KAFKA_KEY_DESERIALIZER=name, KAFKA_VALUE_DESERIALIZER=name)
            assert DESERIALIZERS[settings.key_deserializer] is DESERIALIZERS[name]
            assert DESERIALIZERS[settings.value_deserializer] is DESERIALIZERS[name]

    @pytest.mark.parametrize("name", ["ts_ms", "place", "year", "speed"])
    def test_the_column_of_the_moment_has_a_name_of_its_own(self, name: str) -> None:
        others = {"HIVE_COLUMNS": "~year,place", "COLUMN_TYPES": "speed:double"}
        (problem,) = problems(TIMESTAMP_AS=name, **others)
        assert problem.startswith(f'TIMESTAMP_AS="{name}": must not be a column of another setting')

    @pytest.mark.parametrize(
        ("variables", "problem"),
        [
            ({"HASH_COLUMNS": "user"}, "HASH_SALT: must be set with HASH_COLUMNS"),
            ({"HASH_SALT": "s"}, "HASH_SALT: has no effect without HASH_COLUMNS"),
            ({"HASH_COLUMNS": "ts_ms", "HASH_SALT": "s"}, "must not contain ts_ms, which is in TIMESTAMP"),
            ({"HASH_COLUMNS": "a", "HASH_SALT": "s", "COLUMN_TYPES": "a:int"}, "must not contain a, which is in COL"),
            ({"HASH_COLUMNS": "__key", "HASH_SALT": "s"}, "must not contain __key, which is not a field"),
            ({"RENAME_COLUMNS": "a:year", "HIVE_COLUMNS": "year"}, "must not contain year, which is not a field"),
            ({"DROP_COLUMNS": "a", "RENAME_COLUMNS": "a:b"}, 'DROP_COLUMNS="a": must not contain a, which is in RENAM'),
            ({"DROP_COLUMNS": "place", "HIVE_COLUMNS": "~place"}, "must not contain place, which HIVE_COLUMNS needs"),
            ({"RENAME_COLUMNS": "ts_ms:at"}, "must not contain ts_ms, which TIMESTAMP_COLUMN needs"),
            ({"RENAME_COLUMNS": "a:b,c:b"}, "must contain each column once; repeated columns: b"),
            ({"RENAME_COLUMNS": "a"}, "must be field:column, without a colon in a name"),
            ({"HIVE_COLUMNS": "year", "TIMESTAMP_COLUMN": "year"}, '="year": must not be a column of HIVE_COLUMNS'),
            ({**NESTED, **SALT, "HASH_COLUMNS": "Meta.Region"}, "must not contain meta.region: HIVE_COLUMNS also"),
            ({**RENAMED, **SALT, "HASH_COLUMNS": "region"}, "must not contain region: HIVE_COLUMNS also reads it"),
            ({**NESTED, **SALT, "HASH_COLUMNS": "meta"}, 'HASH_COLUMNS="meta": must not contain meta, from which HI'),
            ({**NESTED, "DROP_COLUMNS": "META"}, 'DROP_COLUMNS="META": must not contain meta, from which HIVE_COL'),
            ({**RENAMED, "DROP_COLUMNS": "meta"}, "must not contain meta, from which HIVE_COLUMNS reads region."),
            ({**NESTED, "RENAME_COLUMNS": "meta:info"}, 'RENAME_COLUMNS="meta:info": must not contain meta, from wh'),
            ({**RENAMED, "RENAME_COLUMNS": "meta.region:region,meta:a,a:meta"}, "must not contain meta, from wh"),
            (TOPIC, 'STREAM_TIMEOUT_TOPIC="quiet": has no effect without STREAM_TIMEOUT_MS'),
            ({**TOPIC, "STREAM_TIMEOUT_MS": "0"}, 'STREAM_TIMEOUT_TOPIC="quiet": has no effect without STREAM_TIME'),
            ({**TOPIC, "STREAM_TIMEOUT_MS": "5", "input": "quiet"}, "must not be an input topic"),
            ({**CATALOG, "CATALOG_AUTH_TOKEN": "hush\nhush"}, "CATALOG_AUTH_TOKEN: must be one word of visible ASCII"),
            ({"KAFKA_SSL_KEY_PASSWORD": "hush"}, "KAFKA_SSL_KEY_PASSWORD: has no effect without KAFKA_SSL_KEY"),
            (
                {**LOGIN, "KAFKA_SECURITY_PROTOCOL": ""},
                'SL_MECHANISM="scram-sha-512": has no effect without KAFKA_SECURITY',
            ),
            (
                {**LOGIN, "KAFKA_SASL_MECHANISM": ""},
                "SASL_MECHANISM: must be set with KAFKA_SECURITY_PROTOCOL=SASL_SSL",
            ),
            ({**LOGIN, "KAFKA_SASL_USERNAME": ""}, "USERNAME: must be set with KAFKA_SASL_MECHANISM=SCRAM-SHA-512"),
            ({**LOGIN, "KAFKA_SASL_PASSWORD": ""}, "PASSWORD: must be set with KAFKA_SASL_MECHANISM=SCRAM-SHA-512"),
            ({**OAUTH, TOKEN_URL: ""}, f"{TOKEN_URL}: must be set with KAFKA_SASL_MECHANISM=OAUTHBEARER"),
            ({**OAUTH, TOKEN_URL: "login.example.com"}, TOKEN_URL),
            ({**OAUTH, TOKEN_URL: "https://user:hush@login.example.com"}, TOKEN_URL),
            ({**OAUTH, TOKEN_URL: "https://a b"}, TOKEN_URL),
            ({**OAUTH, "KAFKA_OAUTH_EXTENSIONS": "logicalCluster"}, "must be name=value"),
            ({"KAFKA_CLIENT_CONFIG": '{"hush"'}, "KAFKA_CLIENT_CONFIG: must be a JSON object"),
            (
                {"KAFKA_CLIENT_CONFIG": '{"linger.ms": ["hush"]}'},
                "must set linger.ms to a text, a number, true or f",
            ),
            ({"KAFKA_CLIENT_CONFIG": '{"sasl.password": "hush"}'}, "sasl.password: set KAFKA_SASL_PASSWORD instead"),
            ({"KAFKA_CLIENT_CONFIG": '{"enable.auto.commit": true}'}, "commit: the connector needs its own value"),
            ({"KAFKA_CLIENT_CONFIG": '{"ssl.ca.pem": "hush"}'}, "ssl.ca.pem: set KAFKA_SSL_CA_LOCATION instead"),
            ({**PLAIN, "KAFKA_OAUTH_TOKEN_URL": "https://a"}, f'KAFKA_OAUTH_TOKEN_URL="https://a": {NO_OAUTH}'),
            ({**PLAIN, "KAFKA_OAUTH_SCOPE": "a"}, f'KAFKA_OAUTH_SCOPE="a": {NO_OAUTH}'),
            ({**PLAIN, "KAFKA_OAUTH_EXTENSIONS": "a=b"}, f'KAFKA_OAUTH_EXTENSIONS="a=b": {NO_OAUTH}'),
            ({**PLAIN, "KAFKA_OAUTH_CA_LOCATION": __file__}, NO_OAUTH),
            ({"KAFKA_BOOTSTRAP_SERVERS": ""}, "KAFKA_BOOTSTRAP_SERVERS: must be set, such as localhost:9092"),
            ({"KAFKA_BOOTSTRAP_SERVERS": "", "Quix__Sdk__Token": "t"}, "SERVERS: must be set, such as localhost:9092"),
            ({"KAFKA_BOOTSTRAP_SERVERS": "", "Quix__Portal__Api": "https://p"}, "SERVERS: must be set, such as local"),
            (REGISTRY_USER, "SCHEMA_REGISTRY_PASSWORD: must be set with SCHEMA_REGISTRY_USERNAME"),
            ({**REGISTRY, "SCHEMA_REGISTRY_PASSWORD": "p"}, "PASSWORD: has no effect without SCHEMA_REGISTRY_USERNAME"),
            (
                {**REGISTRY_USER, "SCHEMA_REGISTRY_PASSWORD": "p", "SCHEMA_REGISTRY_TOKEN": "t"},
                "SCHEMA_REGISTRY_TOKEN: must not be set together with SCHEMA_REGISTRY_USERNAME",
            ),
            (
                {**REGISTRY, "SCHEMA_REGISTRY_SSL_CERTIFICATE": __file__},
                "SSL_KEY: must be set with SCHEMA_REGISTRY_SSL",
            ),
            ({"AWS_ACCESS_KEY_ID": "k"}, "AWS_SECRET_ACCESS_KEY: must be set with AWS_ACCESS_KEY_ID"),
            ({"AWS_SECRET_ACCESS_KEY": "s"}, "AWS_SECRET_ACCESS_KEY: has no effect without AWS_ACCESS_KEY_ID"),
            ({"AWS_SESSION_TOKEN": "t"}, "AWS_SESSION_TOKEN: has no effect without AWS_ACCESS_KEY_ID"),
            ({"STORAGE_URL": "s3://two"}, 'STORAGE_URL="s3://two": must not be set together with S3_BUCKET'),
            ({"S3_BUCKET": ""}, "S3_BUCKET: must be set to the name of a bucket, or STORAGE_URL"),
            *(
                ({**AZURE, "STORAGE_URL": url, "S3_SSE": "AES256"}, "is only for S3")
                for url in ("gs://lake", "file:///lake")
            ),
            (AZURE, "AZURE_STORAGE_ACCOUNT: must be set with this STORAGE_URL, or AZURE_STORAGE_CONNECTION_STRING"),
            (
                {**AZURE_KEY, "AZURE_STORAGE_SAS_TOKEN": "s"},
                "SAS_TOKEN: must not be set together with AZURE_STORAGE_KEY",
            ),
            ({**AZURE_STRING, "AZURE_STORAGE_ACCOUNT": "acme"}, f'AZURE_STORAGE_ACCOUNT="acme": {BESIDE_STRING}'),
            ({**AZURE_STRING, "AZURE_STORAGE_KEY": "k"}, f"AZURE_STORAGE_KEY: {BESIDE_STRING}"),
            ({**AZURE_STRING, "AZURE_ENDPOINT_URL": "https://a"}, f'AZURE_ENDPOINT_URL="https://a": {BESIDE_STRING}'),
            ({"KEEP_CONFIRMED": "400d"}, 'KEEP_CONFIRMED="400d": '),
            (NEWEST, "needs METADATA_COLUMNS with __offset, __partition, __timestamp"),
            ({"COMPACT_DROP_WHERE": "a = 1"}, "COMPACT_DROP_WHERE"),
            ({**CATALOG, **ORDERED, "COMPACT_DROP_WHERE": "a = 1"}, "does not support CATALOG_TYPE=iceberg"),
        ],
    )
    def test_what_does_not_go_together(self, variables: dict[str, str], problem: str) -> None:
        (found,) = problems(**variables)
        assert problem in found
        assert "hush" not in found

    def test_what_is_renamed_may_take_the_place_of_the_time_and_of_a_folder(self) -> None:
        assert load(RENAME_COLUMNS="at:ts_ms, year:y", HIVE_COLUMNS="year", DROP_COLUMNS="blob,day")

    @pytest.mark.parametrize(
        "variables",
        [
            {**SALT, "HASH_COLUMNS": "meta.region"},
            {**SALT, "HIVE_COLUMNS": "~meta.region", "HASH_COLUMNS": "meta.region"},
            {**SALT, "HIVE_COLUMNS": "a.b", "RENAME_COLUMNS": "user:a.b", "HASH_COLUMNS": "a.b"},
            {**NESTED, "RENAME_COLUMNS": "info:meta"},
            {**NESTED, **SALT, "HASH_COLUMNS": "region", "DROP_COLUMNS": "info"},
        ],
    )
    def test_rules_may_name_dots_where_no_folder_has_a_field_inside_objects_that_they_reach(
        self, variables: dict[str, str]
    ) -> None:
        assert load(**variables)
