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


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"SCHEMA_REGISTRY_USERNAME": "u"}, "SCHEMA_REGISTRY_PASSWORD: must be set with SCHEMA_REGISTRY_USERNAME"),
        ({"SCHEMA_REGISTRY_PASSWORD": "p"}, "SCHEMA_REGISTRY_PASSWORD: has no effect without SCHEMA_REGISTRY_USERNAME"),
        (
            {"SCHEMA_REGISTRY_USERNAME": "u", "SCHEMA_REGISTRY_PASSWORD": "p", "SCHEMA_REGISTRY_TOKEN": "t"},
            "SCHEMA_REGISTRY_TOKEN: must not be set together with SCHEMA_REGISTRY_USERNAME",
        ),
        (
            {"SCHEMA_REGISTRY_SSL_CERTIFICATE": __file__},
            "SCHEMA_REGISTRY_SSL_KEY: must be set with SCHEMA_REGISTRY_SSL_CERTIFICATE",
        ),
    ],
)
def test_variables_that_go_together(variables: dict[str, str], expected: str) -> None:
    (problem,) = problems(**AVRO, **variables)
    assert problem.startswith(expected)


def test_a_token_without_a_registry_has_no_effect() -> None:
    (problem,) = problems(SCHEMA_REGISTRY_TOKEN="t")
    assert problem.startswith(f"SCHEMA_REGISTRY_TOKEN: has no effect without {URL}")
