"""The pages, ``dotenv.example`` and the form are made of the settings, and may be used as they are."""

import io
import json
import os
import re
from itertools import groupby
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from dotenv import dotenv_values

from app.config.environment import load_settings
from app.config.memory import ROOMY_CONTAINER_MB
from app.config.settings import DEFAULT_PREFIX, VARIABLES
from app.parts.schema.json_schema import json_schema
from dev.generate import FILLED_IN, FORM, PLATFORM, outdated, sections
from tests.support.environment import ON_PLATFORM

REPO = Path(__file__).parents[2]
LIBRARY = json.loads((REPO / "library.json").read_text())
DOTENV = (REPO / "dotenv.example").read_text()

# In the image the port is to be reached from outside the container.
OF_THE_IMAGE = {"HTTP_HOST": "0.0.0.0"}  # noqa: S104


def test_what_is_made_of_the_settings_is_up_to_date() -> None:
    assert not outdated(), "run `make generate`"


@pytest.mark.parametrize("name", VARIABLES)
def test_a_setting_is_described_in_sentences_without_links_that_only_its_page_can_follow(name: str) -> None:
    description = VARIABLES[name].description or ""
    assert description.rstrip().endswith(".")
    assert not re.search(r"\]\((?!https?://)", description)


@pytest.mark.parametrize("text", [LIBRARY["longDescription"], (REPO / "docs" / "settings.md").read_text()])
def test_who_misses_a_field_of_the_form_learns_where_the_others_are(text: str) -> None:
    assert "environment variable" in " ".join(text.split())


@pytest.mark.parametrize(("name", "default"), OF_THE_IMAGE.items())
def test_the_image_has_defaults_of_its_own(name: str, default: str) -> None:
    assert re.search(rf"^ +{name}={re.escape(default)} ", (REPO / "Dockerfile").read_text(), re.MULTILINE)


def test_a_prefix_that_is_empty_is_the_one_that_the_pages_tell() -> None:
    with patch.dict(os.environ, FILLED_IN, clear=True):
        assert load_settings().root == DEFAULT_PREFIX
    assert f"Empty: `{DEFAULT_PREFIX}`" in (VARIABLES["S3_PREFIX"].description or "")


def test_the_schema_tells_types_options_and_secrets() -> None:
    properties = json_schema()["properties"]
    assert properties["ON_BAD_RECORD"]["enum"] == ["dead-letter", "skip", "fail"]
    assert properties["COMMIT_INTERVAL"] | {"description": ""} == {
        "description": "",
        "type": ["number", "string"],
        "pattern": "^[0-9.eE+-]+$",
        "default": "30",
    }
    assert properties["MAX_BUFFER_MB"]["type"] == ["integer", "string"]
    assert properties["STREAM_TIMEOUT_MS"]["type"] == ["integer", "string"]
    assert properties["SPARK_DRIVER_MEMORY"]["type"] == "string"
    assert properties["CREATE_BUCKET"]["enum"] == [True, False, "true", "false"]
    assert properties["HASH_SALT"]["writeOnly"] is True
    assert not [name for name in properties if name.startswith("Quix__")]


def test_dotenv_example_starts_as_it_is() -> None:
    variables = {name: value or "" for name, value in dotenv_values(stream=io.StringIO(DOTENV)).items()}
    assert variables == FILLED_IN
    with patch.dict(os.environ, variables, clear=True):
        assert load_settings().storage.uri == "s3://my-lake"


def test_dotenv_example_means_the_same_to_docker() -> None:
    """Docker takes a line as it is: quotes and comments behind a value would become part of it."""
    assignments = [line for line in DOTENV.splitlines() if re.match(r"#?\w+=", line)]
    assert not [line for line in assignments if re.search(r"=.*[\"'# ]", line)]


def test_the_defaults_of_the_form_start_on_the_platform() -> None:
    shown = {each["Name"]: each["DefaultValue"] for each in LIBRARY["Variables"] if "DefaultValue" in each}
    limits = {"Quix__Deployment__Limits__Memory": str(LIBRARY["DeploySettings"]["MemoryInMb"])}
    with patch.dict(os.environ, {**shown, **limits, **ON_PLATFORM}, clear=True):
        settings = load_settings()
    assert settings.storage.uri == "s3://quix-lake"
    assert settings.root == "acme-prod/data-lake/time-series"
    assert settings.memory.shortage is None


def test_the_form_asks_for_little_and_in_the_order_in_which_people_decide() -> None:
    names = [each["Name"] for each in LIBRARY["Variables"]]
    first = ["input", "TABLE_NAME", "HIVE_COLUMNS", "TIMESTAMP_COLUMN", "AUTO_OFFSET_RESET", "CONSUMER_GROUP"]
    first += ["COMMIT_INTERVAL", "COMPACT"]
    assert names[: len(first)] == first
    assert len(names) <= 25
    section = {name: title for title, fields in sections() for name in fields}
    rest = groupby(section[name] for name in names[len(first) :])
    assert [title for title, _ in rest] == ["Store", "Input", "Catalog", "Process"]


def test_the_form_does_not_ask_for_what_the_platform_sets() -> None:
    assert [name for name in FORM if name == "KAFKA_BOOTSTRAP_SERVERS" or name.startswith(PLATFORM)] == []


@pytest.mark.parametrize("field", LIBRARY["Variables"], ids=lambda field: str(field["Name"]))
def test_a_field_of_the_form_is_short_and_of_a_type_that_quix_has(field: dict[str, Any]) -> None:
    assert len(field["Description"]) <= 150
    assert field["Description"].endswith(".")
    words = [each["value"] for each in field.get("options", [])]
    if words:
        assert field["InputType"] == "Options"
        assert field["DefaultValue"] in words
    else:
        assert field["InputType"] in {"InputTopic", "FreeText", "Secret"}
    assert (field["InputType"] == "Secret") == (not VARIABLES[field["Name"]].repr)


def test_the_form_of_quix_cloud() -> None:
    deploy = LIBRARY["DeploySettings"]
    assert len(LIBRARY["shortDescription"]) < 80
    assert [each["Name"] for each in LIBRARY["Variables"] if each["Required"]] == ["input"]
    ports = [{"Port": 80, "TargetPort": VARIABLES["HTTP_PORT"].default}]
    assert deploy["Network"] == {"Ports": ports}, "with a fixed ServiceName no environment could have two"
    assert LIBRARY["libraryItemId"] == "quix-ts-datalake-sink"
    assert LIBRARY["language"] == "Python"
    assert deploy["DeploymentType"] == "Service"
    assert deploy["MemoryInMb"] >= ROOMY_CONTAINER_MB
    assert deploy["CpuMillicores"] >= 1000
    assert deploy["Replicas"] == 1
    assert deploy["PublicAccess"] is False
    assert deploy["ValidateConnection"] is True
    assert deploy["blobStorage"] == {"bind": True}


@pytest.mark.parametrize("field", ["DefaultFile", "EntryPoint", "RunEntryPoint", "IconFile"])
def test_files_named_in_the_form_exist_in_that_very_case(field: str) -> None:
    path = REPO / LIBRARY[field]
    assert path.name in [entry.name for entry in path.parent.iterdir()]
