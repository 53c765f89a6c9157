"""The settings in use, as the log begins with them and the status page shows them."""

from tests.support.environment import CREDENTIALS, load


def test_every_variable_that_has_a_value() -> None:
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


def test_what_is_or_may_be_secret_is_only_known_to_be_set() -> None:
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
