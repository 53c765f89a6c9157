"""The schema registry: which variables go together."""

import pytest

from tests.support.environment import load, problems

URL = "SCHEMA_REGISTRY_URL"
AVRO = {"KAFKA_VALUE_DESERIALIZER": "avro", URL: "https://registry.example.com/api/"}


def test_avro_and_protobuf_need_a_registry() -> None:
    assert load(**AVRO).registry_url == "https://registry.example.com/api"
    for variable, name in (("KAFKA_VALUE", "avro"), ("KAFKA_KEY", "avro"), ("KAFKA_VALUE", "Protobuf")):
        (problem,) = problems(**{f"{variable}_DESERIALIZER": name})
        assert problem.startswith(f"{URL}: must be set with avro and protobuf")


def test_json_schema_needs_none() -> None:
    assert not load(KAFKA_VALUE_DESERIALIZER="json-schema").needs_registry
    (problem,) = problems(**{"KAFKA_VALUE_DESERIALIZER": "json-schema", URL: "http://registry"})
    assert "has no effect without KAFKA_VALUE_DESERIALIZER=avro" in problem


GLUE = {"KAFKA_VALUE_DESERIALIZER": "avro", URL: "glue://eu-west-1/default-registry"}


def test_aws_glue_takes_access_keys() -> None:
    for name in ("avro", "protobuf"):
        assert load(**GLUE | {"KAFKA_VALUE_DESERIALIZER": name}).registry_url == GLUE[URL]
    assert load(**GLUE, SCHEMA_REGISTRY_USERNAME="AKIA", SCHEMA_REGISTRY_PASSWORD="s").registry_password == "s"
    (problem,) = problems(**GLUE, SCHEMA_REGISTRY_TOKEN="t")
    assert problem == "SCHEMA_REGISTRY_TOKEN: has no effect with AWS Glue"


@pytest.mark.parametrize("url", ["glue://eu-west-1", "glue:///r", "glue://eu-west-1/a/b", "glue://registry.evil/r"])
def test_the_address_of_aws_glue(url: str) -> None:
    (problem,) = problems(**GLUE | {URL: url})
    assert "must be glue://<region>/<registry>" in problem
