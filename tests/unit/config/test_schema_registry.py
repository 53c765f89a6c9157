"""The schema registry: which variables go together."""

import pytest

from tests.support.environment import load, problems

URL = "SCHEMA_REGISTRY_URL"
AVRO = {"KAFKA_VALUE_DESERIALIZER": "avro", URL: "https://registry.example.com/api/"}


def test_avro_needs_a_registry() -> None:
    assert load(**AVRO).registry_url == "https://registry.example.com/api"
    for variable in ("KAFKA_VALUE_DESERIALIZER", "KAFKA_KEY_DESERIALIZER"):
        (problem,) = problems(**{variable: "avro"})
        assert problem.startswith(f"{URL}: must be set with the deserializer avro")


def test_json_schema_needs_none() -> None:
    assert not load(KAFKA_VALUE_DESERIALIZER="json-schema").needs_registry
    (problem,) = problems(**{"KAFKA_VALUE_DESERIALIZER": "json-schema", URL: "http://registry"})
    assert "has no effect without KAFKA_VALUE_DESERIALIZER=avro" in problem


@pytest.mark.parametrize("name", ["protobuf", "PROTOBUF"])
def test_protobuf_is_refused_with_the_reason(name: str) -> None:
    (problem,) = problems(KAFKA_VALUE_DESERIALIZER=name)
    assert "needs classes that are compiled from the schema. Write Avro" in problem


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
