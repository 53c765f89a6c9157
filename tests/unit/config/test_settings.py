"""Settings as a user meets them: what may be written into the environment, and what is said about mistakes."""

from typing import Any

import pytest
from pydantic import ValidationError

from app.config.environment import SettingsError
from app.config.fields import env
from app.config.settings import Settings
from app.container import MemoryLimit
from app.parts.quix.catalog_address import QuixTarget
from app.storage.targets import S3Target
from tests.support.environment import CONNECTION, CREDENTIALS, ENOUGH, ON_PLATFORM, load, problems

LIMIT = "Quix__Deployment__Limits__Memory"
GROUP = "/sys/fs/cgroup/memory.max"


class TestDefaults:
    def test_only_a_store_and_a_broker_must_be_named(self) -> None:
        settings = load()
        assert settings.input_topic == "sensor-data"
        assert settings.table == "sensor-data"
        assert settings.root == "data"
        assert settings.catalog is None
        assert settings.storage == S3Target("lake", "us-east-1")

    @pytest.mark.parametrize("text", ["", "  ", "\n"])
    def test_a_blank_variable_counts_as_unset(self, text: str) -> None:
        blank = {str(field.validation_alias): text for field in Settings.model_fields.values()}
        assert load({**blank, **ENOUGH}) == load()

    def test_space_around_a_value_is_dropped(self) -> None:
        settings = load(BATCH_SIZE=" 5 ", AWS_REGION="eu-west-1\n", CATALOG_URL="http://c/", CATALOG_AUTH_TOKEN="t\n")
        assert settings.batch_size == 5
        assert settings.aws_region == "eu-west-1"
        assert isinstance(settings.catalog, QuixTarget)
        assert settings.catalog.token == "t"

    def test_names_of_variables_are_case_sensitive(self) -> None:
        assert load(INPUT="other", batch_size="7") == load()


class TestAllAtOnce:
    def test_every_mistake_is_named(self) -> None:
        found = problems({}, BATCH_SIZE="0", AWS_REGION="mars", LOGLEVEL="x", AWS_SECRET_ACCESS_KEY="s", input="_t")
        assert [line.partition(":")[0] for line in found] == [
            "KAFKA_BOOTSTRAP_SERVERS",
            "S3_BUCKET",
            "AWS_SECRET_ACCESS_KEY",
            'AWS_REGION="mars"',
            "TABLE_NAME",
            'BATCH_SIZE="0"',
            'LOGLEVEL="x"',
        ]

    def test_a_long_value_is_cut_and_stays_on_one_line(self) -> None:
        (problem,) = problems(BATCH_SIZE="9" * 40 + "\n" + "x" * 500)
        assert len(problem) < 200
        assert "\n" not in problem

    @pytest.mark.parametrize(
        ("wrong", "others"),
        [
            ({"KAFKA_SECURITY_PROTOCOL": "TLS"}, {"KAFKA_SSL_CA_LOCATION": __file__}),
            ({"KAFKA_SASL_MECHANISM": "NTLM"}, {"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_USERNAME": "u"}),
            ({"STREAM_TIMEOUT_MS": "1m"}, {"STREAM_TIMEOUT_TOPIC": "quiet"}),
            ({"S3_BUCKET": "s3://lake"}, {}),
            ({"STORAGE_URL": "ftp://lake"}, {"S3_BUCKET": "", CONNECTION: "{}"}),
            ({"AWS_ENDPOINT_URL": "minio:9000"}, {"AWS_REGION": "mars"}),
            ({"S3_SSE": "x"}, {"S3_SSE_KMS_KEY_ID": "key"}),
            ({"HIVE_COLUMNS": "year,year"}, {"TIMESTAMP_COLUMN": "year"}),
            ({"MAX_BUFFER_MB": "x"}, {"Quix__Deployment__Limits__Memory": "1200", "SPARK_DRIVER_MEMORY": "1g"}),
        ],
    )
    def test_nothing_is_compared_with_a_wrong_variable(self, wrong: dict[str, str], others: dict[str, str]) -> None:
        (problem,) = problems(ENOUGH | others | wrong)
        assert problem.startswith(next(iter(wrong)))


class TestSecrets:
    SECRETS = (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "CATALOG_AUTH_TOKEN",
        "KAFKA_SASL_PASSWORD",
        "Quix__Sdk__Token",
        "Quix__Lakehouse__Catalog__AuthToken",
        "Quix__Lakehouse__Query__AuthToken",
        "GCS_CREDENTIALS_JSON",
        "AZURE_STORAGE_CONNECTION_STRING",
        "AZURE_STORAGE_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
    )

    def test_are_in_no_text_of_the_settings(self) -> None:
        secrets = {name: f"hush-{name}" for name in self.SECRETS}
        settings = load(
            **secrets,
            CATALOG_URL="https://c",
            KAFKA_SASL_USERNAME="u",
            KAFKA_SASL_MECHANISM="PLAIN",
            KAFKA_SECURITY_PROTOCOL="SASL_SSL",
        )
        texts = [repr(settings), str(settings), repr(settings.storage), repr(settings.catalog), str(settings.summary())]
        assert "hush" not in "\n".join(texts)
        assert isinstance(settings.storage, S3Target)
        assert settings.storage.secret_key == "hush-AWS_SECRET_ACCESS_KEY"

    def test_are_in_no_text_of_an_error(self) -> None:
        with pytest.raises(SettingsError) as caught:
            load(
                {},
                AWS_SECRET_ACCESS_KEY="hush",
                AWS_SESSION_TOKEN="hush",
                KAFKA_SASL_PASSWORD="hush",
                CATALOG_URL="https://user:hush@catalog",
                AWS_ENDPOINT_URL="https://s3?token=hush",
                STORAGE_URL="s3://key:hush@bucket",
                Quix__BlobStorage__Connection__Json='{"hush": ',
            )
        assert len(caught.value.problems) == 7
        assert "hush" not in str(caught.value)
        assert caught.value.__context__ is None  # a stack trace would print it

    def test_are_not_in_what_the_library_says_either(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CATALOG_URL", "https://user:hush@catalog")
        with pytest.raises(ValidationError) as caught:
            Settings()
        assert "hush" not in str(caught.value)

    def test_must_be_text(self) -> None:
        """boto3's error for such a key quotes all of it."""
        assert problems(AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="hush\udcff") == (
            "AWS_SECRET_ACCESS_KEY: must be text in UTF-8",
        )

    def test_are_in_no_part_of_a_long_address(self) -> None:
        (problem,) = problems(CATALOG_URL=f"https://user:{'hush' * 50}@catalog")
        assert "hush" not in problem

    @pytest.mark.parametrize("variable", ["CATALOG_URL", "AWS_ENDPOINT_URL", "Quix__Lakehouse__Catalog__Url"])
    def test_do_not_belong_into_addresses(self, variable: str) -> None:
        assert problems(**{variable: "https://user:pw@host"}) == (f"{variable}: must not contain a user or password",)


class TestBroker:
    def test_the_users_wins_over_the_platforms_address_and_token(self) -> None:
        assert load(Quix__Broker__Address="platform:9092").broker_address == "localhost:9092"
        assert load({"S3_BUCKET": "lake", "Quix__Broker__Address": "platform:9092"}).broker_address == "platform:9092"
        assert load(ON_PLATFORM).broker_address is None

    @pytest.mark.parametrize("login", [{"KAFKA_SECURITY_PROTOCOL": "SSL"}, {"KAFKA_CLIENT_CONFIG": "{}"}])
    def test_a_login_for_a_broker_that_is_not_named(self, login: dict[str, str]) -> None:
        (problem,) = problems(ON_PLATFORM, **login)
        assert "set KAFKA_BOOTSTRAP_SERVERS as well" in problem


REGISTRY = {"KAFKA_VALUE_DESERIALIZER": "avro", "SCHEMA_REGISTRY_USERNAME": "u", "SCHEMA_REGISTRY_PASSWORD": "p"}
SASL = {"KAFKA_SASL_MECHANISM": "PLAIN", "KAFKA_SASL_USERNAME": "u", "KAFKA_SASL_PASSWORD": "p"}
KEYS = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
AZURE = {"S3_BUCKET": "", "STORAGE_URL": "az://lake", "AZURE_STORAGE_ACCOUNT": "acct", "AZURE_STORAGE_KEY": "a2V5"}


class TestUnencrypted:
    @pytest.mark.parametrize(
        ("variable", "others", "scheme"),
        [
            ("SCHEMA_REGISTRY_URL", REGISTRY, "http://"),
            ("CATALOG_URL", {"CATALOG_AUTH_TOKEN": "t"}, "http://"),
            ("AWS_ENDPOINT_URL", KEYS, "http://"),
            ("AWS_ENDPOINT_URL_STS", KEYS, "http://"),
            ("AZURE_ENDPOINT_URL", AZURE, "http://"),
            ("KAFKA_BOOTSTRAP_SERVERS", SASL | {"KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT"}, "localhost:9092,"),
        ],
    )
    def test_a_login_at_another_host_is_a_warning(self, variable: str, others: dict[str, str], scheme: str) -> None:
        (warning,) = load(**others, **{variable: f"{scheme}there.example.com:80"}).warnings
        assert warning.startswith(f"{variable}: ")
        for own in ("localhost", "127.0.0.1", "[::1]"):
            assert load(**others, **{variable: f"{scheme}{own}:80"}).warnings == []
        if scheme == "http://":
            assert load(**others, **{variable: "https://there.example.com"}).warnings == []

    def test_all_are_one_warning(self) -> None:
        http = "http://there.example.com"
        settings = load(**KEYS, AWS_ENDPOINT_URL=http, CATALOG_URL=http, CATALOG_AUTH_TOKEN="t")
        (warning,) = settings.warnings
        assert warning.startswith("AWS_ENDPOINT_URL, CATALOG_URL: ")

    def test_what_the_platform_injects_is_none(self) -> None:
        injected = {name: value.replace("https:", "http:") for name, value in ON_PLATFORM.items()}
        assert load(injected, Quix__Lakehouse__Catalog__Url="http://catalog.internal").warnings == []


class TestSummary:
    """The settings in use, as the log begins with them and the status page shows them."""

    def test_every_variable_that_has_a_value(self) -> None:
        shown = load(
            AWS_ENDPOINT_URL="http://s3:9000",
            HIVE_COLUMNS="year,~driver,place",
            COLUMN_TYPES="speed:double",
            AUTO_DISCOVER="false",
            HTTP_PORT="0",
        ).summary()
        assert shown["table"] == "s3://lake/data/sensor-data"
        assert shown["memory"] == "no limit found, the settings need 1,179 MB"
        assert shown["KAFKA_BOOTSTRAP_SERVERS"] == '"localhost:9092"'
        assert shown["HIVE_COLUMNS"] == '["year", "~driver", "place"]'
        assert shown["COLUMN_TYPES"] == '{"speed": "double"}'
        assert (shown["AUTO_DISCOVER"], shown["HTTP_PORT"], shown["BATCH_SIZE"]) == ("false", "0", "1000")
        assert (shown["MAX_BUFFER_MB"], shown["SPARK_DRIVER_MEMORY"]) == ("64", '"512m"')
        assert shown.keys().isdisjoint({"STORAGE_URL", "METADATA_COLUMNS", "CATALOG_URL", "KAFKA_SASL_PASSWORD"})

    def test_what_is_or_may_be_secret_is_only_known_to_be_set(self) -> None:
        login = {"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_MECHANISM": "OAUTHBEARER"}
        shown = load(
            {"STORAGE_URL": "gs://lake", "KAFKA_BOOTSTRAP_SERVERS": "localhost:9092", **login},
            GCS_CREDENTIALS_JSON=CREDENTIALS,
            KAFKA_SASL_USERNAME="u",
            KAFKA_SASL_PASSWORD="hush",
            KAFKA_OAUTH_TOKEN_URL="https://login.example.com/token?key=hush",
            KAFKA_OAUTH_CA_LOCATION="-----BEGIN CERTIFICATE-----hush",
            Quix__Portal__Api="https://user:hush@portal",
        ).summary()
        assert shown["STORAGE_URL"] == '"gs://lake"'
        hidden = {"GCS_CREDENTIALS_JSON", "KAFKA_SASL_PASSWORD", "KAFKA_OAUTH_TOKEN_URL", "KAFKA_OAUTH_CA_LOCATION"}
        assert {name for name, value in shown.items() if value == "set"} == hidden | {"Quix__Portal__Api"}
        assert "hush" not in str(shown)


class TestTable:
    @pytest.mark.parametrize("topic", ["_internal", "_dead_letter", "_journal", "a..b", ".hidden", "-x"])
    def test_a_topic_that_cannot_name_a_table(self, topic: str) -> None:
        (problem,) = problems(input=topic)
        assert problem.startswith(f'TABLE_NAME: must be set, because the topic\'s name "{topic}" cannot name a table')
        assert load(input=topic, TABLE_NAME="t").table == "t"

    def test_virtual_partitions_are_distinguished_from_folders(self) -> None:
        spec = load(HIVE_COLUMNS="year, ~driver ,place,~ car").spec
        assert spec.columns == ("year", "place")
        assert spec.virtual == ("driver", "car")
        assert spec.order == ("year", "driver", "place", "car")

    def test_a_virtual_time_column_is_a_field_of_the_record(self) -> None:
        spec = load(HIVE_COLUMNS="~year", TIMESTAMP_COLUMN="year").spec
        assert (spec.columns, spec.virtual) == ((), ("year",))


class TestMemory:
    @pytest.mark.parametrize(
        ("variables", "buffer_mb", "heap_mb", "sort_mb"),
        [
            ({LIMIT: "1000"}, 64, 512, 42),
            ({LIMIT: "1499"}, 64, 512, 42),
            ({LIMIT: "1500"}, 64, 512, 145),
            ({}, 64, 512, 145),
            ({LIMIT: "1499", "SPARK_DRIVER_MEMORY": "700m"}, 64, 700, 80),
            ({LIMIT: "5000", "MAX_BUFFER_MB": "1000", "SPARK_DRIVER_MEMORY": "2G"}, 1000, 2048, 349),
            ({"MAX_BUFFER_MB": "100000", "SPARK_DRIVER_MEMORY": "64g"}, 100_000, 65_536, 13_047),
        ],
    )
    def test_follows_the_containers_limit_unless_the_user_chooses(
        self, variables: dict[str, str], buffer_mb: int, heap_mb: int, sort_mb: int
    ) -> None:
        memory = load(**variables).memory
        assert (memory.buffer_mb, memory.heap_mb, memory.sort_mb) == (buffer_mb, heap_mb, sort_mb)
        assert memory.total_mb <= int(variables.get(LIMIT, memory.total_mb))

    def test_bounds_a_record_by_the_tighter_of_buffer_and_heap(self) -> None:
        assert load().memory.max_record_bytes == 16 * 2**20
        assert load(MAX_BUFFER_MB="128").memory.max_record_bytes == 16 * 2**20
        assert load(MAX_BUFFER_MB="128", SPARK_DRIVER_MEMORY="1g").memory.max_record_bytes == 32 * 2**20

    @pytest.mark.parametrize(
        ("variables", "told", "needed"),
        [
            ({LIMIT: "999"}, f'{LIMIT}="999": is too little memory', "needs 1,000 MB, better 1,500 MB"),
            ({LIMIT: "1200", "SPARK_DRIVER_MEMORY": "1g"}, "SPARK_DRIVER_MEMORY=1024m", "need 1,690 MB in all"),
        ],
    )
    def test_too_small_a_container(self, variables: dict[str, str], told: str, needed: str) -> None:
        (problem,) = problems(**variables)
        assert told in problem
        assert needed in problem

    @pytest.mark.parametrize(("limit", "sort_mb"), [(3, 42), (1499, 42), (2048, 145)])
    def test_follows_the_control_group_where_the_platform_names_no_limit(
        self, limit: int, sort_mb: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        in_a_group_of(limit, monkeypatch)
        settings = load()
        assert settings.memory.sort_mb == sort_mb
        assert f"limit {limit:,} MB by {GROUP}, the settings need" in settings.summary()["memory"]
        assert bool(settings.warnings) == (limit < 1_000)

    def test_the_platform_wins_over_the_control_group(self, monkeypatch: pytest.MonkeyPatch) -> None:
        in_a_group_of(9000, monkeypatch)
        settings = load(**{LIMIT: "1200"})
        assert settings.memory.sort_mb == 42
        assert settings.summary()["memory"] == f"limit 1,200 MB by {LIMIT}, the settings need 999 MB"

    @pytest.mark.parametrize(
        ("limit", "variables", "warning"),
        [
            (512, {}, f"the limit of 512 MB by {GROUP} is too little memory: the connector needs 1,000 MB"),
            (2048, {"SPARK_DRIVER_MEMORY": "2g"}, "MAX_BUFFER_MB=64, SPARK_DRIVER_MEMORY=2048m, which need 3,072"),
            (1500, {"COMPACT": "03:15"}, "SPARK_DRIVER_MEMORY=512m and COMPACT, which need 1,97"),
            (1200, {"KEEP": "9d", "HIVE_COLUMNS": "year"}, "SPARK_DRIVER_MEMORY=512m and KEEP, which need 1,29"),
        ],
    )
    def test_a_control_group_that_is_too_small_is_a_warning(
        self, monkeypatch: pytest.MonkeyPatch, limit: int, variables: dict[str, str], warning: str
    ) -> None:
        in_a_group_of(limit, monkeypatch)
        (told,) = load(**variables).warnings
        assert warning in told


@pytest.mark.parametrize(("columns", "count"), [("place", 0), ("place,year", 1), ("~year", 0), ("ts_ms", 1)])
def test_deletions_in_folders_of_time_are_a_warning(columns: str, count: int) -> None:
    order = {"METADATA_COLUMNS": "__partition,__offset,__timestamp", "TIMESTAMP_COLUMN": "ts_ms"}
    settings = load(**order, HIVE_COLUMNS=columns, COMPACT_NEWEST_BY="a", COMPACT_DROP_WHERE="op = 'd'")
    assert len(settings.warnings) == count


class WithOld(Settings):
    old: str | None = env("OLD_NAME", deprecated="set NEW_NAME")


def test_a_deprecated_setting_still_counts_and_is_a_warning() -> None:
    variables: dict[str, Any] = {**ENOUGH}
    assert WithOld(**variables).warnings == []
    settings = WithOld(**variables | {"OLD_NAME": "x"})
    assert settings.model_dump()["old"] == "x"
    assert settings.warnings == ["OLD_NAME is deprecated: set NEW_NAME"]


def in_a_group_of(mb: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.config.settings.memory_limit", lambda: MemoryLimit(mb, GROUP))
